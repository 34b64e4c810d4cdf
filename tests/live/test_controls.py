"""The live page's further controls: kernels, weights, seeds, completion, rules, menus, touch."""

import statistics
from collections.abc import Callable, Iterator
from urllib.parse import quote

import pytest
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select
from tests.live.page import faults, open_page, page_browser, press, settled, text, until

from schedlab import Machine, Scheduler, simulate
from schedlab.live import PAGE

pytestmark = pytest.mark.skipif(not PAGE.is_file(), reason="the live page was not built: make live")

UNFOLD = "for (const one of document.querySelectorAll('aside details')) one.open = true"


@pytest.fixture(scope="module")
def chrome() -> Iterator[webdriver.Chrome]:
    with page_browser() as made:
        yield made


def _choose(chrome: webdriver.Chrome, label: str, said: str) -> None:
    found = chrome.find_element("css selector", f"[aria-label='{label}']")
    Select(found).select_by_visible_text(said)


def _field(chrome: webdriver.Chrome, label: str, said: str) -> None:
    found = chrome.find_element("css selector", f"[aria-label='{label}']")
    found.clear()
    found.send_keys(said, Keys.ENTER)


CHOICES: list[tuple[str, Callable[[webdriver.Chrome], object], str]] = [
    ("kernel", lambda chrome: _choose(chrome, "kernel B", "7.2 EEVDF"), "b=7.2"),
    (
        "weights",
        lambda chrome: _choose(chrome, "thread weights of A", "weights: pfs"),
        "weights=pfs",
    ),
    ("costs", lambda chrome: _choose(chrome, "costs", "linsched: the study's"), "costs=linsched"),
    ("ticks", lambda chrome: _choose(chrome, "ticks a second", "1000"), "hz=1000"),
    ("workload", lambda chrome: _choose(chrome, "workload", "pipe"), "workload=pipe"),
    (
        "policy",
        lambda chrome: _field(chrome, "policy of all tasks of B", "batch"),
        "task.policy=batch",
    ),
    ("nice", lambda chrome: _field(chrome, "nice of all tasks of A", "3"), "task.nice=3"),
    ("slice", lambda chrome: _field(chrome, "slice of all tasks of B", "1ms"), "task.slice=1ms"),
]


@pytest.mark.parametrize(("name", "act", "said"), CHOICES, ids=[one[0] for one in CHOICES])
def test_each_choice_changes_the_address_and_redraws(
    chrome: webdriver.Chrome, name: str, act: Callable[[webdriver.Chrome], object], said: str
) -> None:
    del name
    open_page(chrome, "workload=hogs:tasks=2,time=40ms&cpus=2")
    chrome.execute_script(UNFOLD)
    before = chrome.execute_script("return window.drawn")
    act(chrome)
    settled(chrome)
    assert quote(said, safe="=") in chrome.current_url.replace("%3D", "=")
    assert chrome.execute_script("return window.drawn") > before
    assert faults(chrome) == []


def test_a_combination_of_rules_that_no_kernel_has_is_called_hybrid(
    chrome: webdriver.Chrome,
) -> None:
    open_page(chrome, "workload=hogs:tasks=2,time=40ms&a=6.12&b=6.12;rule.yield_forfeits=off")
    said = "6.12.95, hybrid: yield_forfeits=off"
    assert Scheduler("6.12", rules={"yield_forfeits": False}).label == said
    # Beside the kernel, over its lanes, in the words of the picture, in its notes and its trace.
    assert text(chrome, "hybrid-b").startswith(said)
    assert text(chrome, "hybrid-a") == ""
    assert said in chrome.execute_script("return live.svg()")
    words = "return document.getElementById(arguments[0]).textContent"
    assert said in chrome.execute_script(words, "summary")
    assert "hybrid that no kernel has" in chrome.execute_script(words, "notes")
    assert said in chrome.execute_script("return live.perfetto()")
    # A rule that the release has already makes none.
    open_page(chrome, "workload=hogs:tasks=2,time=40ms&b=6.12;rule.yield_forfeits=on")
    assert text(chrome, "hybrid-b") == ""


