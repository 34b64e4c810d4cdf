"""Tuning in simulation: the function ``schedlab.tune``."""

import math

import pytest

import schedlab
from schedlab import tuning
from schedlab.boundary.errors import InputError
from schedlab.experiment.settings import Setting
from schedlab.targets.target import Simulated

WORK = "hackbench:groups=1,fds=4,loops=2"
KERNEL = schedlab.Scheduler("2.6.24", hz=1000)
MACHINE = schedlab.Machine(1, "linsched")


def _tune(work: object = WORK, **options: object) -> tuning.Tuning:
    defaults: dict[str, object] = {
        "knobs": ["latency", "min_granularity"],
        "scheduler": KERNEL,
        "machine": MACHINE,
        "executions": 20,
    }
    return schedlab.tune(work, **{**defaults, **options})  # type: ignore[arg-type]


@pytest.mark.parametrize("by", tuning.BY)
def test_the_best_setting_is_worth_what_is_said(by: tuning.By) -> None:
    knobs = ["latency"] if by == "golden" else ["latency", "min_granularity"]
    found = _tune(by=by, knobs=knobs)
    best = KERNEL.with_knobs(found.best.knobs)
    again = schedlab.simulate(WORK, scheduler=best, machine=MACHINE).turnaround_ns
    default = schedlab.simulate(WORK, scheduler=KERNEL, machine=MACHINE).turnaround_ns
    assert found.effect == pytest.approx(again / default)
    (gain,) = found.gains
    assert (gain.default, gain.tuned) == (default / 1e9, again / 1e9)
    assert found.effect == min(1.0, *found.minima)
    assert all(count <= 20 for count in found.executions)


def test_the_same_seed_finds_the_same() -> None:
    one, other = _tune(seeds=[3]), _tune(seeds=[3])
    assert one.best == other.best
    assert (one.histories[0].positions == other.histories[0].positions).all()
    several = _tune(seeds=[2, 3])
    assert several.minima[1] == one.minima[0]
    assert several.minimum() is not None


def test_several_workloads_get_a_compromise() -> None:
    # What is best for all together is worth the geometric mean of what it does for each.
    works = ["hackbench:groups=1,fds=4,loops=2", "hackbench:groups=2,fds=4,loops=1", "pipe"]
    found = _tune(works, by="random")
    assert [gain.case for gain in found.gains] == [
        schedlab.Workload.parse(text).name for text in works
    ]
    changes = [1 + gain.change for gain in found.gains]
    assert found.effect == pytest.approx(math.prod(changes) ** (1 / 3))


def test_policies_and_slices_are_searched_together() -> None:
    kernel = schedlab.Scheduler("6.12", hz=1000)
    found = schedlab.tune(
        WORK, policies=["other", "batch", "fifo:1"], slices="1ms..50ms", by="tpe",
        executions=30, scheduler=kernel, machine=MACHINE,
    )  # fmt: skip
    tried = {str(Setting(one)) for one in (found.best.values,)}
    assert tried
    # Tasks of a real-time policy have no slice to ask for.
    assert not ("slice" in found.best.values and found.best.values.get("policy") == "fifo:1")
    attributes = found.best.attributes
    again = schedlab.simulate(WORK, scheduler=kernel, machine=MACHINE, attributes=attributes)
    default = schedlab.simulate(WORK, scheduler=kernel, machine=MACHINE)
    assert found.effect == pytest.approx(again.turnaround_ns / default.turnaround_ns)


def test_searches_of_ranges_go_through_every_choice() -> None:
    kernel = schedlab.Scheduler("6.12", hz=1000)
    found = schedlab.tune(
        WORK, policies=["other", "batch"], slices="1ms..50ms", by="golden",
        executions=20, scheduler=kernel, machine=MACHINE,
    )  # fmt: skip
    assert len(found.histories) == 2
    assert {history.positions[0][0] for history in found.histories} == {0.0, 1.0}


def test_a_knob_that_cannot_matter_is_said_not_to_move() -> None:
    # Round-robin slices concern SCHED_RR tasks, of which there are none.
    kernel = schedlab.Scheduler("6.1", hz=1000)
    found = _tune(scheduler=kernel, knobs=["rr_timeslice", "min_granularity"])
    assert found.moved["rr_timeslice"] is False


def test_ranges_are_searched_in_ratios_or_steps() -> None:
    place = Simulated(schedlab.Scheduler("6.1"), MACHINE)
    log = tuning.parameters(place, knobs=["latency=1ms..100ms"])
    linear = tuning.parameters(place, knobs=["latency=1ms..100ms"], scale="linear")
    middle = [(one.space.low + one.space.high) / 2 for one in (log, linear)]
    # The geometric and the arithmetic mean of the ends, to three digits.
    assert log.setting(middle[0]) == Setting({"latency": "10ms"})
    assert linear.setting(middle[1]) == Setting({"latency": "50.5ms"})
    # A range that begins at 0 reaches it.
    whole = tuning.parameters(place, knobs=["wakeup_granularity"])
    assert whole.setting(whole.space.low) == Setting({"wakeup_granularity": "0ns"})
    assert whole.setting(whole.space.high) == Setting({"wakeup_granularity": "1s"})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"knobs": []}, "at least one"),
        ({"knobs": ["latency", "latency"]}, "more than once"),
        ({"knobs": ["base_slice"]}, "no knob 'base_slice'"),
        ({"knobs": ["nonsense"]}, "no scheduler knob"),
        ({"knobs": ["migration_cost"]}, "does not act on"),
        ({"on": "host"}, "can a scheduler or a machine be chosen"),
        ({"by": "golden"}, "one range, not 2"),
        ({"seeds": []}, "at least one"),
    ],
)
def test_what_cannot_be_searched_is_refused(options: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        _tune(**options)
