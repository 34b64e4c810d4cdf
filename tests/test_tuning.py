"""Tuning a kernel's knobs: the function ``schedlab.tune``."""

import pytest

import schedlab
from schedlab import tuning
from schedlab.errors import InputError

WORK = "hackbench:groups=1,fds=4,loops=2"
KERNEL = schedlab.Scheduler("2.6.24", hz=1000)
MACHINE = schedlab.Machine(1, "linsched")


def _tune(**options: object) -> tuning.Tuning:
    defaults: dict[str, object] = {
        "knobs": ["latency", "min_granularity"],
        "scheduler": KERNEL,
        "machine": MACHINE,
        "particles": 5,
        "iterations": 3,
    }
    return schedlab.tune(WORK, **{**defaults, **options})  # type: ignore[arg-type]


@pytest.mark.parametrize("by", ["pso", "random"])
def test_the_best_settings_give_the_best_turnaround(by: tuning.By) -> None:
    found = _tune(by=by, seeds=[1, 2])
    again = schedlab.simulate(WORK, scheduler=found.tuned, machine=MACHINE)
    assert again.turnaround_ns == found.best_ns == min(found.minima_ns)
    default = schedlab.simulate(WORK, scheduler=KERNEL, machine=MACHINE)
    assert default.turnaround_ns == found.default_ns
    assert found.effect == found.best_ns / found.default_ns
    assert all(executions <= 20 for executions in found.executions)
    assert found.minimum() is not None


def test_golden_section_takes_one_knob_and_one_seed() -> None:
    found = _tune(by="golden", knobs=["latency"], seeds=[1, 2, 3])
    assert len(found.histories) == 1
    assert found.minimum() is None
    with pytest.raises(InputError, match="one knob, not 2"):
        _tune(by="golden")


def test_a_knob_that_cannot_matter_is_said_not_to_move() -> None:
    # Round-robin slices concern SCHED_RR tasks, of which there are none.
    kernel = schedlab.Scheduler("6.1", hz=1000)
    found = _tune(scheduler=kernel, knobs=["rr_timeslice", "min_granularity"])
    assert found.moved["rr_timeslice"] is False


def test_settings_that_are_not_searched_stay() -> None:
    found = _tune(scheduler=KERNEL.with_knobs({"wakeup_granularity": "1ms"}))
    assert found.tuned.knobs["wakeup_granularity"] == "1ms"
    assert set(found.best) == {"latency", "min_granularity"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"knobs": []}, "at least one"),
        ({"knobs": ["latency", "latency"]}, "more than once"),
        ({"knobs": ["base_slice"]}, "no knob 'base_slice'"),
        ({"knobs": ["nonsense"]}, "no scheduler knob"),
        ({"knobs": ["migration_cost"]}, "does not act on"),
        ({"on": "host"}, "neither a scheduler nor a machine"),
    ],
)
def test_what_cannot_be_searched_is_refused(options: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        _tune(**options)
