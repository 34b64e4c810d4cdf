"""A real browser for pages: Chromium, driven by its own driver, without a network."""

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.keys import Keys
from tests import needs


@contextmanager
def browser() -> Iterator[webdriver.Chrome]:
    """Start Chromium without a window; skip where it is not installed."""
    needs.require("chromium", "chromium-driver")
    binary, driver = str(shutil.which("chromium")), str(shutil.which("chromedriver"))
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


def check_report(chrome: webdriver.Chrome, directory: Path) -> None:
    """See that a study's report works, whole: drawn, on a phone, by keyboard, and printed.

    Args:
        chrome: the browser.
        directory: where the study wrote ``report.html`` and ``summary.json``.
    """
    page = directory / "report.html"
    assert page.stat().st_size < 3_000_000
    summary = json.loads((directory / "summary.json").read_text())
    chrome.get(page.as_uri())
    _drawn(chrome, len(summary["figures"]), bool(summary["timeline"]))
    check_layout(chrome)
    _on_a_phone(chrome)
    _by_keyboard(chrome)
    _timeline(chrome)
    _printed(chrome)
    assert complaints(chrome) == []


def _drawn(chrome: webdriver.Chrome, count: int, timeline: bool) -> None:
    figures = chrome.find_elements("css selector", "main > figure")
    assert len(figures) == count + timeline
    for figure in figures:
        drawing = figure.find_element("tag name", "svg")
        assert drawing.size["height"] > 50
        box = figure.find_element("css selector", "[role=img]")
        assert len(box.get_attribute("aria-label") or "") > 20
        assert box.get_attribute("tabindex") == "0"


def check_layout(chrome: webdriver.Chrome) -> None:
    """See how a report is laid out on a desktop, a phone and a dark screen.

    The answer comes first, then what shows it, how sure it is and the next command; limits and all
    that is looked up are folded behind. Charts have 900 pixels at least on a desktop, and nothing
    is wider than a phone.
    """
    order = chrome.execute_script(
        "return [...document.querySelectorAll('main > *')].map("
        "(one) => one.matches('.answer') ? 'answer' : one.matches('figure') ? 'figure' : "
        "one.matches('h2') ? one.id : one.tagName === 'DETAILS' ? 'folded' : '')"
    )
    order = [
        one for one in order if one in {"answer", "figure", "claims", "sure", "next", "folded"}
    ]
    ranks = {"answer": 0, "figure": 1, "claims": 2, "sure": 2, "next": 3, "folded": 4}
    assert [ranks[one] for one in order] == sorted(ranks[one] for one in order)
    assert {"answer", "figure", "next", "folded"} <= set(order)
    assert chrome.execute_script("return document.querySelectorAll('details[open]').length") == 0
    wide = "return [...document.querySelectorAll('.chart')].map((one) => one.querySelector"
    for width, drawing, least in ((1400, ".desk svg", 900), (390, ".phone svg", 250)):
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 1000}
        chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        assert chrome.execute_script("return document.documentElement.scrollWidth") <= width
        shown = chrome.execute_script(f"{wide}('{drawing}').getBoundingClientRect().width)")
        assert all(least <= one < width for one in shown), shown
    chrome.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    dark = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", dark)
    places = ["body", ".answer", ".chart text"]
    colors = [chrome.find_element("css selector", one) for one in places]
    background = _brightness(colors[0].value_of_css_property("background-color"))
    assert background < 60
    assert _brightness(colors[1].value_of_css_property("color")) > 180
    assert _brightness(colors[2].value_of_css_property("fill")) > 180
    chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def _brightness(color: str) -> float:
    """Return the mean of red, green and blue of a computed colour."""
    parts = [float(one) for one in re.findall(r"[0-9.]+", color)[:3]]
    return sum(parts) / 3


def _on_a_phone(chrome: webdriver.Chrome) -> None:
    """See that nothing but tables and drawings, in boxes of their own, scrolls sideways."""
    metrics = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    assert chrome.execute_script("return document.documentElement.scrollWidth") <= 390
    # A claim there is a card: its cells stand below each other, each named.
    cells = chrome.find_elements("css selector", ".words tbody tr:first-child td")
    tops = [cell.location["y"] for cell in cells]
    assert tops == sorted(set(tops))
    names = [one.get_attribute("data-label") for one in cells[1:]]
    assert names == ["paper", "ours", "verdict"]
    chrome.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def _by_keyboard(chrome: webdriver.Chrome) -> None:
    links = chrome.find_elements("css selector", "nav a")
    for link in links:
        part = (link.get_attribute("href") or "").partition("#")[2]
        assert chrome.find_element("id", part).text
    links[0].send_keys(Keys.ENTER)
    assert chrome.current_url.endswith("#figures")
    # What scrolls by itself takes the focus, and says what it is.
    boxes = chrome.find_elements("css selector", ".wide")
    assert boxes
    for box in boxes:
        assert box.get_attribute("tabindex") == "0"
        assert box.get_attribute("aria-label")


def _timeline(chrome: webdriver.Chrome) -> None:
    where = chrome.find_element("css selector", ".where")
    whole = where.text
    box = chrome.find_element("css selector", ".lanes")
    box.send_keys("+")
    closer = where.text
    assert closer != whole
    box.send_keys(Keys.ARROW_RIGHT)
    assert where.text != closer
    box.send_keys("0")
    assert where.text == whole
    chrome.find_element("css selector", "button[data-act=in]").click()
    assert where.text == closer
    # Each task's vruntime on demand, and its lag where there is one.
    chosen = chrome.find_element("css selector", "select.curve")
    chosen.send_keys(Keys.ARROW_DOWN)
    assert chrome.find_elements("css selector", ".standing")
    assert chrome.find_element("css selector", ".range").text.startswith("vruntime: ")
    chosen.send_keys(Keys.HOME)
    assert not chrome.find_elements("css selector", ".standing")


def _printed(chrome: webdriver.Chrome) -> None:
    chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    # Buttons are of no use there, and nothing hides behind a scroll bar.
    assert not chrome.find_element("css selector", "nav").is_displayed()
    assert not chrome.find_element("css selector", "button[data-act=in]").is_displayed()
    # What is folded on a screen is open on paper.
    folded = "return [...document.querySelectorAll('details > *:not(summary)')]"
    assert chrome.execute_script(f"{folded}.every((one) => one.checkVisibility())")
    for box in chrome.find_elements("css selector", ".wide, .lanes"):
        assert box.value_of_css_property("overflow-x") == "visible"
    printed = chrome.execute_cdp_cmd("Page.printToPDF", {})["data"]
    assert len(printed) > 10_000
    chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
