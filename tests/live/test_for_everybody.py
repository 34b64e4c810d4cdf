"""The live page by keyboard alone, for colour-blind eyes, in the dark, on a phone and on paper."""

import base64
import itertools
import math
from collections.abc import Iterator

import pytest
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from tests.live.page import faults, open_page, page_browser, press, settled, text, until

from schedlab.live import PAGE

pytestmark = pytest.mark.skipif(not PAGE.is_file(), reason="the live page was not built: make live")

UNFOLD = "for (const one of document.querySelectorAll('aside details')) one.open = true"

ENTRIES = ["sleeper", "threads", "realtime", "quota", "hackbench", "regression"]


@pytest.fixture(scope="module")
def chrome() -> Iterator[webdriver.Chrome]:
    with page_browser() as made:
        yield made


# Machado, Oliveira and Fernandes, "A physiologically-based model for simulation of color vision
# deficiency" (2009), severity 1.0, for linear RGB.
VISION = {
    "trichromat": [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
    "protanope": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranope": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanope": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}


def _linear(colour: str) -> list[float]:
    """Return a colour's linear RGB (IEC 61966-2-1)."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    return [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts]


def _lab(linear: list[float]) -> tuple[float, float, float]:
    """Return CIELAB under D65."""
    red, green, blue = (min(max(one, 0.0), 1.0) for one in linear)
    white = (0.95047, 1.0, 1.08883)
    rows = (
        (0.4124564, 0.3575761, 0.1804375),
        (0.2126729, 0.7151522, 0.0721750),
        (0.0193339, 0.1191920, 0.9503041),
    )
    x, y, z = (
        (row[0] * red + row[1] * green + row[2] * blue) / ground
        for row, ground in zip(rows, white, strict=True)
    )

    def root(value: float) -> float:
        return value ** (1 / 3) if value > (6 / 29) ** 3 else value * (29 / 6) ** 2 / 3 + 4 / 29

    return 116 * root(y) - 16, 500 * (root(x) - root(y)), 200 * (root(y) - root(z))


@pytest.mark.parametrize("vision", VISION)
def test_kinds_of_tasks_are_told_apart_by_any_eye(chrome: webdriver.Chrome, vision: str) -> None:
    open_page(chrome)
    palette = chrome.execute_script("return live.palette")
    assert len(palette) == 8
    matrix = VISION[vision]
    seen = [
        _lab([sum(part * one for part, one in zip(row, linear, strict=True)) for row in matrix])
        for linear in map(_linear, palette)
    ]
    # A just noticeable difference is 2.3 (Mahy, Van Eycken and Oosterlinck 1994): six of them here.
    least = min(math.dist(one, other) for one, other in itertools.combinations(seen, 2))
    assert least >= 6 * 2.3


def test_the_keyboard_alone_does_everything(chrome: webdriver.Chrome) -> None:
    open_page(chrome)
    # Each control is reached by Tab, in the order of the page, and shows that it has the focus.
    chrome.execute_script(
        "for (const one of document.querySelectorAll('aside details')) one.open = true"
    )
    wanted = chrome.execute_script(
        """const all = 'button, select, input, textarea, summary, [tabindex]';
        return [...document.querySelectorAll(all)].filter(one => one.checkVisibility()
            && !one.closest('dialog') && !one.closest('.menu .list, .menu ol')).length"""
    )
    seen = set()
    chrome.execute_script("document.body.tabIndex = -1; document.body.focus()")
    for _ in range(wanted + 40):
        # A field for files takes no keys from an element's side.
        ActionChains(chrome).send_keys(Keys.TAB).perform()
        here = chrome.execute_script(
            """const one = document.activeElement;
            one.dataset.number ??= String(Math.random());
            const style = getComputedStyle(one.closest('label.button') ?? one);
            return [one.dataset.number, one.tagName, style.outlineStyle]"""
        )
        if here[1] in {"BODY", "HTML"} or here[0] in seen:
            break
        seen.add(here[0])
        assert here[2] != "none", here
        # The editor's Tab is the browser's: it moves on.
    assert len(seen) >= wanted
    # A menu opens by Enter, its entry by Enter too.
    summary = chrome.find_element("css selector", "#menu-gallery summary")
    summary.send_keys(Keys.ENTER)
    entry = chrome.find_elements("css selector", "[data-entry]")[2]
    entry.send_keys(Keys.ENTER)
    settled(chrome)
    assert text(chrome, "title") == "Greedy threads"
    # The reason is found by stepping alone, and its page opened and closed.
    press(chrome, Keys.ARROW_RIGHT)
    until(chrome, "document.querySelectorAll('#reasons .rule').length")
    chrome.find_element("css selector", "#reasons .rule").send_keys(Keys.ENTER)
    assert text(chrome, "concept-text").startswith("CFS, rule by rule")
    chrome.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert not chrome.find_element("id", "concept").is_displayed()


def test_what_is_read_aloud_says_what_is_drawn(chrome: webdriver.Chrome) -> None:
    open_page(chrome, "workload=hogs:tasks=2,time=10ms&a=6.1&b=6.12")
    # Two hogs of 10 ms on one CPU: each runs for 10 ms.
    said = chrome.execute_script("return document.getElementById('summary').textContent")
    assert said.count("hog[0] ran for 10 ms") == 2
    assert "on 1 CPU" in said
    for identity in ("present", "reasons"):
        assert chrome.find_element("id", identity).get_attribute("aria-live") == "polite"
    frame = chrome.find_element("id", "frame")
    names = (frame.get_attribute("aria-describedby") or "").split()
    assert all(
        chrome.execute_script("return document.getElementById(arguments[0]).textContent", one)
        for one in names
    )
    # The language is named, and each chart has a name.
    assert chrome.find_element("tag name", "html").get_attribute("lang") == "en"
    for identity in ("curves", "delays"):
        assert chrome.find_element("id", identity).get_attribute("aria-label")


@pytest.mark.parametrize("entry", ENTRIES)
def test_nothing_is_wider_than_a_phone(chrome: webdriver.Chrome, entry: str) -> None:
    metrics = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        open_page(chrome)
        chrome.execute_script(
            "document.querySelector(`[data-entry=${arguments[0]}]`).click()", entry
        )
        settled(chrome)
        chrome.execute_script(
            "for (const one of document.querySelectorAll('aside details')) one.open = true"
        )
        assert faults(chrome) == []
        assert chrome.execute_script("return document.documentElement.scrollWidth") <= 390
        # The schedule comes before the settings.
        order = chrome.execute_script(
            "return ['frame', 'workload'].map("
            "id => document.getElementById(id).getBoundingClientRect().top)"
        )
        assert order[0] < order[1]
    finally:
        chrome.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def _ratio(one: str, other: str) -> float:
    """Return the contrast of two computed colours (WCAG 2.2)."""

    def luminance(colour: str) -> float:
        parts = [int(part) for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
        linear = _linear("#" + "".join(f"{part:02x}" for part in parts))
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    bright, dim = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_readable_on_its_ground(chrome: webdriver.Chrome, scheme: str) -> None:
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    try:
        open_page(chrome)
        pairs = chrome.execute_script(
            """const all = 'h1, h2, p, label, dt, dd b, em, summary, button, th, li';
            return [...document.querySelectorAll(all)]
                .filter(one => one.checkVisibility() && one.textContent.trim())
                .map(one => {
                    let ground = one;
                    const clear = one => /, 0\\)$/.test(getComputedStyle(one).backgroundColor);
                    while (ground.parentElement && clear(ground)) ground = ground.parentElement;
                    return [getComputedStyle(one).color, getComputedStyle(ground).backgroundColor];
                })"""
        )
        assert len(pairs) > 30
        # WCAG's least for text.
        assert min(itertools.starmap(_ratio, pairs)) >= 4.5
    finally:
        chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_on_paper_is_what_was_on_the_screen(chrome: webdriver.Chrome) -> None:
    open_page(chrome)
    chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        for hidden in ("aside", "nav", ".tools", ".steps"):
            assert not chrome.find_element("css selector", hidden).is_displayed()
        for shown in ("story", "numbers", "legend", "lanes", "headline", "curves"):
            assert chrome.find_element("id", shown).is_displayed()
        printed = chrome.execute_cdp_cmd(
            "Page.printToPDF", {"paperWidth": 8.27, "paperHeight": 11.69}
        )
        assert len(base64.b64decode(printed["data"])) > 10_000
    finally:
        chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
