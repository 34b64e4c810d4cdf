"""The protocol of a comparison."""

from collections.abc import Callable
from operator import itemgetter

import numpy as np
import pytest

from schedlab.experiment.blocks import Experiment, Interrupted, Progress, run_blocks
from schedlab.experiment.stats import Verdict


def recorder(log: list[str], name: str, value: float = 1.0) -> Callable[[], float]:
    def arm() -> float:
        log.append(name)
        return value

    return arm


def test_every_block_runs_every_arm_once() -> None:
    log: list[str] = []
    experiment = run_blocks({name: recorder(log, name) for name in "abc"}, blocks=50)
    assert len(log) == 150
    for block, runs in enumerate(experiment.blocks):
        assert sorted(run.arm for run in runs) == ["a", "b", "c"]
        assert [run.position for run in runs] == [0, 1, 2]
        assert {run.block for run in runs} == {block}
    # The record tells the order in which the arms were really run.
    assert [run.arm for runs in experiment.blocks for run in runs] == log


def test_every_order_occurs_about_equally_often() -> None:
    # Six orders of three arms in 600 blocks: Binomial(600, 1/6), mean 100, standard deviation 9.1.
    experiment = run_blocks({name: recorder([], name) for name in "abc"}, blocks=600, seed=1)
    orders = ["".join(run.arm for run in runs) for runs in experiment.blocks]
    assert len(set(orders)) == 6
    for order in set(orders):
        assert orders.count(order) == pytest.approx(100, abs=4 * 9.1)


def test_orders_repeat_by_seed() -> None:
    def orders(seed: int) -> list[str]:
        log: list[str] = []
        run_blocks({name: recorder(log, name) for name in "abc"}, blocks=10, seed=seed)
        return log

    assert orders(1) == orders(1)
    assert orders(1) != orders(2)


def test_values_are_paired_by_block_whatever_the_order() -> None:
    # Each call of either arm returns how often that arm was called: 1, 2, 3, …, one a block.
    counts = {"a": 0, "b": 0}

    def arm(name: str) -> Callable[[], int]:
        def call() -> int:
            counts[name] += 1
            return counts[name]

        return call

    experiment = run_blocks({name: arm(name) for name in counts}, blocks=5)
    assert experiment.values("a").tolist() == [1, 2, 3, 4, 5]
    assert experiment.values("b").tolist() == [1, 2, 3, 4, 5]


def test_a_drift_that_would_fool_repeats_in_a_row_cancels() -> None:
    # The machine slows by 2 % a run: a treatment 10 % better, run after the baseline, would seem
    # worse (1.02^20 = 1.49). In blocks a pair is one run apart in either order, so the drift adds
    # at most a factor 1.02 either way to the ratio of 0.9.
    runs = 0

    def arm(value: float) -> Callable[[], float]:
        def call() -> float:
            nonlocal runs
            runs += 1
            return value * 1.02**runs

        return call

    experiment = run_blocks({"base": arm(1.0), "new": arm(0.9)}, blocks=20)
    comparison = experiment.compare("base", "new")
    assert 0.9 / 1.02 <= comparison.ratio.value <= 0.9 * 1.02
    assert comparison.verdict is Verdict.BETTER
    assert (comparison.baseline, comparison.treatment) == ("base", "new")


def test_a_metric_takes_a_number_out_of_an_outcome() -> None:
    experiment = run_blocks(
        {
            "base": lambda: {"turnaround": 2.0, "requests": 100.0},
            "new": lambda: {"turnaround": 1.0, "requests": 50.0},
        },
        blocks=6,
    )
    faster = experiment.compare("base", "new", itemgetter("turnaround"))
    assert faster.verdict is Verdict.BETTER
    fewer = experiment.compare("base", "new", itemgetter("requests"), better="higher")
    assert fewer.verdict is Verdict.WORSE
    with pytest.raises(TypeError, match="dict is no number: a metric is needed"):
        experiment.values("base")


def test_the_same_arm_twice_is_the_same() -> None:
    rng = np.random.default_rng(2)

    def arm() -> float:
        return float(rng.lognormal(0.0, 0.005))

    # Noise of 0.5 % over 50 pairs: a mean log-ratio within 2 * 0.5 % * sqrt(2 / 50) = 0.2 %.
    experiment = run_blocks({"one": arm, "other": arm}, blocks=50)
    assert experiment.compare("one", "other").verdict is Verdict.SAME


def test_warmup_runs_and_is_dropped() -> None:
    log: list[str] = []
    seen: list[Progress] = []
    experiment = run_blocks(
        {"a": recorder(log, "a"), "b": recorder(log, "b")},
        blocks=3,
        warmup=2,
        progress=seen.append,
    )
    assert len(log) == 10
    assert [runs[0].block for runs in experiment.blocks] == [0, 1, 2]
    assert [report.done for report in seen] == list(range(1, 11))
    assert {report.total for report in seen} == {10}
    assert [report.arm for report in seen] == log


def test_interrupt_leaves_the_completed_blocks() -> None:
    calls = 0

    def arm() -> float:
        nonlocal calls
        calls += 1
        if calls == 6:  # the second run of the third block
            raise KeyboardInterrupt
        return float(calls)

    with pytest.raises(Interrupted, match="interrupted after 2 complete blocks") as caught:
        run_blocks({"a": arm, "b": arm}, blocks=10)
    assert isinstance(caught.value, KeyboardInterrupt)
    experiment: Experiment[float] = caught.value.experiment
    assert len(experiment.blocks) == 2
    assert sorted([*experiment.values("a"), *experiment.values("b")]) == [1, 2, 3, 4]


def test_an_arms_own_error_reaches_the_caller() -> None:
    def arm() -> float:
        raise OSError("no such benchmark")

    with pytest.raises(OSError, match="no such benchmark"):
        run_blocks({"a": arm}, blocks=1)


def test_bad_input_is_named() -> None:
    with pytest.raises(ValueError, match="there are no arms"):
        run_blocks({}, blocks=1)
    with pytest.raises(ValueError, match="blocks is 0"):
        run_blocks({"a": lambda: 1.0}, blocks=0)
    with pytest.raises(ValueError, match="warmup is -1"):
        run_blocks({"a": lambda: 1.0}, blocks=1, warmup=-1)
    with pytest.raises(ValueError, match="there is no arm 'c': the arms are a, b"):
        run_blocks({"a": lambda: 1.0, "b": lambda: 1.0}, blocks=1).outcomes("c")
