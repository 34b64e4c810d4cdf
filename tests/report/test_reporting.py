"""Experiments reported from the store alone: on the terminal, in files, as data frames."""

import csv
import json
from pathlib import Path

import pytest
from tests.browser import browser, check_layout, complaints

from schedlab.boundary.errors import InputError
from schedlab.cli.main import invoke
from schedlab.experiment import campaign
from schedlab.experiment.frames import answer_columns, frame, run_columns
from schedlab.programs import PACKAGES
from schedlab.store import Store

Capture = pytest.CaptureFixture[str]
COMPARED = "compare pipe --policy other,fifo --kernel 6.1 --costs linsched --cpus 1"
TUNED = (
    "tune pipe hogs:tasks=2,time=1ms --knobs latency=1ms..9ms --by golden --executions 5"
    " --kernel 6.1 --costs linsched --cpus 1"
)


@pytest.fixture
def file(tmp_path: Path, capsys: Capture) -> Path:
    """A store with a comparison and a tuning."""
    path = tmp_path / "runs.db"
    for line in (COMPARED, TUNED):
        assert invoke([*line.split(), "--store", str(path)]) == 0
    capsys.readouterr()
    return path


def _told(line: str, file: Path, capsys: Capture) -> str:
    assert invoke([*line.split(), "--store", str(file)]) == 0
    return capsys.readouterr().out


def test_a_report_says_what_the_command_said(file: Path, capsys: Capture) -> None:
    listed = json.loads(_told("report --list --json", file, capsys))
    # The tuning ends in a comparison of its winner with the default.
    assert [one["kind"] for one in listed] == ["compare", "tune", "compare"]
    assert {one["state"] for one in listed} == {"done"}
    first = _told(COMPARED, file, capsys)
    assert _told(f"report {listed[0]['id'][:8]}", file, capsys) == first
    tuned = _told(f"report {listed[1]['id']}", file, capsys)
    assert "best by golden" in tuned
    assert "hogs:tasks=2" in tuned


def test_a_page_has_what_repeats_the_experiment(
    file: Path, tmp_path: Path, capsys: Capture
) -> None:
    ids = [one["id"] for one in json.loads(_told("report --list --json", file, capsys))]
    page = tmp_path / "page.md"
    _told(f"report {ids[0]} --output {page}", file, capsys)
    text = page.read_text()
    assert "policy=fifo" in text
    assert "at most 320 blocks" in text
    assert '"scheduler"' in text  # the whole of it, where it was run
    _told(f"report {ids[1]} --output {page}", file, capsys)
    assert "| pipe" in page.read_text()
    # All that was run, as one line a run.
    table = tmp_path / "runs.csv"
    _told(f"report {ids[0]} --output {table}", file, capsys)
    with table.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert len(rows) == 24  # two arms, 12 blocks
    assert {row["set.policy"] for row in rows} == {"other", "fifo"}
    assert all(float(row["turnaround"]) > 0 for row in rows)
    everything = tmp_path / "all.json"
    _told(f"report {ids[0]} --output {everything}", file, capsys)
    stored = json.loads(everything.read_text())
    assert len(stored["runs"]) == 24
    assert stored["plan"]["seed"] == 1


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_runs_and_verdicts_are_data_frames(library: str, file: Path) -> None:
    with Store(file, create=False) as store:
        compared = store.experiments()[0]
        runs = frame(run_columns(store, compared.id), library)  # type: ignore[arg-type]
        answers = answer_columns(campaign.recall(compared, store))
    assert runs.shape[0] == 24
    assert {"setting", "block", "seed", "turnaround", "target"} <= set(runs.columns)
    assert answers["verdict"] == ["same"] or answers["ratio"][0] != 1
    assert frame(answers, library).shape[0] == 1  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("report nosuch", "no experiment with the id 'nosuch'"),
        ("report {id} --output {tmp}/x.pdf", "is written to .md, .csv, .json"),
        ("report {id} --output {tmp}/none/x.md", "no directory"),
    ],
)
def test_wrong_input_is_one_line(
    line: str, said: str, file: Path, tmp_path: Path, capsys: Capture
) -> None:
    identity = json.loads(_told("report --list --json", file, capsys))[0]["id"]
    words = line.format(id=identity, tmp=tmp_path).split()
    assert invoke([*words, "--store", str(file)]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path, capsys: Capture) -> None:
    assert invoke(["report", "--list", "--store", str(tmp_path / "runs.db")]) == 2
    assert "No such file" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_library_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> object:
        raise ModuleNotFoundError(name, name=name)

    monkeypatch.setattr("schedlab.boundary.extras.import_module", missing)
    with pytest.raises(InputError, match=r"need polars: pip install 'schedlab\[polars\]'"):
        frame({"a": [1]}, "polars")
    with pytest.raises(InputError, match="allowed: pandas, polars"):
        frame({"a": [1]}, "arrow")  # type: ignore[arg-type]


def test_doctor_names_every_program_and_its_package(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("schedlab.programs.find", lambda _: None)
    assert invoke(["doctor", "--json"]) in (0, 1)
    checks = {one["name"]: one for one in json.loads(capsys.readouterr().out)["checks"]}
    for name, package in PACKAGES.items():
        assert not checks[name]["present"]
        assert checks[name]["detail"] == f"not installed: apt-get install {package}"


def test_pages_are_laid_out_for_every_screen(file: Path, tmp_path: Path, capsys: Capture) -> None:
    ids = [one["id"] for one in json.loads(_told("report --list --json", file, capsys))]
    with browser() as chrome:
        for one in ids[:2]:
            page = tmp_path / f"{one}.html"
            _told(f"report {one} --output {page}", file, capsys)
            chrome.get(page.as_uri())
            check_layout(chrome)
            assert complaints(chrome) == []