def test_over_20_seeds_there_are_medians_and_intervals(chrome: webdriver.Chrome) -> None:
    workload = "sleepers:tasks=4,loops=30"
    open_page(chrome, f"workload={workload}&cpus=2&costs=reference&a=6.1&b=6.12")
    chrome.find_element("id", "seeds").click()
    until(
        chrome,
        "document.getElementById('seed-state').textContent.includes('every seed')"
        " || document.getElementById('seed-state').textContent.startsWith('medians')",
        60,
    )
    assert "seeds=20" in chrome.current_url
    found = chrome.execute_script(
        "return [...document.querySelectorAll('.metric')].map(one => one.textContent)"
    )
    machine = Machine(2, "reference")
    middle = [
        statistics.median(
            simulate(workload, scheduler=release, machine=machine, seed=seed).switches
            for seed in range(1, 21)
        )
        for release in ("6.1", "6.12")
    ]
    shown = next(one for one in found if one.startswith("switches"))
    assert shown.startswith(f"switchesA {middle[0]:g}B {middle[1]:g}")


def test_the_interval_is_that_of_the_sign_test(chrome: webdriver.Chrome) -> None:
    open_page(chrome)
    # For n = 20 the 6th and the 15th value hold the median between them with probability
    # 1 - 2 P(X <= 5) = 0.959; one step inside it would be 0.885 (Conover 1999, table A3).
    assert chrome.execute_script(
        "return live.interval(Array.from({ length: 20 }, (_, place) => place + 1))"
    ) == [6, 15]
    words = chrome.execute_script(
        """const as = Array.from({ length: 20 }, () => 100);
        const mixed = as.map((a, place) => a + (place % 2 ? 5 : -5));
        const above = as.map((a, place) => a + 10 + place % 2);
        return [as, mixed, above].map(bs => live.compared(as, bs, String).words)"""
    )
    assert words[0] == "equal"
    assert words[1].startswith("may be chance")
    assert words[2].startswith("+11 % (+10 % to +11 %)") or words[2].startswith("+10 %")


def test_the_editor_completes_keys_and_values(chrome: webdriver.Chrome) -> None:
    open_page(chrome)
    editor = chrome.find_element("id", "editor")
    editor.clear()
    editor.send_keys('{"tasks": {"one": {"pol')
    offered = [one.text for one in chrome.find_elements("css selector", "#completion b")]
    assert offered == ["policy"]
    editor.send_keys(Keys.TAB)
    # Of the values the second: SCHED_BATCH, in the order of the language's schema.
    editor.send_keys('"SCHED')
    names = [one.text for one in chrome.find_elements("css selector", "#completion b")]
    assert names[:2] == ["SCHED_OTHER", "SCHED_BATCH"]
    active = editor.get_attribute("aria-activedescendant")
    editor.send_keys(Keys.ARROW_DOWN)
    assert editor.get_attribute("aria-activedescendant") != active
    editor.send_keys(Keys.ENTER)
    editor.send_keys(', "ru')
    editor.send_keys(Keys.ARROW_DOWN, Keys.ESCAPE)
    assert not chrome.find_element("id", "completion").is_displayed()
    editor.send_keys('n": 1000}}}')
    settled(chrome)
    assert editor.get_attribute("value") == (
        '{"tasks": {"one": {"policy": "SCHED_BATCH", "run": 1000}}}'
    )
    assert faults(chrome) == []
    # Without a letter typed Ctrl and space offer all that fits: here what concerns all tasks.
    editor.clear()
    editor.send_keys('{"global": {"')
    editor.send_keys(Keys.CONTROL, " ")
    offered = [one.text for one in chrome.find_elements("css selector", "#completion b")]
    assert "duration" in offered
    assert "policy" not in offered
    press(chrome, Keys.ESCAPE)


