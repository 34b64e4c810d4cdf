"""Observations read from recordings of real runs."""

from pathlib import Path

import pytest

from fidelity.observation import Observation, simulations
from schedlab.model import Costs, Machine, Scheduler, Workload


def _line(who: str, microsecond: int, event: str) -> str:
    return f" {who} 0d..2. 1.{microsecond:06}000: {event}\n"


def _wait(at: int, *, told: bool) -> str:
    """Task 8 is woken, and runs 3 us later for 1 us; 70 ran before, and may tell nothing."""
    wakes = "sched_waking: comm=b pid=8 prio=120 target_cpu=000"
    comes = "sched_switch: t:70 [120] S ==> b:8 [120]"
    leaves = "sched_switch: b:8 [120] S ==> t:70 [120]"
    return (
        _line("t-70", at, wakes)
        + (_line("t-70", at + 3, comes) if told else "")
        + _line("b-8", at + 4, leaves)
    )


@pytest.mark.parametrize(("untold", "percentile"), [(1, 3000.0), (2, None)])
def test_a_hundredth_of_all_waits_may_be_untold(
    tmp_path: Path, untold: int, percentile: float | None
) -> None:
    """Of 100 waits, 1 % and 2 %."""
    path = tmp_path / "trace.txt"
    waits = [_wait(10 * number, told=number >= untold) for number in range(100)]
    path.write_text("".join(waits), encoding="utf-8")
    assert Observation.of_trace(path).values.get("p99") == percentile


def test_simulated_runs_begin_where_in_a_tick_s_period_real_ones_did() -> None:
    """A tick every 4 ms, of 100 us: in 3 ms of computing there is one from 2 ms after a tick on,
    and none from 0.5 ms on. A run whose phase is not known begins in the middle of a part."""
    task = {"name": "one", "instances": 1, "kind": "process", "steps": [{"run": {"fixed": "3ms"}}]}
    work = Workload.from_dict({"name": "one", "tasks": [task]})
    machine = Machine(1, Costs("measured", {"tick": 100_000}))
    real = [Observation({}, {}, phase) for phase in (2_000_000, 500_000)]
    found = simulations(work, Scheduler("6.1", hz=250), (machine, machine), 4, real)
    assert [run.values["turnaround"] for run in found] == [3.1e6, 3.0e6, 3.1e6, 3.0e6]
    # Quarters' middles: 0.5, 1.5, 2.5 and 3.5 ms.
    found = simulations(work, Scheduler("6.1", hz=250), (machine, machine), 4)
    assert [run.values["turnaround"] for run in found] == [3.0e6, 3.1e6, 3.1e6, 3.1e6]
