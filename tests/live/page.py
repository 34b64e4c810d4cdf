"""The live page in Chromium: opened, waited for, read."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from selenium import webdriver
from tests.browser import browser, complaints

from schedlab.live import PAGE


@contextmanager
def page_browser() -> Iterator[webdriver.Chrome]:
    """Start Chromium at a desktop's size; fail where a page complained."""
    with browser() as made:
        made.set_window_size(1400, 1000)
        yield made
        assert complaints(made) == []


def until(chrome: webdriver.Chrome, script: str, seconds: float = 20) -> Any:
    """Return the script's value once it is true."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        if value := chrome.execute_script(f"return {script}"):
            return value
        time.sleep(0.02)
    raise AssertionError(f"never true: {script}")


def open_page(chrome: webdriver.Chrome, fragment: str = "") -> None:
    """Open the page at an address, and wait until it is drawn."""
    chrome.get("about:blank")
    chrome.get(f"{PAGE.as_uri()}#{fragment}" if fragment else PAGE.as_uri())
    until(chrome, "window.live && live.runs.a && live.runs.b && live.timeline.lanes")
    settled(chrome)


def settled(chrome: webdriver.Chrome) -> None:
    """Wait until nothing is simulated or drawn any more."""
    script = """
        const done = arguments[0];
        let last = null, since = performance.now();
        const look = () => {
            const now = [window.drawn, document.body.classList.contains('busy')].join();
            if (now !== last) { last = now; since = performance.now(); }
            const busy = document.body.classList.contains('busy');
            if (performance.now() - since > 250 && !busy) done();
            else setTimeout(look, 20);
        };
        look();"""
    chrome.set_script_timeout(30)
    chrome.execute_async_script(script)


def text(chrome: webdriver.Chrome, identity: str) -> str:
    """Return an element's text."""
    return chrome.find_element("id", identity).text


def faults(chrome: webdriver.Chrome) -> list[str]:
    """Return the errors that the page shows."""
    script = "return [...document.querySelectorAll('.fault')].map(e => e.textContent)"
    return [text for text in chrome.execute_script(script) if text]


def painted(chrome: webdriver.Chrome) -> int:
    """Return how many different colours the timeline has."""
    script = """
        const canvas = document.getElementById('lanes');
        const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
        const seen = new Set();
        for (let at = 0; at < data.length; at += 4) if (data[at + 3] === 255)
            seen.add(data[at] << 16 | data[at + 1] << 8 | data[at + 2]);
        return seen.size;"""
    return int(chrome.execute_script(script))


def press(chrome: webdriver.Chrome, key: str) -> None:
    """Press a key anywhere on the page."""
    chrome.find_element("tag name", "body").send_keys(key)
