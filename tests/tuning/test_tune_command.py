"""``schedlab tune`` on the running kernel: stopped, resumed, and interrupted by errors."""

import errno
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests import needs
from tests.family import children, runs

from schedlab.cli.main import invoke
from schedlab.store import Store

Popen = Callable[..., subprocess.Popen[Any]]
SCHEDLAB = Path(sys.executable).with_name("schedlab")
Capture = pytest.CaptureFixture[str]

# Prints a number that depends on nothing, and leaves a mark for each run.
COUNTED = "sh -c 'echo >> {marks}; echo v 7'"
SEARCH = (
    "tune --by random --executions 6 --policy other,batch,idle --on host --metric v\\s(.*)"
    " --better lower"
)


def _line(tmp_path: Path, command: str, more: str = "") -> list[str]:
    marks, file = tmp_path / "marks", tmp_path / "runs.db"
    words = command.format(marks=marks)
    return [*SEARCH.split(), *more.split(), "--store", str(file), f"--command={words}"]


def _made(file: Path) -> int:
    """How often a command was started for the runs of a store: again where others disturbed it."""
    with Store(file, create=False) as store:
        kept = [run for one in store.experiments() for run in store.runs(one.id)]
    return sum(1 + run.outcome.get("repeats", 0) for run in kept)


def _json(line: list[str], capsys: Capture) -> dict[str, Any]:
    assert invoke([*line, "--json"]) == 0, capsys.readouterr().err
    value: dict[str, Any] = json.loads(capsys.readouterr().out)
    return value


def test_a_finished_tuning_runs_nothing_again(tmp_path: Path, capsys: Capture) -> None:
    line = _line(tmp_path, COUNTED)
    first = _json(line, capsys)
    marks = len((tmp_path / "marks").read_text())
    again = _json(line, capsys)
    assert len((tmp_path / "marks").read_text()) == marks
    assert again["stored"] == again["runs"] == first["runs"]
    assert (again["best"], again["effect"]) == (first["best"], first["effect"]) == ({}, 1.0)
    assert marks == _made(tmp_path / "runs.db")
    # Anew, everything is run again.
    _json([*line, "--afresh"], capsys)
    assert len((tmp_path / "marks").read_text()) == _made(tmp_path / "runs.db") > marks


@pytest.mark.parametrize(
    ("number", "after"), [(signal.SIGINT, 1), (signal.SIGTERM, 30), (signal.SIGKILL, 4)]
)
def test_a_stopped_tuning_goes_on(
    number: signal.Signals, after: int, tmp_path: Path, capsys: Capture, popen: Popen
) -> None:
    # Before there is a file `go` a process that has made so many marks waits to be stopped.
    early = f"[ -e {{marks}}.go ] || [ $(wc -c < {{marks}}) -lt {after} ] || sleep 5"
    command = f"sh -c 'echo >> {{marks}}; {early}; echo v 7'"
    whole = tmp_path / "whole"
    whole.mkdir()
    (whole / "marks.go").touch()
    _json(_line(whole, command), capsys)
    marks = tmp_path / "marks"
    line = _line(tmp_path, command)
    process = popen([SCHEDLAB, *line], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while not (marks.exists() and len(marks.read_text()) >= after):
        assert process.poll() is None
        time.sleep(0.002)
    os.kill(process.pid, number)
    _, said = process.communicate()
    if number != signal.SIGKILL:
        assert process.returncode == 130, said
        assert "runs are kept in" in said.decode()
        assert said.decode().endswith("error: interrupted\n")
    with sqlite3.connect(tmp_path / "runs.db") as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    (tmp_path / "marks.go").touch()
    value = _json(line, capsys)
    assert value["best"] == {}
    # As many runs as in one go, and at most the one that was cut off, of three tries, in vain.
    assert len(marks.read_text()) - _made(tmp_path / "runs.db") in range(4)
    kept = [Store(place / "runs.db", create=False) for place in (tmp_path, whole)]
    assert len({sum(one.runs for one in store.experiments()) for store in kept}) == 1


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("/no/such --flag", 2, "cannot run '/no/such': No such file"),
        ("/etc/passwd", 2, "cannot run '/etc/passwd': Permission denied"),
        ("echo hello", 1, r"printed nothing that matches 'v\s(.*)'"),
        ("echo v seven", 1, "found 'seven' in what the command printed: no number"),
        ("echo v 0", 1, "has no ratio"),
        ("sh -c 'echo broken >&2; exit 3'", 1, "ended with code 3: broken"),
        ("sleep 60", 1, "'sleep' did not end within 0.2 s"),
    ],
)
def test_a_command_that_cannot_be_measured_is_one_line(
    command: str, code: int, said: str, tmp_path: Path, capsys: Capture
) -> None:
    limit = "200ms" if command.startswith("sleep") else "60s"
    assert invoke(_line(tmp_path, command, f"--timeout {limit}")) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert captured.err.count("\n") == 1
    assert said in captured.err
    with Store(tmp_path / "runs.db", create=False) as store:
        (stored,) = store.experiments()
        assert (stored.state, stored.runs) == ("failed", stored.runs)


