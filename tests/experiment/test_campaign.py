"""Experiments with a store: no run is repeated, and the file survives interruptions and errors."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests import needs

from schedlab.boundary.errors import InputError, RunError, StorageError
from schedlab.cli.main import invoke
from schedlab.experiment import campaign, execution
from schedlab.experiment.subjects import Conditions
from schedlab.programs import PACKAGES, program, subject
from schedlab.programs.apache import read_wrk
from schedlab.programs.command import Command
from schedlab.report.terminal import to_json
from schedlab.store import Store
from schedlab.targets.target import Host

SCHEDLAB = Path(sys.executable).with_name("schedlab")
SIM = "compare pipe --policy other,fifo --kernel 6.1 --costs linsched --cpus 1"
Capture = pytest.CaptureFixture[str]


def _json(line: list[str], capsys: Capture) -> dict[str, Any]:
    assert invoke([*line, "--json"]) == 0, capsys.readouterr().err
    value: dict[str, Any] = json.loads(capsys.readouterr().out)
    return value


def test_what_was_run_is_not_run_again(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "runs.db"
    line = [*SIM.split(), "--store", str(file)]
    first, again = _json(line, capsys), _json(line, capsys)
    assert (first["stored"], again["stored"]) == (0, 24)  # two arms, 12 blocks
    assert first["answers"] == again["answers"]
    with Store(file, create=False) as store:
        (stored,) = store.experiments()
        assert (stored.state, stored.runs) == ("done", 24)
        recalled = campaign.recall(stored, store)
        runs = list(store.runs(stored.id))
    assert json.loads(to_json(recalled.settled.answers)) == first["answers"]
    # What is needed to repeat a run is there: the workload and the scheduler whole, and the seed.
    assert all(run.definition["subject"]["json"] for run in runs)
    assert all(run.definition["simulated"]["scheduler"] for run in runs)
    assert {run.seed for run in runs} == set(range(1, 13))


def test_a_sweep_compares_with_what_is_set(tmp_path: Path, capsys: Capture) -> None:
    line = "sweep pipe --set latency=5ms,20ms --kernel 6.1 --costs linsched --cpus 1"
    value = _json([*line.split(), "--store", str(tmp_path / "runs.db")], capsys)
    questions = [one["question"] for one in value["answers"]]
    assert [one["treatment"] for one in questions] == [
        "pipe on sim | latency=5ms",
        "pipe on sim | latency=20ms",
    ]


def test_groups_and_weights_are_compared_in(tmp_path: Path, capsys: Capture) -> None:
    """100 ms of work at 20 of each 100 ms end in the fifth period, 400 ms after the first began."""
    file = tmp_path / "runs.db"
    line = "sweep hogs:tasks=1,time=100ms --set cfs_bandwidth_slice=10ms --kernel 7.2 --cpus 1"
    more = ["--costs", "ideal", "--group", "/a:max=20ms/100ms", "--weights", "pfs"]
    value = _json([*line.split(), *more, "--store", str(file)], capsys)
    times = [time for arm in value["values"].values() for time in arm["turnaround"]]
    assert times
    assert all(0.4 < time < 0.45 for time in times)
    with Store(file, create=False) as store:
        (stored,) = store.experiments()
        simulated = [run.definition["simulated"] for run in store.runs(stored.id)]
    assert all('"pfs"' in one["scheduler"] for one in simulated)


def test_a_killed_experiment_goes_on(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, marks = tmp_path / "runs.db", tmp_path / "marks"
    line = ["compare", "--command", f"sh -c 'echo >> {marks}; sleep 0.02; echo v 7'"]
    line += [
        "--metric",
        "v ([0-9]+)",
        "--better",
        "lower",
        "--policy",
        "other,batch",
        "--on",
        "host",
    ]
    line += ["--store", str(file)]
    process = subprocess.Popen([SCHEDLAB, *line], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while not (marks.exists() and len(marks.read_text()) >= 5):
        assert process.poll() is None
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    # A run beside other work is made again; here each counts, so that they can be counted.
    monkeypatch.setattr(execution, "calmest", lambda measure: measure())
    before = len(marks.read_text())
    with sqlite3.connect(file) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    value = _json(line, capsys)
    # Beside other work a run is made three times; one may have been cut off.
    assert value["stored"] >= 1
    # 12 blocks of the check and 12 of the comparison, two runs each, but for those that are stored.
    assert len(marks.read_text()) - before == 48 - value["stored"]


def test_a_full_disk_leaves_what_was_stored(tmp_path: Path) -> None:
    with Store(tmp_path / "runs.db") as store:
        experiment = store.begin("compare", "t", {}, [])

        def add(block: int, size: int) -> None:
            store.add(
                experiment, "a", block, 0, seed=1, begun="", seconds=0.0, definition={},
                facts={}, outcome={"x": "y" * size}, values={"time": 1.0},
            )  # fmt: skip

        add(0, 10)
        pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
        store._connection.execute(f"PRAGMA max_page_count = {pages + 1}")
        with pytest.raises(StorageError, match="full; the runs that were finished before are kept"):
            add(1, 100_000)
        assert list(store.values(experiment)) == [("a", 0)]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("compare", "nothing to run"),
        ("compare pipe --on mars", "allowed: sim, host"),
        ("compare pipe --on host --kernel 6.1", "without --on sim"),
        ("compare apache:speed=3", "known: concurrency"),
        ("compare fio --policy other,fifo --kernel 6.1 --costs ideal", "--on host"),
        ("compare pipe --metric seconds", "are for --command"),
        ("compare pipe --kernel 6.1 --costs ideal", "nothing to compare: 'default' is the only"),
        ("compare pipe --policy fifo --kernel 6.1 --costs ideal", "'policy=fifo' is the only"),
        ("compare --command true --metric (", "no regular expression"),
        ("compare --command /no/such --policy other,fifo --on host", "No such file"),
        ("compare pipe --metrics speed --kernel 6.1 --costs ideal", "known: turnaround"),
        ("compare fio --group /a", "--group is for workloads"),
        ("compare pipe --on sim,host --group /a", "mean nothing but on sim"),
        ("sweep pipe --set latency=5ms --on host --weights pfs", "means nothing but on sim"),
        ("sweep pipe --kernel 6.1 --costs ideal", "nothing to sweep over"),
        ("sweep pipe --set latency=9s --kernel 6.1 --costs ideal", "100us to 1s"),
    ],
)
def test_wrong_input_is_one_line(line: str, said: str, capsys: Capture, tmp_path: Path) -> None:
    assert invoke([*line.split(), "--store", str(tmp_path / "runs.db")]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_another_programs_database_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "other.db"
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE t (x)")
    with pytest.raises(InputError, match="another program's"):
        Store(file)


def test_a_missing_program_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "find", lambda _: None)
    for name, package in PACKAGES.items():
        with pytest.raises(InputError, match=f"{name} is not installed.*package {package}"):
            program.need(name)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("rt-hackbench:groups=1,loops=5", marks=needs.debian("rt-tests")),
        pytest.param("perf-messaging:groups=1,loops=50", marks=needs.debian("linux-perf")),
        pytest.param("perf-pipe:loops=10000", marks=needs.debian("linux-perf")),
        pytest.param("apache:time=1s,concurrency=4", marks=needs.debian("apache2", "wrk")),
        pytest.param(
            "apache:time=1s,concurrency=4,client=ab", marks=needs.debian("apache2", "apache2-utils")
        ),
        pytest.param("fio:size=1m,jobs=1", marks=needs.debian("fio")),
        pytest.param(
            "stress-ng:stressor=pipe,workers=1,operations=10000", marks=needs.debian("stress-ng")
        ),
    ],
)
def test_programs_run_and_say_their_metric(text: str) -> None:
    one = subject(text)
    measured = one.measure(Host(), Conditions())
    assert measured.values[one.metrics[0].name] > 0


def test_a_command_without_its_metric_fails() -> None:
    with pytest.raises(RunError, match="printed nothing that matches"):
        Command(("echo", "hello"), "total ([0-9]+)", "lower").measure(Host(), Conditions(timeout=9))


def test_a_server_that_answers_nothing_has_failed() -> None:
    text = "  0 requests in 2.00s, 0.00B read\nRequests/sec:      0.00\n"
    with pytest.raises(RunError, match="no request was answered"):
        read_wrk(text)


def test_an_interrupt_before_any_arm_ran_is_no_mistake(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The default is compared with itself first: until that is done no arm has a run.
    measure, calls = Command.measure, iter(range(1, 100))

    def interrupted(self: Command, target: Any, under: Conditions) -> Any:
        if next(calls) == 3:
            raise KeyboardInterrupt
        return measure(self, target, under)

    monkeypatch.setattr(Command, "measure", interrupted)
    words = ["compare", "--on", "host", "--policy", "other,batch", "--command", "echo v 7"]
    words += ["--metric", "v (.*)", "--better", "lower", "--store", str(tmp_path / "runs.db")]
    assert invoke(words) == 130
    assert capsys.readouterr().err.endswith("error: interrupted\n")