def test_a_rules_name_leads_to_its_page(chrome: webdriver.Chrome) -> None:
    for side, title in (("a", "CFS, rule by rule"), ("b", "EEVDF: lag, eligibility, deadlines")):
        open_page(chrome)
        chrome.execute_script(
            "live.timeline.cursor = {side: arguments[0], kind: 'cpu', number: 0, time: 0}", side
        )
        press(chrome, Keys.ARROW_RIGHT)
        until(chrome, "document.querySelectorAll('#reasons .rule').length")
        chrome.find_element("css selector", "#reasons .rule").click()
        assert chrome.find_element("css selector", "#concept-text h2").text == title
        assert len(chrome.find_elements("css selector", "#concept-text tr")) > 5
        press(chrome, Keys.ESCAPE)


def test_throttled_real_time_tasks_have_a_state_of_their_own(chrome: webdriver.Chrome) -> None:
    open_page(chrome)
    chrome.execute_script("document.querySelector('[data-entry=realtime]').click()")
    settled(chrome)
    script = """return ['a', 'b'].map(side => {
        const { segment_offset: o, segment_state: s } = live.runs[side].arrays;
        const own = live.runs[side].names.indexOf('realtime');
        return [...new Set(s.slice(o[own], o[own + 1]))].sort(); })"""
    # 6.1 throttles it (2) and it waits for nothing else; in 6.12 it waits (1) for the fair server.
    assert chrome.execute_script(script) == [[0, 2], [0, 1]]


def test_the_gallery_has_what_its_sentences_say(chrome: webdriver.Chrome) -> None:
    share = """
        const [side, kind] = arguments, run = live.runs[side];
        const of = tasks => tasks.reduce((total, task) => total + task.run_ns, 0);
        const own = run.head.outcome.tasks.filter(
            (_, task) => run.head.kinds[run.arrays.task_kind[task]] === kind);
        return of(own) / of(run.head.outcome.tasks);"""
    expected = {
        # Figures 2 and 3 of the study: 10/10/80 % under CFS, a third each under PFS.
        ("threads", "a", "carol"): 0.80,
        ("threads", "b", "alice"): 1 / 3,
        # 950 of 1000 ms.
        ("realtime", "a", "realtime"): 0.95,
        ("realtime", "b", "realtime"): 0.95,
    }
    for (entry, side, kind), value in expected.items():
        open_page(chrome)
        chrome.execute_script(
            "document.querySelector(arguments[0]).click()", f"[data-entry={entry}]"
        )
        settled(chrome)
        assert chrome.execute_script(share, side, kind) == pytest.approx(value, abs=0.02)
    # The regression's row: simulated, the task has 0.828 of the CPU time that it had.
    open_page(chrome)
    chrome.execute_script("document.querySelector('[data-entry=regression]').click()")
    settled(chrome)
    parts = [chrome.execute_script(share, side, "half") for side in ("a", "b")]
    assert parts[1] / parts[0] == pytest.approx(0.828, abs=0.03)


def test_the_share_menu_copies_and_saves(chrome: webdriver.Chrome) -> None:
    open_page(chrome, "workload=hogs:tasks=2,time=40ms")
    # Without a clipboard what is copied is shown, to be copied by hand; files are handed over.
    chrome.execute_script(
        """navigator.clipboard.writeText = () => Promise.reject(new Error('none'));
        window.saved = [];
        HTMLAnchorElement.prototype.click = function () { window.saved.push(this.download); };"""
    )
    beginnings = {
        "link": "file:",
        "command": "schedlab run",
        "python": "import schedlab",
        "json": "{",
    }
    for kind, beginning in beginnings.items():
        chrome.find_element("css selector", "#menu-share summary").click()
        chrome.find_element("css selector", f"[data-share={kind}]").click()
        until(chrome, "document.getElementById('copied-box').open")
        assert str(chrome.find_element("id", "copied").get_attribute("value")).startswith(beginning)
        chrome.find_element("css selector", "#copied-box button").click()
    for kind in ("perfetto", "png", "svg"):
        chrome.find_element("css selector", "#menu-share summary").click()
        chrome.find_element("css selector", f"[data-share={kind}]").click()
    until(chrome, "window.saved.length === 3")
    saved = chrome.execute_script("return window.saved")
    assert sorted(saved) == ["schedlab.json", "schedlab.png", "schedlab.svg"]


