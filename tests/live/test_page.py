"""The live page in a real browser: drawn, changed, shared, explained, by keyboard, on a phone."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from tests.live.page import (
    faults,
    open_page,
    page_browser,
    painted,
    press,
    settled,
    text,
    until,
)

from schedlab.live import PAGE

pytestmark = pytest.mark.skipif(not PAGE.is_file(), reason="the live page was not built: make live")

ENTRIES = 11
FIXTURES = Path(__file__).parents[2] / "crates" / "replay" / "tests" / "fixtures"


@pytest.fixture(scope="module")
def chrome() -> Iterator[webdriver.Chrome]:
    with page_browser() as made:
        yield made


def test_it_opens_with_sleeper_and_hog_drawn_and_told(chrome: webdriver.Chrome) -> None:
    open_page(chrome)
    assert text(chrome, "title") == "Sleeper and hog"
    # The sentence is what the runs say: both read here from their segments.
    script = """return ['a', 'b'].map(side => {
        const { segment_offset: o, segment_start: s, segment_end: e, segment_state: t }
            = live.runs[side].arrays;
        let most = 0;
        for (let at = o[0]; at < o[1]; at++) if (t[at] === 1) most = Math.max(most, e[at] - s[at]);
        return most; })"""
    waits = chrome.execute_script(script)
    assert waits[0] == 0
    assert waits[1] > 0
    told = f"sleeper never waits in A and waits for {waits[1] / 1e6:g} ms at the longest in B."
    assert text(chrome, "headline") == told
    assert painted(chrome) > 3
    assert faults(chrome) == []


@pytest.mark.parametrize("place", range(ENTRIES))
def test_each_entry_of_the_gallery_is_drawn(chrome: webdriver.Chrome, place: int) -> None:
    open_page(chrome)
    chrome.find_element("id", "menu-gallery").click()
    entry = chrome.find_elements("css selector", "[data-entry]")[place]
    title = entry.find_element("tag name", "b").text.lstrip("0123456789 ")
    entry.click()
    settled(chrome)
    assert text(chrome, "title") == title
    assert faults(chrome) == []
    assert painted(chrome) > 3
    assert len(text(chrome, "sentences")) > 100
    assert text(chrome, "attempt")
    # A and B are not the same run.
    assert text(chrome, "numbers")


def _value(chrome: webdriver.Chrome, label: str, text: str) -> None:
    field = chrome.find_element("css selector", f"[aria-label='{label}']")
    field.clear()
    field.send_keys(text, Keys.ENTER)


CONTROLS: list[tuple[str, Callable[[webdriver.Chrome], object], str]] = [
    ("cpus", lambda chrome: _value(chrome, "CPUs, value", "3"), "cpus=3"),
    ("topology", lambda chrome: _value(chrome, "topology", "smt=1"), "topology=smt%3D1"),
    ("seed", lambda chrome: _value(chrome, "seed", "9"), "seed=9"),
    ("duration", lambda chrome: _value(chrome, "ends after", "50ms"), "duration=50ms"),
    ("policy", lambda chrome: _value(chrome, "policy of hog", "fifo:3"), "policy%3Dfifo%3A3"),
    ("nice", lambda chrome: _value(chrome, "nice of hog", "5"), "nice%3D5"),
    ("slice", lambda chrome: _value(chrome, "slice of hog", "3ms"), "slice%3D3ms"),
    ("affinity", lambda chrome: _value(chrome, "affinity of hog", "0"), "affinity%3D0"),
    ("groups", lambda chrome: _value(chrome, "groups", "/a:weight=300,tasks=1"), "group="),
    ("sessions", lambda chrome: _value(chrome, "sessions", "tty:tasks=1"), "session="),
    ("key", lambda chrome: _value(chrome, "tasks, value", "3"), "tasks%3D3"),
]


@pytest.mark.parametrize(("name", "act", "said"), CONTROLS, ids=[one[0] for one in CONTROLS])
def test_each_control_changes_the_address_and_redraws(
    chrome: webdriver.Chrome, name: str, act: Callable[[webdriver.Chrome], object], said: str
) -> None:
    del name
    open_page(chrome, "workload=hogs:tasks=2,time=40ms&cpus=2")
    chrome.execute_script("for (const one of document.querySelectorAll('details')) one.open = true")
    before = chrome.execute_script("return window.drawn")
    act(chrome)
    settled(chrome)
    assert said in chrome.current_url
    assert chrome.execute_script("return window.drawn") > before
    assert faults(chrome) == []


def test_a_slider_moves_its_knob_and_a_double_click_restores_it(chrome: webdriver.Chrome) -> None:
    open_page(chrome, "workload=hogs:tasks=3,time=60ms&a=6.1&b=6.12")
    slider = chrome.find_element("css selector", "#side-b input[aria-label='base_slice']")
    slider.send_keys(Keys.ARROW_RIGHT * 150)
    settled(chrome)
    assert "base_slice%3D" in chrome.current_url
    assert chrome.find_elements("css selector", "#side-b .knob.changed")
    row = slider.find_element("xpath", "..")
    ActionChains(chrome).double_click(row.find_element("tag name", "label")).perform()
    settled(chrome)
    assert "base_slice" not in chrome.current_url
    # A knob takes units, and says what is allowed.
    _value(chrome, "base_slice, value", "2s")
    assert "allowed: 100us to 1s" in text(chrome, "side-b")
    # What the other fair class has in its place is said, and not shown.
    assert not chrome.find_elements("css selector", "#side-b input[aria-label='latency']")
    assert "latency" in text(chrome, "side-b")


def test_features_and_rules_are_switched_by_name(chrome: webdriver.Chrome) -> None:
    open_page(chrome, "workload=hogs:tasks=2,time=40ms")
    chrome.execute_script("for (const one of document.querySelectorAll('details')) one.open = true")
    for kind, said in (("switches", "feature.RUN_TO_PARITY=0"), ("rules", "rule.")):
        boxes = chrome.find_elements("css selector", f"#side-b [data-name={kind}] label")
        box = next(one for one in boxes if kind == "rules" or one.text == "RUN_TO_PARITY")
        box.click()
        settled(chrome)
        assert quote(said, safe="") in chrome.current_url


def test_the_address_says_the_whole_state(chrome: webdriver.Chrome) -> None:
    text = '{"tasks": {"one": {"loop": 20, "run": 1000, "sleep": 500}, "two": {"run": 30000}}}'
    words = {
        "json": text, "cpus": "2", "costs": "reference", "hz": "1000", "seed": "7",
        "topology": "smt=2", "duration": "25ms", "lanes": "cpu", "a": "5.10;latency=9ms",
        "from": "1000000", "to": "9000000", "task": "one;nice=3", "group": "/g:tasks=1",
        "b": "6.12;base_slice=2ms;feature.PLACE_LAG=0;weights=pfs",
    }  # fmt: skip
    open_page(chrome, "&".join(f"{name}={quote(value, safe='')}" for name, value in words.items()))
    assert faults(chrome) == []
    names = "return live.toAddress(live.fromAddress(location.hash))"
    first = chrome.execute_script(names)
    assert first == chrome.execute_script("return location.hash.slice(1)")
    outcomes = "return ['a', 'b'].map(side => JSON.stringify(live.runs[side].head))"
    seen = chrome.execute_script(outcomes)
    open_page(chrome, first)
    assert chrome.execute_script(outcomes) == seen
    assert chrome.execute_script("return live.timeline.view") == {"from": 1e6, "to": 9e6}


def test_an_error_in_the_editor_is_told_at_its_line(chrome: webdriver.Chrome) -> None:
    open_page(chrome)
    editor = chrome.find_element("id", "editor")
    editor.clear()
    editor.send_keys('{"tasks": {\n  "a": {"run": 1000},\n  "b": {"rum": 1000}\n}}')
    settled(chrome)
    said = text(chrome, "editor-fault")
    assert said.startswith("line 3: ")
    assert "tasks.b.rum" in said
    assert chrome.find_element("css selector", "#gutter .wrong").text == "3"
    editor.send_keys(Keys.END)
    script = """const e = arguments[0];
        e.value = e.value.replace('rum', 'run');
        e.dispatchEvent(new Event('input'));"""
    chrome.execute_script(script, editor)
    settled(chrome)
    assert faults(chrome) == []
    assert chrome.execute_script("return live.runs.a.names") == ["a[0]", "b[0]"] or (
        chrome.execute_script("return live.runs.a.names") == ["a", "b"]
    )


def test_a_moment_is_explained_and_decisions_are_stepped_through(chrome: webdriver.Chrome) -> None:
    open_page(chrome)
    script = """
        const { segment_offset: o, segment_start: s, segment_end: e, segment_state: t }
            = live.runs.b.arrays;
        for (let at = o[0]; at < o[1]; at++) if (t[at] === 1) return (s[at] + e[at]) / 2;"""
    moment = chrome.execute_script(script)
    place = chrome.execute_script(
        """const frame = document.getElementById('frame').getBoundingClientRect();
        const lane = live.timeline.lanes.find(
            one => one.side === 'b' && one.kind === 'task' && one.number === 0);
        const x = live.timeline.x(arguments[0], frame.width);
        return [x - frame.width / 2, lane.top + 10 - frame.height / 2]""",
        moment,
    )
    frame = chrome.find_element("id", "frame")
    chrome.execute_script("arguments[0].scrollIntoView({block: 'center'})", frame)
    ActionChains(chrome).move_to_element_with_offset(
        frame, round(place[0]), round(place[1])
    ).perform()
    until(chrome, "document.querySelectorAll('#reasons li').length")
    assert "hog runs on CPU 0; sleeper waits for" in text(chrome, "present")
    assert "not eligible, lag" in text(chrome, "reasons")
    at = chrome.execute_script("return live.timeline.cursor.time")
    press(chrome, Keys.ARROW_RIGHT)
    until(chrome, f"live.timeline.cursor.time > {at}")
    press(chrome, Keys.ARROW_LEFT)
    until(chrome, f"live.timeline.cursor.time <= {at}")


def test_the_keyboard_moves_zooms_and_swaps(chrome: webdriver.Chrome) -> None:
    open_page(chrome)
    view = "return live.timeline.view"
    first = chrome.execute_script(view)
    press(chrome, "w")
    near = chrome.execute_script(view)
    assert near["to"] - near["from"] < first["to"] - first["from"]
    press(chrome, "d")
    assert chrome.execute_script(view)["from"] > near["from"]
    press(chrome, "f")
    assert chrome.execute_script(view) == {
        "from": 0,
        "to": chrome.execute_script("return live.runs.a.end"),
    }
    press(chrome, "t")
    assert chrome.execute_script("return live.timeline.mode") == "cpu"
    press(chrome, "x")
    settled(chrome)
    assert chrome.execute_script("return live.state().a.release") == "6.12"
    press(chrome, "=")
    settled(chrome)
    assert chrome.execute_script("return live.state().b.release") == "6.12"
    assert "equal" in text(chrome, "numbers")
    press(chrome, "?")
    assert chrome.find_element("id", "keys").is_displayed()
    press(chrome, Keys.ESCAPE)


def test_what_is_copied_is_what_runs(chrome: webdriver.Chrome) -> None:
    open_page(chrome, "workload=hogs:tasks=2,time=40ms&b=6.12;base_slice=2ms")
    command = chrome.execute_script("return live.command()")
    assert (
        "schedlab run hogs:tasks=2,time=40ms --on sim --kernel 6.12 --cpus 1 --costs ideal "
        "--set base_slice=2ms" in command
    )
    ran: list[int] = []
    program = chrome.execute_script("return live.python()").replace(
        "print(name, outcome.turnaround_ns)", "ran.append(outcome.elapsed_ns)"
    )
    exec(program, {"ran": ran})
    assert ran == chrome.execute_script("return ['a', 'b'].map(side => live.runs[side].end)")
    trace = json.loads(chrome.execute_script("return live.perfetto()"))
    spans = [one for one in trace["traceEvents"] if one["ph"] == "X" and one["pid"] == 2]
    # Two hogs of 40 ms on one CPU.
    assert sum(one["dur"] for one in spans) == pytest.approx(80_000)
    drawing = chrome.execute_script("return live.svg()")
    assert (
        chrome.execute_script(
            "const read = new DOMParser().parseFromString(arguments[0], 'image/svg+xml');"
            "return read.querySelectorAll('parsererror').length",
            drawing,
        )
        == 0
    )
    assert "B  6.12" in drawing


def _file(chrome: webdriver.Chrome, path: Path) -> None:
    chrome.find_element("id", "file").send_keys(str(path))


def test_a_recording_is_replayed_kernel_above_rules_below(chrome: webdriver.Chrome) -> None:
    open_page(chrome)
    _file(chrome, FIXTURES / "hogs-6.12.txt.gz")
    until(chrome, "live.runs.a.head.replay && live.runs.b.head.replay")
    settled(chrome)
    assert text(chrome, "title") == "hogs-6.12.txt.gz"
    assert faults(chrome) == []
    assert chrome.execute_script("return live.runs.a.head.label").startswith("recorded 6.12")
    # crates/replay shows that our rules decide as this kernel did: the two schedules are equal.
    assert text(chrome, "headline").startswith("Our rules pick as the kernel did, each time")
    spans = "return ['a', 'b'].map(side => [...live.runs[side].arrays.slice_start].join())"
    first, second = chrome.execute_script(spans)
    assert first == second
    assert painted(chrome) > 2
    # A recording's reasons are shown too.
    press(chrome, Keys.ARROW_RIGHT)
    until(chrome, "document.querySelectorAll('#reasons li').length")
    chrome.find_element("id", "recording-close").click()
    settled(chrome)
    assert text(chrome, "title") == "Sleeper and hog"


def test_a_recording_that_cannot_be_read_is_refused_in_a_line(
    chrome: webdriver.Chrome, tmp_path: Path
) -> None:
    path = tmp_path / "no-recording.txt"
    path.write_text("what is this\n")
    open_page(chrome)
    _file(chrome, path)
    until(chrome, "document.getElementById('recording-fault').textContent")
    assert "\n" not in text(chrome, "recording-fault")


def test_a_million_events_are_drawn(chrome: webdriver.Chrome) -> None:
    open_page(chrome, "workload=pipe:loops=125000&costs=reference&cpus=2")
    until(chrome, "live.runs.a.head.workload !== null && live.runs.b.head.event_count > 0", 60)
    settled(chrome)
    assert faults(chrome) == []
    events = chrome.execute_script(
        "return live.runs.a.head.event_count + live.runs.b.head.event_count"
    )
    assert events >= 1_000_000
    assert painted(chrome) > 2


def test_the_strip_of_differences_marks_the_columns_that_differ(chrome: webdriver.Chrome) -> None:
    open_page(
        chrome, "workload=sleepers:tasks=6,loops=200&cpus=2&costs=reference&a=6.1&b=6.12&lanes=cpu"
    )
    # A column differs if, in its middle, tasks of different names run on some CPU. Here each slice
    # is read in turn; the page steps through them by bisection.
    script = """
        const { a, b } = live.runs, { timeline } = live, end = Math.max(a.end, b.end);
        live.show(end * arguments[0], end * arguments[1]);
        timeline.cursor = null;
        live.paint();
        const width = document.getElementById('frame').clientWidth;
        const left = timeline.x(timeline.view.from, width);
        const name = (run, cpu, time) => {
            const all = run.arrays;
            for (let at = all.slice_offset[cpu]; at < all.slice_offset[cpu + 1]; at++)
                if (all.slice_start[at] <= time && time < all.slice_end[at])
                    return run.names[all.slice_task[at]];
            return '';
        };
        const expected = [], painted = [];
        const lane = timeline.lanes.find(lane => lane.kind === 'differs');
        // The bars end four pixels above the lane's end and are two pixels tall at least.
        const made = document.createElement('canvas');
        [made.width, made.height] = [width, timeline.height];
        const copy = made.getContext('2d', { willReadFrequently: true });
        copy.drawImage(document.getElementById('lanes'), 0, 0);
        const y = lane.top + lane.height - 5;
        const row = copy.getImageData(left, y, Math.floor(width - left), 1).data;
        for (let column = 0; column < Math.floor(width - left); column++) {
            const time = timeline.time(left + column + 0.5, width);
            const differs = cpu => name(a, cpu, time) !== name(b, cpu, time);
            if ([0, 1].some(differs)) expected.push(column);
            if (row[4 * column + 3]) painted.push(column);
        }
        return [expected, painted];"""
    for part in ((0, 1), (0.2, 0.5), (0.31, 0.33)):
        expected, painted = chrome.execute_script(script, *part)
        assert expected
        assert painted == expected


def test_it_fits_a_phone_and_a_dark_room_and_prints(chrome: webdriver.Chrome) -> None:
    metrics = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    open_page(chrome)
    assert chrome.execute_script("return document.documentElement.scrollWidth") <= 390
    chrome.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    dark = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", dark)
    open_page(chrome)
    ground = chrome.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert max(int(part) for part in ground[4:-1].split(",")) < 64
    chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": []})
    assert not chrome.find_element("tag name", "aside").is_displayed()
    chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_the_schedule_can_be_read_as_text(chrome: webdriver.Chrome) -> None:
    open_page(chrome)
    text = chrome.execute_script("return document.getElementById('summary').textContent")
    for said in (
        "A is Linux 6.1",
        "B is Linux 6.12",
        "sleeper ran for",
        "hog ran for",
        "longest single wait",
    ):
        assert said in text
    frame = chrome.find_element("id", "frame")
    assert frame.get_attribute("role") == "img"
    assert frame.get_attribute("aria-describedby") == "headline summary"
    script = """
        return [...document.querySelectorAll('input, select, textarea, button')]
            .filter(one => !one.ariaLabel && !one.textContent.trim() && !one.labels?.length)
            .map(one => one.outerHTML)"""
    assert chrome.execute_script(script) == []


def test_the_page_is_one_file_of_two_megabytes_at_most() -> None:
    text = Path(PAGE).read_text(encoding="utf-8")
    assert len(text) <= 2_000_000
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in text