def test_a_command_that_was_mended_is_run_again(tmp_path: Path, capsys: Capture) -> None:
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\nexit 3\n")
    script.chmod(0o755)
    line = _line(tmp_path, str(script))
    assert invoke(line) == 1
    script.write_text("#!/bin/sh\necho v 7\n")
    assert _json(line, capsys)["effect"] == 1.0


def test_a_setting_that_breaks_the_command_is_left_out(tmp_path: Path, capsys: Capture) -> None:
    script = tmp_path / "script"
    script.write_text('#!/bin/sh\ncase "$(chrt -p $$)" in *IDLE*) exit 3;; esac\necho v 7\n')
    script.chmod(0o755)
    value = _json(_line(tmp_path, str(script)), capsys)
    assert value["best"] == {}
    with Store(tmp_path / "runs.db", create=False) as store:
        failures = store.failures(str(value["experiment"]))
    assert failures
    assert all("policy=idle" in arm for arm, _ in failures)


def test_a_full_disk_is_one_line_and_loses_nothing(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = _line(tmp_path, COUNTED)
    add = Store._add

    def full(self: Store, experiment: str, run: object) -> None:
        if len(self.values(experiment)) >= 5:
            raise sqlite3.OperationalError("database or disk is full")
        add(self, experiment, run)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(Store, "_add", full)
        assert invoke(line) == 1
    error = capsys.readouterr().err
    assert "is full; the runs that were finished before are kept" in error
    assert error.count("\n") == 1
    # No run was made in vain after the one that could not be kept, and none is made again.
    marks = tmp_path / "marks"
    in_vain = len(marks.read_text()) - _made(tmp_path / "runs.db")
    assert in_vain in (1, 2, 3)  # tries of one run, where others disturb it
    value = _json(line, capsys)
    assert len(marks.read_text()) == _made(tmp_path / "runs.db") + in_vain
    with Store(tmp_path / "runs.db", create=False) as store:
        wanted = 24 + 24  # the check of the default against itself, and the comparison
        assert sum(stored.runs for stored in store.experiments()) == value["runs"] + wanted


def test_an_ordinary_user_is_refused_before_anything_runs(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr("schedlab.knobs.places.os.open", refuse)
    line = ["tune", "pipe", "--knobs", "rr_timeslice", "--on", "host"]
    assert invoke([*line, "--store", str(tmp_path / "runs.db")]) == 2
    error = capsys.readouterr().err
    assert "knob 'rr_timeslice' cannot be set here" in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_progress_line_tells_the_time_left(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("schedlab.report.terminal._EVERY", 0.0)
    assert invoke(_line(tmp_path, COUNTED)) == 0
    lines = capsys.readouterr().err.splitlines()
    told = [line for line in lines if line.startswith("note: searching: ")]
    assert all(" runs, " in line and " left, best " in line for line in told)
    assert told


def test_a_duel_is_not_told_to_be_over_before_it_is(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # SCHED_BATCH (3) looks better, so that it is compared in blocks of its own after the six
    # settings that were to be tried: more runs than a setting takes otherwise.
    monkeypatch.setattr("schedlab.report.terminal._EVERY", 0.0)
    command = "sh -c 'echo >> {marks}; chrt -p $$ | grep -q BATCH && echo v 5 || echo v 7'"
    assert invoke(_line(tmp_path, command)) == 0
    told = re.findall(r"searching: (\d+) of (\d+) runs", capsys.readouterr().err)
    assert len(told) > 6
    over = [done for done, most in told if done == most]
    assert len(over) <= 1


@pytest.mark.parametrize(
    "program",
    [
        pytest.param("apache:concurrency=4,time=60s", marks=needs.debian("apache2", "wrk")),
        pytest.param("fio:size=64m", marks=needs.debian("fio")),
        pytest.param("stress-ng", marks=needs.debian("stress-ng")),
    ],
)
def test_an_interrupt_leaves_no_process_and_no_file(
    program: str, tmp_path: Path, popen: Popen
) -> None:
    places = tmp_path / "places"
    places.mkdir()
    line = ["tune", program, "--policy", "other,batch", "--on", "host", "--by", "random"]
    process = popen(
        [SCHEDLAB, *line, "--store", str(tmp_path / "runs.db")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(places)},
    )
    # The program's own directory is there as soon as it is about to start.
    while not any(places.iterdir()):
        assert process.poll() is None
        time.sleep(0.002)
    family: set[int] = set()
    deadline = time.monotonic() + 1
    while time.monotonic() < deadline:
        family |= children(process.pid)
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said.decode().endswith("error: interrupted\n")
    assert list(places.iterdir()) == []
    assert family
    assert not any(runs(pid) for pid in family)
