"""CPU time that other processes take is reported, and only where it is known."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from schedlab.boundary.errors import RunError
from schedlab.cli.comparison import plain
from schedlab.experiment import execution
from schedlab.experiment.campaign import Result
from schedlab.experiment.sequential_experiment import Settled
from schedlab.experiment.subjects import Measured
from schedlab.measure import calibration
from schedlab.model import Costs
from schedlab.processes.disturbance import Disturbance, watching
from schedlab.targets.target import Host

SCHEDLAB = Path(sys.executable).with_name("schedlab")
CPU = min(os.sched_getaffinity(0))


@contextmanager
def _busy_neighbour() -> Iterator[None]:
    """Have something compute on the first CPU for a block."""
    command = ["taskset", "-c", str(CPU), "sh", "-c", "while :; do :; done"]
    process = subprocess.Popen(command)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def test_a_run_beside_a_busy_loop_says_so() -> None:
    # Two tasks on one CPU get half of it each: 50 % are another's, however busy the rest is.
    words = ["run", "hogs:tasks=1,time=1500ms", "--on", "host", "--cpus", "1", "--json"]
    with _busy_neighbour():
        done = subprocess.run([SCHEDLAB, *words], capture_output=True, text=True, check=True)
    outcome = json.loads(done.stdout)
    assert outcome["disturbance"]["cpus"] == 1
    assert outcome["disturbance"]["disturbed"]
    assert outcome["disturbance"]["others_ns"] > outcome["disturbance"]["elapsed_ns"] / 4
    assert len(outcome["notes"]) == 1
    assert "of the CPU time while this ran" in outcome["notes"][0]
    assert outcome["notes"][0] in done.stderr


def test_a_command_beside_a_busy_loop_says_so() -> None:
    prefix = ["taskset", "-c", str(CPU)]
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {CPU})  # as much of the machine as is watched
    try:
        with _busy_neighbour():
            loop = "import time\nwhile time.process_time() < 1: pass"
            done = Host().execute([*prefix, sys.executable, "-c", loop])
    finally:
        os.sched_setaffinity(0, allowed)
    assert done.disturbance is not None
    assert done.disturbance.disturbed
    assert "of the CPU time while this ran" in done.notes[0]


def test_what_children_do_is_not_others() -> None:
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {CPU})
    try:
        with watching() as watch:
            loop = "import time\nwhile time.process_time() < 1: pass"
            Host().execute([sys.executable, "-c", loop])
    finally:
        os.sched_setaffinity(0, allowed)
    # Whatever else this machine does: the child's second is not counted as another's.
    found = watch.found
    assert found is not None
    assert found.others_ns + 0.9e9 < found.elapsed_ns + found.uncertainty_ns


def test_a_disturbed_run_is_repeated_and_then_flagged() -> None:
    def measured(share: float) -> Measured:
        found = Disturbance(1, 100, round(100 * share), 0, 1, share > 0.06)
        return Measured({"seconds": share}, {}, found)

    runs = [measured(0.5), measured(0.3), measured(0.4), measured(0.0)]
    given = iter(runs)
    # None of three is calm: the calmest counts, and carries a flag.
    flagged = execution.calmest(lambda: next(given))
    assert dict(flagged.values) == {"seconds": 0.3, "others": 0.3, "disturbed": 1.0}
    assert dict(execution.calmest(lambda: next(given)).values) == {"seconds": 0.0, "others": 0.0}


def test_flagged_runs_are_told_of() -> None:
    calm, loud = {"turnaround": 1.0}, {"turnaround": 2.0, "disturbed": 1.0}
    result = Result("id", {}, Settled({"a": {0: calm, 1: loud}, "b": {0: calm}}), {}, 0, "done")
    assert result.disturbed == {"a": 1}
    assert plain(result)["disturbed"] == {"a": 1}
    assert len(result.disturbed_notes) == 1
    assert "1 of 3 runs" in result.disturbed_notes[0]


def test_costs_measured_beside_other_work_are_not_kept() -> None:
    def calibrated(share: float) -> calibration.Calibration:
        found = Disturbance(1, 1000, round(1000 * share), 0, 1, True)
        return calibration.Calibration(Costs("measured", {}), disturbance=found)

    calibration.check_calm([calibrated(0.2)])
    with pytest.raises(RunError, match=r"21% of the CPU time.*allowed: 20%.*end that work"):
        calibration.check_calm([calibrated(0.1), calibrated(0.21)])
