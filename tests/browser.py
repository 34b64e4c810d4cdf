"""A real browser for pages: Chromium, driven by its own driver, without a network."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service


@contextmanager
def browser() -> Iterator[webdriver.Chrome]:
    """Start Chromium without a window; skip where it is not installed."""
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("no browser: install chromium and chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    # Nothing of a report may come from elsewhere: every other address fails to resolve.
    options.add_argument("--host-resolver-rules=MAP * ~NOTFOUND")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    chrome = webdriver.Chrome(options=options, service=Service(driver))
    try:
        yield chrome
    finally:
        chrome.quit()


def complaints(chrome: webdriver.Chrome) -> list[str]:
    """Return what the page's scripts and loads went wrong with."""
    logged = chrome.get_log("browser")  # type: ignore[no-untyped-call]
    return [str(entry["message"]) for entry in logged]
