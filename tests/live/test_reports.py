"""Reports lead into the live page, which opens with the runs that they speak of."""

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, quote

import pytest
from selenium import webdriver
from tests.live.page import faults, page_browser, settled, until

from schedlab import Attributes, Machine, Scheduler, Workload, simulate
from schedlab.boundary.errors import InputError
from schedlab.cli.main import invoke
from schedlab.live import PAGE, Server, put_beside
from schedlab.live.runs import of_report
from schedlab.report.study_page import report
from schedlab.store import Store
from schedlab.studies.recording import timeline_of

built = pytest.mark.skipif(not PAGE.is_file(), reason="the live page was not built: make live")

WORKLOAD = "sleepers:tasks=3,loops=20"


@pytest.fixture(scope="module")
def chrome() -> Iterator[webdriver.Chrome]:
    with page_browser() as made:
        yield made


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


def _experiment(store: Path, *words: str) -> str:
    """Run a command that stores an experiment; return the newest one's id."""
    assert invoke([*words, "--store", str(store)]) == 0
    with Store(store, create=False) as opened:
        # A tuning is begun before the comparison of its winner.
        kinds = {"compare": "compare", "tune": "tune"}
        return next(one.id for one in opened.experiments() if one.kind == kinds[words[0]])


def _compared(store: Path) -> str:
    words = ["compare", WORKLOAD, "--set", "base_slice=1ms,9ms", "--policy", "batch"]
    words += ["--kernel", "6.12", "--cpus", "2", "--costs", "reference", "--blocks", "2"]
    return _experiment(store, *words)


def _elapsed(chrome: webdriver.Chrome) -> list[int]:
    until(chrome, "window.live && live.runs.a && live.runs.b && live.timeline.lanes")
    settled(chrome)
    assert faults(chrome) == []
    outcomes = "return ['a', 'b'].map(side => live.runs[side].head.outcome.elapsed_ns)"
    return list(chrome.execute_script(outcomes))


@built
def test_a_comparisons_report_opens_its_two_settings(
    chrome: webdriver.Chrome, store: Path, tmp_path: Path
) -> None:
    identity = _compared(store)
    page = tmp_path / "compared.html"
    assert invoke(["report", identity, "--store", str(store), "--output", str(page)]) == 0
    chrome.get(page.as_uri())
    link = chrome.find_element("css selector", ".live a")
    assert f"schedlab live {identity[:8]}" in chrome.find_element("tag name", "main").text
    link.click()
    # The same runs, simulated here from what the command says.
    machine, batch = Machine(2, "reference"), Attributes("batch")
    expected = [
        simulate(
            WORKLOAD,
            scheduler=Scheduler("6.12", knobs={"base_slice": size}),
            machine=machine,
            attributes=batch,
        ).elapsed_ns
        for size in ("1ms", "9ms")
    ]
    found = _elapsed(chrome)
    assert expected[0] in found
    assert expected[1] in found
    # What it shows can be copied as a command with the policy of its tasks.
    assert "--policy batch" in chrome.execute_script("return live.command()")


@built
def test_a_tunings_report_opens_default_and_winner(
    chrome: webdriver.Chrome, store: Path, tmp_path: Path
) -> None:
    words = ["tune", WORKLOAD, "--knobs", "base_slice=1ms..20ms", "--by", "random"]
    words += ["--executions", "3", "--kernel", "6.12", "--costs", "reference", "--cpus", "1"]
    identity = _experiment(store, *words, "--blocks", "2")
    page = tmp_path / "tuned.html"
    assert invoke(["report", identity, "--store", str(store), "--output", str(page)]) == 0
    chrome.get(page.as_uri())
    chrome.find_element("css selector", ".live a").click()
    default = simulate(WORKLOAD, scheduler="6.12", machine=Machine(1, "reference"))
    assert _elapsed(chrome)[0] == default.elapsed_ns


@built
def test_a_studys_report_opens_its_run(chrome: webdriver.Chrome, tmp_path: Path) -> None:
    machine = Machine(2, "reference")
    data = timeline_of(WORKLOAD, Scheduler("6.1"), machine, "three sleepers")
    summary = {
        "title": "a study", "answers": ["yes"], "claims": [], "tables": [], "figures": [],
        "timeline": data, "notes": [], "repeat": {}, "command": "schedlab study x", "paper": "p",
        "version": "0", "date": "d", "host": "h", "seconds": 1,
    }  # fmt: skip
    page = tmp_path / "report.html"
    page.write_text(report(summary, beside=put_beside(tmp_path)))
    chrome.get(page.as_uri())
    chrome.find_element("css selector", ".live a").click()
    expected = simulate(WORKLOAD, scheduler="6.1", machine=machine)
    assert _elapsed(chrome)[0] == expected.elapsed_ns
    # The summary and the report name the same run.
    (tmp_path / "summary.json").write_text(json.dumps(summary))
    assert of_report(page) == of_report(tmp_path / "summary.json") == data["live"]


@built
def test_the_command_opens_a_report_and_an_experiment(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    identity = _compared(store)
    page = tmp_path / "x.html"
    assert invoke(["report", identity, "--store", str(store), "--output", str(page)]) == 0
    capsys.readouterr()
    monkeypatch.setattr(Server, "serve", lambda self: self._server.server_close())
    opened = []
    for what in (str(page), identity[:8]):
        assert invoke(["live", what, "--store", str(store), "--no-browser", "--json"]) == 0
        opened.append(json.loads(capsys.readouterr().out)["url"].partition("#")[2])
    assert opened[0] == opened[1]
    words = {name: values[0] for name, values in parse_qs(opened[0]).items()}
    sides = sorted([words["a"], words["b"]])
    release = Scheduler("6.12").release
    assert sides == [f"{release};base_slice={size};task.policy=batch" for size in ("1ms", "9ms")]
    assert Workload.parse(words["workload"]).json == Workload.parse(WORKLOAD).json
    assert words["cpus"] == "2"
    # The costs' name is one that --costs takes, and means the same.
    assert Machine(2, words["costs"]).json == Machine(2, "reference").json


@pytest.mark.parametrize(
    ("name", "content"),
    [("report.html", "<p>none</p>"), ("summary.json", "{}"), ("summary.json", "no JSON")],
)
def test_a_report_without_a_run_is_refused_in_a_line(
    name: str, content: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(InputError, match=r"names no run .*; allowed: ") as caught:
        of_report(path)
    assert "\n" not in str(caught.value)


def test_another_file_of_that_name_is_left_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("<title>schedlab live</title> the page")
    mine = tmp_path / "reports"
    mine.mkdir()
    assert put_beside(mine, page)
    assert put_beside(mine, page)
    (mine / "live.html").write_text("my own notes")
    assert not put_beside(mine, page)
    assert (mine / "live.html").read_text() == "my own notes"
    assert not put_beside(mine, tmp_path / "not built")


def test_a_workload_of_its_own_goes_along_whole() -> None:
    workload = Workload.parse("hogs:tasks=2,time=9ms").with_attributes(Attributes("batch"))
    data = timeline_of(workload, Scheduler("6.12"), Machine(1, "ideal"), "two hogs")
    assert quote(workload.json, safe="").replace("%20", "+")[:40] in data["live"]
