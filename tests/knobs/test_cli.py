"""The output of ``schedlab knobs``, as text and as JSON."""

import json
import os
import subprocess
import sys

import pytest

from schedlab.cli.main import invoke
from schedlab.knobs import journal
from schedlab.knobs.journal import Entry
from schedlab.knobs.places import Place
from schedlab.targets.facts import facts

from .conftest import BOOT, Tree

Capture = pytest.CaptureFixture[str]


@pytest.mark.usefixtures("tree")
def test_every_knob_has_a_value_or_a_reason(capsys: Capture) -> None:
    assert invoke(["knobs", "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["release"] == facts().release
    for knob in value["knobs"]:
        assert knob["settable"] or (knob["why"] and knob["obstacle"])
    assert all(knob["instead"] for knob in value["lacking"])
    known = {knob["name"] for knob in value["knobs"] + value["lacking"]}
    assert {"latency", "base_slice", "rr_timeslice"} <= known
    assert invoke(["knobs"]) == 0
    assert "this kernel lacks:" in capsys.readouterr().out


def test_a_command_runs_with_knobs_set(tree: Tree, capfd: pytest.CaptureFixture[str]) -> None:
    file = tree.file("proc/sys/kernel/sched_rr_timeslice_ms")
    line = ["knobs", "set", "rr_timeslice=10ms", "--", "sh", "-c", f"cat {file}; exit 7"]
    assert invoke(line) == 7
    assert capfd.readouterr().out == "10"
    assert tree.sysctl("rr_timeslice_ms") == "100"


@pytest.mark.usefixtures("tree")
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("knobs set", "Missing argument"),
        ("knobs set rr_timeslice=10ms", "and then a command"),
        ("knobs set sleep 1", "write settings"),
        ("knobs set nonsense=1 -- true", "known: latency"),
        ("knobs set rr_timeslice=10ms -- /no/such/program", "No such file"),
        ("knobs set nr_migrate=8 -- true", "built without"),
    ],
)
def test_what_cannot_be_done_is_one_line(line: str, said: str, capsys: Capture) -> None:
    assert invoke(line.split()) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert said in captured.err


def test_what_a_killed_run_left_is_shown_and_put_back(tree: Tree, capsys: Capture) -> None:
    tree.state.mkdir()
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    place = Place(tree.file("proc/sys/kernel/sched_rr_timeslice_ms"))
    journal.write(tree.journal, [Entry("rr_timeslice", place, "50", "100", BOOT, ended.pid)])
    assert invoke(["knobs"]) == 0
    assert f"left set by a run that was killed (pid {ended.pid})" in capsys.readouterr().err
    assert invoke(["knobs", "restore", "--json"]) == 0
    (done,) = json.loads(capsys.readouterr().out)["restored"]
    assert (done["knob"], done["found"], done["original"]) == ("rr_timeslice", "100", "50")
    assert tree.sysctl("rr_timeslice_ms") == "50"
    assert invoke(["knobs", "restore"]) == 0
    assert capsys.readouterr().out == "nothing to put back\n"


def test_a_state_directory_that_cannot_be_made_is_one_line(
    tree: Tree, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("SCHEDLAB_STATE_DIR", os.devnull)
    assert invoke(["knobs", "set", "rr_timeslice=10ms", "--", "true"]) == 1
    captured = capsys.readouterr()
    assert "nothing was set" in captured.err
    assert captured.err.count("\n") == 1
    assert tree.sysctl("rr_timeslice_ms") == "100"


def _killed(tree: Tree, *entries: tuple[str, str, str, str]) -> None:
    """Leave what a killed run does: file, flag, original and setting of each place it set."""
    tree.state.mkdir()
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    places = [
        (Place(tree.file(file), flag), original, new) for file, flag, original, new in entries
    ]
    lines = [Entry("a_knob", place, old, new, BOOT, ended.pid) for place, old, new in places]
    journal.write(tree.journal, lines)


SLICE = "proc/sys/kernel/sched_rr_timeslice_ms"
RUNTIME = "proc/sys/kernel/sched_rt_runtime_us"
PERIOD = "proc/sys/kernel/sched_rt_period_us"
FEATURES = "sys/kernel/debug/sched/features"


def test_restore_leaves_what_an_administrator_set_and_exits_with_1(
    tree: Tree, capsys: Capture
) -> None:
    # The run had set 30 in the place of 50; the tree holds an administrator's 100.
    _killed(tree, (SLICE, "", "50", "30"), (RUNTIME, "", "900000", "950000"))
    assert invoke(["knobs", "restore", "--json"]) == 1
    captured = capsys.readouterr()
    value = json.loads(captured.out)
    (left,), (back,) = value["left"], value["restored"]
    assert (left["found"], left["setting"], left["original"]) == ("100", "30", "50")
    assert (back["found"], back["original"]) == ("950000", "900000")
    assert (tree.sysctl("rr_timeslice_ms"), tree.sysctl("rt_runtime_us")) == ("100", "900000")
    (line,) = [line for line in captured.err.splitlines() if line.startswith("error:")]
    assert "is 100, which is not the 30 that was set: left as it is (it was 50 before)" in line
    # The original is still known, and nothing stands in the way of the next run.
    assert tree.kept() == {"knobs.journal.changed"}
    assert invoke(["knobs", "restore"]) == 0


def test_restore_print_gives_lines_that_do_what_restore_does(tree: Tree, capsys: Capture) -> None:
    tree.file(FEATURES).write_text("PLACE_LAG")  # a plain file holds one flag
    for name, text in ((PERIOD, "2000000"), (RUNTIME, "1900000")):
        tree.file(name).write_text(text)
    _killed(
        tree,
        (SLICE, "", "50", "30"),
        (RUNTIME, "", "950000", "1900000"),
        (PERIOD, "", "1000000", "2000000"),
        (FEATURES, "PLACE_LAG", "NO_PLACE_LAG", "PLACE_LAG"),
    )
    before, text = tree.texts(), tree.journal.read_text()
    assert invoke(["knobs", "restore", "--print"]) == 0
    lines = capsys.readouterr().out
    assert (tree.texts(), tree.journal.read_text()) == (before, text)
    assert tree.kept() == {"knobs.journal"}
    assert not (tree.state / "knobs.lock").exists()
    assert "is 100, which is not the 30 that was set" in lines
    subprocess.run(["sh", "-e", "-c", lines], check=True)
    pasted = tree.texts()
    assert pasted != before
    for name, was in before.items():
        tree.file(name).write_text(was)
    assert invoke(["knobs", "restore"]) == 1
    assert tree.texts() == pasted
    capsys.readouterr()
    assert invoke(["knobs", "restore", "--print"]) == 0
    assert capsys.readouterr().out == "# nothing to put back\n"
    assert invoke(["knobs", "restore", "--print", "--forget"]) == 2
