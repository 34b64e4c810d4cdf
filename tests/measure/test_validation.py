"""Validation: the models, the comparison and the equivalence, on runs that are made up."""

import dataclasses
import math

import pytest

import schedlab
from schedlab.boundary.errors import InputError
from schedlab.experiment.blocks import Experiment, Run
from schedlab.measure import validation
from schedlab.measure.validation import Settings
from schedlab.model import Costs, Machine
from schedlab.model.outcome import Outcome
from schedlab.programs import Hackbench

COSTS = Costs.from_times(
    "made up",
    {
        "socket_write": "700ns",
        "socket_read": "600ns",
        "pipe_write": "300ns",
        "pipe_read": "200ns",
        "system_call": "100ns",
        "copy_per_kib": "1024ns",
        "switch": "1us",
    },
)
MACHINE = Machine(2, COSTS)
KERNEL = schedlab.Scheduler("6.1")


def test_a_message_costs_a_write_a_read_two_copies_and_a_switch() -> None:
    # 700 + 600 + 2 * 100 + 2 * 100 bytes at 1 ns a byte + 1000.
    assert validation.message_cost(Settings(loops=1), COSTS) == 2_700
    # With pipes 300 + 200 in place of the socket's.
    assert validation.message_cost(Settings(loops=1, pipe=True), COSTS) == 1_900
    # 5 groups of 20 * 20 pairs with 3 messages each, on 2 CPUs.
    assert validation.constant_cost(Settings(loops=3), MACHINE) == 6_000 * 2_700 // 2


def test_the_wide_workloads_leave_the_familiar_line() -> None:
    wide = validation.wide()
    assert {one.groups for one in wide} >= {1, 10}
    assert {one.datasize for one in wide} >= {1, 4096}
    assert {(one.pipe, one.threads) for one in wide} == {
        (False, False),
        (False, True),
        (True, False),
        (True, True),
    }
    assert len({one.text for one in wide}) == len(wide)


def _outcome(settings: Settings, turnaround: int, workers: int | None = None) -> Outcome:
    outcome = schedlab.simulate(
        "hogs:tasks=1,time=1us", scheduler=KERNEL, machine=Machine(1, "ideal")
    )
    count = settings.workers if workers is None else workers
    return dataclasses.replace(
        outcome,
        workload=settings.text,
        turnaround_ns=turnaround,
        messages=settings.messages + count,
        bytes=settings.messages * settings.datasize + count,
        tasks=outcome.tasks * (count + 1),
    )


def _rt_tests(settings: Settings, seconds: float) -> Hackbench:
    return Hackbench(
        seconds=seconds,
        tasks=settings.workers,
        messages=settings.messages,
        bytes=settings.messages * settings.datasize,
        threads=False,
    )


def _experiment(blocks: list[dict[str, validation.Run]]) -> Experiment[validation.Run]:
    return Experiment(
        tuple(blocks[0]),
        tuple(
            tuple(
                Run(number, place, arm, value) for place, (arm, value) in enumerate(block.items())
            )
            for number, block in enumerate(blocks)
        ),
        0,
    )


def test_a_kernel_that_does_what_is_simulated_has_no_error() -> None:
    settings = validation.figure_1([1, 2, 5])
    simulated = {
        one.text: schedlab.simulate(one.text, scheduler=KERNEL, machine=MACHINE).turnaround_ns
        for one in settings
    }
    # Three runs: as simulated, 10% faster, 20% slower; the median is the simulated one.
    blocks: list[dict[str, validation.Run]] = [
        {one.text: _outcome(one, round(simulated[one.text] * factor)) for one in settings}
        for factor in (1.2, 1.0, 0.9)
    ]
    result = validation.validate(settings, _experiment(blocks), machine=MACHINE, scheduler=KERNEL)
    assert result.fit.slope == pytest.approx(1)
    assert result.fit.r_squared == pytest.approx(1)
    assert result.median_absolute_error == 0
    assert [point.log_error for point in result.points] == [0, 0, 0]
    first = result.points[0]
    ratio = first.constant_cost_ns / simulated[settings[0].text]
    assert first.constant_cost_log_error == pytest.approx(math.log(ratio))
    assert result.repeats == 3


def test_free_machines_and_single_workloads_are_refused() -> None:
    settings = validation.figure_1([1, 2])
    blocks = _experiment([{one.text: _outcome(one, 1) for one in settings}])
    with pytest.raises(InputError, match="calibrated costs"):
        validation.validate(settings, blocks, machine=Machine(1, "ideal"), scheduler=KERNEL)
    with pytest.raises(InputError, match="at least two"):
        validation.validate(settings[:1], blocks, machine=MACHINE, scheduler=KERNEL)
    with pytest.raises(InputError, match="at least one"):
        validation.measure(settings, repeats=0)


def test_equal_programs_are_the_same() -> None:
    settings = validation.figure_1([1, 10])
    blocks = []
    for slower in (1.0, 1.1, 1.3, 1.0, 1.2, 0.9):
        block: dict[str, validation.Run] = {}
        for one in settings:
            block[one.text] = _outcome(one, round(1e6 * one.loops * slower))
            block[f"rt-tests {one.text}"] = _rt_tests(one, one.loops * slower / 1e3)
        blocks.append(block)
    found = validation.equivalence(settings, _experiment(blocks))
    assert found.same_work
    # One message is too short for rt-tests' milliseconds: six pairs remain, all equal.
    assert found.ratio is not None
    assert found.ratio.size == 6
    assert found.ratio.value == pytest.approx(1)
    assert found.verdict == "same"
    # The medians of 1, 1.1, 1.3, 1, 1.2, 0.9 ms a message.
    assert found.ours_ns == pytest.approx({1: 1.05e6, 10: 1.05e7})


def test_other_work_is_noticed() -> None:
    settings = validation.figure_1([1, 10])
    block: dict[str, validation.Run] = {}
    for one in settings:
        block[one.text] = _outcome(one, 1000, workers=one.workers - 2)
        block[f"rt-tests {one.text}"] = _rt_tests(one, 0.001)
    assert not validation.equivalence(settings, _experiment([block, block])).same_work


def test_real_runs_are_really_made() -> None:
    settings = [Settings(loops=1, groups=1, fds=2), Settings(loops=4, groups=1, fds=2)]
    experiment = validation.measure(settings, repeats=2, warmup=0)
    for one in settings:
        values = experiment.values(one.text, validation.turnaround)
        assert len(values) == 2
        assert (values > 0).all()
        assert all(
            isinstance(outcome, Outcome) and outcome.target == "host"
            for outcome in experiment.outcomes(one.text)
        )
