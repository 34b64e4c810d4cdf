"""Studies: the small versions run whole, and a real browser renders their reports."""

import csv
import json
import os
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.keys import Keys
from tests.browser import browser, check_report, complaints

from schedlab.cli.main import invoke
from schedlab.report import study_page
from schedlab.store import Store
from schedlab.studies.catalogue import STUDIES
from schedlab.studies.study import Judgement

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where every study's small version has written its files."""
    directory = tmp_path_factory.mktemp("studies")
    for name in STUDIES:
        line = ["study", name, "--quick", "--output", str(directory / name)]
        assert invoke([*line, "--store", str(directory / "runs.db")]) == 0
    return directory


def test_the_list_names_every_study(capsys: Capture) -> None:
    assert invoke(["study", "--list", "--json"]) == 0
    assert [one["name"] for one in json.loads(capsys.readouterr().out)] == list(STUDIES)


def test_an_unknown_study_is_refused_with_those_there_are(capsys: Capture) -> None:
    assert invoke(["study", "nosuch"]) == 2
    assert "known: scheduler_tuning" in capsys.readouterr().err
    assert invoke(["study"]) == 2


def test_levels_that_a_study_has_not_are_refused(capsys: Capture) -> None:
    assert invoke(["study", "policies", "--on", "host", "--levels", "light,20"]) == 2
    assert "'20' is none; allowed: light, medium, heavy" in capsys.readouterr().err
    assert invoke(["study", "rt_runtime", "--on", "host", "--levels", "20"]) == 2
    assert "rt_runtime has no levels of load" in capsys.readouterr().err
    assert invoke(["study", "policies", "--blocks", "3"]) == 2
    assert "--blocks and --levels are for real targets" in capsys.readouterr().err
    assert invoke(["study", "policies", "--on", "host", "--blocks", "3,vm:6.1=4"]) == 2
    assert "'vm:6.1' is none of --on's targets" in capsys.readouterr().err
    assert invoke(["study", "policies", "--on", "host", "--blocks", "1"]) == 2
    assert "--blocks: '1': allowed: 2 to 10000" in capsys.readouterr().err


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_gives_each_claim_a_verdict(reports: Path, name: str) -> None:
    summary = json.loads((reports / name / "summary.json").read_text())
    assert summary["study"] == name
    assert summary["answers"][0]
    assert len(summary["claims"]) >= 3
    for claim in summary["claims"]:
        assert set(claim) == {"claim", "paper", "ours", "interval", "verdict"}
        assert claim["verdict"] in set(Judgement)
        assert claim["claim"]
        assert claim["paper"]
        assert claim["ours"]


@pytest.mark.parametrize("name", STUDIES)
def test_every_table_is_a_file_of_its_own(reports: Path, name: str) -> None:
    summary = json.loads((reports / name / "summary.json").read_text())
    for table in summary["tables"]:
        with (reports / name / f"{table['name']}.csv").open(newline="") as file:
            rows = list(csv.reader(file))
        assert rows[0] == table["columns"]
        assert len(rows) == 1 + len(table["rows"]) > 1


@pytest.mark.parametrize("name", STUDIES)
def test_a_report_is_one_file_below_three_megabytes(reports: Path, name: str) -> None:
    page = (reports / name / "report.html").read_text()
    assert len(page) < 3_000_000
    # It links to nothing, and asks for nothing: names of XML are no addresses that are opened.
    others = page.replace("http://www.w3.org/2000/svg", "").replace(
        "http://www.w3.org/1999/xlink", ""
    )
    assert "http://" not in others
    assert "https://" not in others


def test_reports_work_in_a_browser(reports: Path) -> None:
    others = os.environ.get("SCHEDLAB_REPORTS")
    with browser() as chrome:
        for name in STUDIES:
            check_report(chrome, reports / name)
        # Those of full runs, where there are some: directories below the one that is named.
        for file in sorted(Path(others).glob("*/report.html")) if others else ():
            check_report(chrome, file.parent)


def test_the_timeline_draws_vruntime_and_lag_on_demand(reports: Path) -> None:
    data = json.loads((reports / "thread_fairness" / "summary.json").read_text())["timeline"]
    with browser() as chrome:
        chrome.get((reports / "thread_fairness" / "report.html").as_uri())
        assert not chrome.find_elements("css selector", ".standing")
        chosen = chrome.find_element("css selector", "select.curve")
        shown = chrome.find_element("css selector", ".range")
        for column, kind in ((2, "vruntime"), (3, "lag")):
            chosen.send_keys(Keys.ARROW_DOWN)
            lines = chrome.find_elements("css selector", ".standing")
            assert len(lines) == len(data["tasks"])
            values = [row[column] / 1e6 for row in data["standings"]]
            assert shown.text == f"{kind}: {min(values):.3f} to {max(values):.3f} ms"
        # Zoomed in there is less in view, and "nothing more" takes it away.
        for _ in range(4):
            chrome.find_element("css selector", ".lanes").send_keys("+")
        assert shown.text.startswith("lag: ")
        chosen.send_keys(Keys.HOME)
        assert not chrome.find_elements("css selector", ".standing")
        assert shown.text == ""
        assert complaints(chrome) == []