def test_wheel_drag_and_pinch_move_the_view(chrome: webdriver.Chrome) -> None:
    open_page(chrome)
    view = "return live.timeline.view"
    frame = chrome.find_element("id", "frame")
    chrome.execute_script("arguments[0].scrollIntoView({block: 'center'})", frame)
    first = chrome.execute_script(view)
    chrome.execute_script(
        """const box = arguments[0].getBoundingClientRect();
        arguments[0].dispatchEvent(new WheelEvent('wheel', {deltaY: -200, bubbles: true,
            cancelable: true, clientX: box.left + box.width / 2, clientY: box.top + 40}));""",
        frame,
    )
    near = chrome.execute_script(view)
    assert near["to"] - near["from"] < first["to"] - first["from"]
    ActionChains(chrome).click_and_hold(frame).move_by_offset(-80, 0).release().perform()
    assert chrome.execute_script(view)["from"] > near["from"]
    pinch = """
        const frame = arguments[0], box = frame.getBoundingClientRect(), y = box.top + 60;
        const at = (type, id, x) => frame.dispatchEvent(new PointerEvent(type,
            {pointerId: id, clientX: box.left + x, clientY: y, bubbles: true}));
        at('pointerdown', 11, 400); at('pointerdown', 12, 500);
        at('pointermove', 12, 700);
        at('pointerup', 11, 400); at('pointerup', 12, 700);"""
    before = chrome.execute_script(view)
    chrome.execute_script(pinch, frame)
    after = chrome.execute_script(view)
    # The fingers are three times as far apart as they were: a third of the time is seen.
    room = (before["to"] - before["from"]) / 3
    assert after["to"] - after["from"] == pytest.approx(room, rel=0.02)


def test_a_task_is_found_and_differences_stand_alone(chrome: webdriver.Chrome) -> None:
    open_page(chrome)
    press(chrome, "/")
    chrome.switch_to.active_element.send_keys("hog")
    lanes = "return live.timeline.layout().filter(one => one.kind === 'task').map(one => one.label)"
    assert set(chrome.execute_script(lanes)) == {"hog"}
    chrome.switch_to.active_element.send_keys(Keys.ESCAPE)
    press(chrome, "D")
    sides = "return [...new Set(live.timeline.layout().map(one => one.side))]"
    assert chrome.execute_script(sides) == ["b"]
    before = chrome.execute_script("return document.getElementById('curves').toDataURL()")
    _choose(chrome, "quantity", "lag")
    until(chrome, f"document.getElementById('curves').toDataURL() !== {before!r}")
    # In A the sleeper never waits, so that the hog has all the waits there are.
    _choose(chrome, "whose waits", "sleeper")
    assert text(chrome, "numbers").replace("\n", " ").startswith("p99 wait A none B 4 ms")


def test_a_knob_says_which_values_are_allowed(chrome: webdriver.Chrome) -> None:
    # As 'schedlab knobs --kernel 6.1' and '--kernel 6.12' have them.
    open_page(chrome, "workload=pipe&a=6.1&b=6.12&cpus=1&costs=ideal&seed=1")
    chrome.execute_script(UNFOLD)
    for knob in ("latency", "base_slice"):
        row = chrome.find_element("css selector", f".knob input[aria-label='{knob}']")
        assert (row.get_attribute("title") or "").endswith("; 100us to 1s")
