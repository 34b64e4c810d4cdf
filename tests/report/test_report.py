"""The report: answers first, everything in one file, no markup injected by names."""

import copy
import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from schedlab.cli.main import invoke
from schedlab.model.outcome import kind
from schedlab.report import study_page
from schedlab.report.words import percent
from schedlab.studies.demo import demo
from schedlab.studies.demo.summary import answers, as_study, verified_answer

HOSTILE = '<script>alert("x")</script>&'


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    directory = tmp_path_factory.mktemp("demo")
    size = demo.Size(seeds=2, repeats=1, pairs=2, messages=(1, 2), quick=True)
    demo.run(directory, size)
    value: dict[str, Any] = json.loads((directory / "summary.json").read_text())
    return value


def report(value: dict[str, Any]) -> str:
    return study_page.report(as_study(value))


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def _page(text: str) -> _Page:
    page = _Page()
    page.feed(text)
    page.close()
    return page


def test_it_is_one_file_that_needs_nothing_else(summary: dict[str, Any]) -> None:
    text = report(summary)
    assert len(text) < 3_000_000
    page = _page(text)
    names = [tag for tag, _ in page.tags]
    assert "script" not in names
    assert [a["href"] for tag, a in page.tags if tag == "link"] == ["data:,"]
    assert "img" not in names
    # Each figure is drawn for a desktop and for a phone.
    assert names.count("svg") == 2 * names.count("figure") == 14
    for _, attributes in page.tags:
        for name in ("src", "href", "xlink:href"):
            assert not (attributes.get(name) or "").startswith(("http", "//"))


def test_every_figure_has_a_text_alternative(summary: dict[str, Any]) -> None:
    page = _page(report(summary))
    drawings = [a for tag, a in page.tags if tag == "div" and a.get("role") == "img"]
    assert len(drawings) == 7
    assert all(a["aria-label"] for a in drawings)


def test_the_answers_come_first(summary: dict[str, Any]) -> None:
    text = report(summary)
    assert text.index('class="answer"') < text.index("<h2")
    calm = copy.deepcopy(summary)
    calm["machine"]["facts"]["busy"] = False
    assert len(answers(calm)) == 3


def test_a_busy_machine_is_admitted(summary: dict[str, Any]) -> None:
    value = copy.deepcopy(summary)
    value["machine"]["facts"]["busy"] = True
    assert "Other work was running" in answers(value)[-1]


def test_hostile_names_stay_text(summary: dict[str, Any]) -> None:
    value = copy.deepcopy(summary)
    value["machine"]["facts"]["cpu_model"] = HOSTILE
    value["machine"]["facts"]["kernel"] = HOSTILE
    value["verified"]["setting"] = value["verified"]["candidates"][0]["setting"] = HOSTILE
    value["verified"]["workload"] = HOSTILE
    value["tuning"]["workload"] = HOSTILE
    text = report(value)
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert "script" not in [tag for tag, _ in _page(text).tags]


def test_control_characters_in_a_figure_are_drawn_as_their_escapes() -> None:
    # XML 1.0, production 2 (Char): a document has neither ESC nor U+FFFE, not even as references.
    chart = {
        "title": "a\x1b[31mb",
        "data": {"values": [{"task": "c\ufffed", "share": 1}]},
        "mark": "bar",
        "encoding": {
            "x": {"field": "task", "type": "nominal"},
            "y": {"field": "share", "type": "quantitative"},
        },
    }
    figure = ET.fromstring(study_page.svg(chart))
    texts = "".join(figure.itertext())
    assert r"a\x1b[31mb" in texts
    assert r"c\ufffed" in texts


@pytest.mark.parametrize(
    ("verdict", "said"),
    [
        ("better", "runs faster with"),
        ("worse", "runs slower with"),
        ("same", "makes no difference"),
        ("inconclusive", "no difference"),
    ],
)
def test_the_verdict_is_told_as_it_is(summary: dict[str, Any], verdict: str, said: str) -> None:
    assert said in verified_answer({**summary["verified"], "verdict": verdict})


def test_the_command_makes_it_anew(
    summary: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "summary.json"
    file.write_text(json.dumps(summary))
    assert invoke(["report", str(file)]) == 0
    assert (tmp_path / "report.html").read_text() == report(summary)
    assert answers(summary)[0] in capsys.readouterr().out
    assert invoke(["report", str(file), "--output", str(tmp_path / "report.md")]) == 0
    assert "## Numbers" in (tmp_path / "report.md").read_text()
    assert (tmp_path / "report-minima.svg").is_file()
    assert invoke(["report", str(file), "--output", str(tmp_path / "report.csv")]) == 2
    assert "a demo's report is written to .html or .md" in capsys.readouterr().err
    file.write_text('{"verified": {}}')
    assert invoke(["report", str(file)]) == 2
    assert "is not what the demo or a study writes" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("ratio", "text"), [(1.0, "no change"), (1.0004, "no change"), (0.5, "-50.0%")]
)
def test_ratios_are_told_as_changes(ratio: float, text: str) -> None:
    assert percent(ratio) == text


@pytest.mark.parametrize(
    ("name", "common"),
    [("receiver.g0.3", "receiver"), ("sender.g1[2]", "sender"), ("[odd", "[odd"), (".x", ".x")],
)
def test_equal_tasks_are_told_by_what_their_names_share(name: str, common: str) -> None:
    assert kind(name) == common