EVIL = '</script><script>window.taken=1</script><img src=x onerror="window.taken=2">&lt;b&gt;'
"""What a task may call itself, and a table or a figure with it."""


def _evil(value: Any, which: Collection[str] | None = None) -> Any:
    """Put hostile text before every text of some plain data, or before those texts alone."""
    if isinstance(value, dict):
        return {key: _evil(one, which) for key, one in value.items()}
    if isinstance(value, list):
        return [_evil(one, which) for one in value]
    return EVIL + value if isinstance(value, str) and (which is None or value in which) else value


def _evil_chart(chart: Any) -> Any:
    """Put it before whatever a chart shows of its data, wherever the chart names that."""
    shown: set[str] = set()

    def find(value: Any, *, data: bool) -> None:
        if isinstance(value, str) and data:
            shown.add(value)
        for key, one in value.items() if isinstance(value, dict) else ():
            find(one, data=data or key in ("values", "datasets"))
        for one in value if isinstance(value, list) else ():
            find(one, data=data)

    find(chart, data=False)
    return _evil(chart, shown)


def test_hostile_names_stay_text_in_every_report(reports: Path, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    with browser() as chrome:
        for name in STUDIES:
            summary = json.loads((reports / name / "summary.json").read_text())
            for part in ("title", "paper", "answers", "claims", "tables", "notes", "repeat"):
                summary[part] = _evil(summary[part])
            for figure in summary["figures"]:
                for part in ("caption", "alternative"):
                    figure[part] = EVIL + figure[part]
                figure["chart"] = _evil_chart(figure["chart"])
            for part in ("title", "tasks", "lanes"):
                summary["timeline"][part] = _evil(summary["timeline"][part])
            file.write_text(study_page.report(summary))
            chrome.get(file.as_uri())
            assert chrome.title == summary["title"]
            assert chrome.find_element("tag name", "h1").text == summary["title"]
            # Nothing of it became an element, nothing ran, and nothing was requested.
            assert not chrome.find_elements("css selector", "img, b")
            assert chrome.execute_script("return window.taken === undefined")
            # It can be read where it stands: in tables, in drawings, beside the timeline's lanes.
            for place in ("td", "figure svg", ".lanes"):
                texts = (
                    one.get_attribute("textContent") or ""
                    for one in chrome.find_elements("css selector", place)
                )
                assert any("<script>window.taken" in text for text in texts), (name, place)
            # The script that draws the timeline anew takes the names from the page's data.
            chrome.find_element("css selector", ".lanes").send_keys("+")
            chrome.find_element("css selector", "select.curve").send_keys(Keys.ARROW_DOWN)
            assert chrome.find_elements("css selector", ".standing")
            assert chrome.execute_script("return window.taken === undefined")
            assert complaints(chrome) == []


def test_a_report_is_made_anew_from_its_summary(reports: Path, tmp_path: Path) -> None:
    summary = reports / "thread_fairness" / "summary.json"
    again = tmp_path / "again.html"
    assert invoke(["report", str(summary), "--output", str(again)]) == 0
    assert _unnumbered(again) == _unnumbered(reports / "thread_fairness" / "report.html")


def test_a_report_is_made_anew_from_the_store_alone(reports: Path, tmp_path: Path) -> None:
    with Store(reports / "runs.db", create=False) as store:
        kept = [one for one in store.experiments() if one.kind == "study"]
    assert [one.state for one in kept] == ["done"] * len(STUDIES)
    for one in kept:
        again = tmp_path / "again.html"
        line = ["report", one.id, "--store", str(reports / "runs.db"), "--output", str(again)]
        assert invoke(line) == 0
        assert one.result is not None
        name = one.result["study"]
        assert _unnumbered(again) == _unnumbered(reports / name / "report.html")


def _unnumbered(page: Path) -> str:
    """Return a page without the numbers that the drawing library counts its gradients with."""
    return re.sub(r"gradient_\d+", "gradient", page.read_text())


def test_a_report_is_written_as_markdown_with_its_figures(reports: Path, tmp_path: Path) -> None:
    summary = reports / "rt_runtime" / "summary.json"
    assert invoke(["report", str(summary), "--output", str(tmp_path / "limit.md")]) == 0
    text = (tmp_path / "limit.md").read_text()
    assert text.startswith("# ")
    for picture in re.findall(r"\]\((.*?\.svg)\)", text):
        assert picture.startswith("limit-")
        assert (tmp_path / picture).read_text().startswith("<svg")
    figures = json.loads(summary.read_text())["figures"]
    assert len(list(tmp_path.glob("*.svg"))) == len(figures)
    assert len(list(tmp_path.iterdir())) == len(figures) + 1


def test_a_report_is_written_to_no_file_of_another_kind(
    reports: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = reports / "rt_runtime" / "summary.json"
    assert invoke(["report", str(summary), "--output", str(tmp_path / "limit.csv")]) == 2
    assert "a study's report is written to .html or .md" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
