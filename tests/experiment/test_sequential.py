"""Sequential tests, families of comparisons and drift, where the truth is known."""

# ruff: noqa: ARG001, ARG005 - arms are told block and place, and few here look at them

import numpy as np
import pytest

from schedlab.boundary.errors import RunError
from schedlab.experiment import stats
from schedlab.experiment.drift import drift
from schedlab.experiment.group_sequential import Pairs, Protocol, judge_all
from schedlab.experiment.sequential_experiment import Question, Unsettled, Values, settle
from schedlab.experiment.stats import Verdict
from schedlab.studies.protocol import Scenario, judge_trials, simulate


def test_the_looks_error_probabilities_add_up() -> None:
    for blocks in (6, 12, 50, 320):
        assert sum(Protocol.within(blocks).alphas) == pytest.approx(0.05)


def test_mean_intervals_are_those_of_the_bootstrap() -> None:
    sample = np.random.default_rng(1).normal(size=40)
    one = stats.bootstrap(sample, lambda x: np.asarray(x.mean(axis=-1)), rng=3)
    low, high = stats.mean_intervals(sample, rng=3)[0]
    assert (low, high) == pytest.approx((one.interval.low, one.interval.high))


@pytest.mark.parametrize("drifts", [False, True])
def test_where_nothing_differs_a_difference_is_rarely_claimed(drifts: bool) -> None:
    shares = simulate(Scenario(1.0, drifts))
    estimate = stats.proportion(shares.different, shares.trials)
    assert estimate.value <= 0.05
    assert estimate.interval.high <= 0.065
    assert shares.verdicts[Verdict.SAME] >= 0.9 * shares.trials


@pytest.mark.parametrize(("effect", "said"), [(1.05, Verdict.WORSE), (0.95, Verdict.BETTER)])
def test_five_per_cent_are_found(effect: float, said: Verdict) -> None:
    shares = simulate(Scenario(effect, True))
    assert shares.verdicts[said] >= 0.95 * shares.trials


def test_many_trials_are_judged_as_one_is() -> None:
    logs = np.random.default_rng(4).normal(0.01, 0.04, size=(20, 50))
    verdicts, _ = judge_trials(logs, Protocol((50,)))
    for row, verdict in zip(logs, verdicts, strict=True):
        pairs = Pairs(np.ones(50).tolist(), np.exp(row).tolist())
        assert judge_all({"a": pairs}, 0.05)["a"].verdict.value == verdict


def test_a_clear_loser_leaves_and_the_rest_goes_on() -> None:
    counts = {"base": 0, "bad": 0, "near": 0}
    rng = np.random.default_rng(2)

    def arm(name: str, value: float) -> object:
        def run(block: int, place: int) -> Values:
            counts[name] += 1
            return {"time": value * float(rng.lognormal(0, 0.03))}

        return run

    arms = {"base": arm("base", 1.0), "bad": arm("bad", 2.0), "near": arm("near", 1.005)}
    questions = [Question("base", "bad", "time"), Question("base", "near", "time")]
    settled = settle(arms, questions, Protocol.within(50))  # type: ignore[arg-type]
    assert settled.answers[0].judged.verdict is Verdict.WORSE
    assert counts["bad"] == 12 < counts["near"] == counts["base"] == settled.blocks


def test_a_failing_arm_is_left_out_and_an_interrupt_keeps_what_is_known() -> None:
    def fails(block: int, place: int) -> Values:
        raise RunError("no")

    def stops(block: int, place: int) -> Values:
        if block == 3:
            raise KeyboardInterrupt
        return {"time": 1.0}

    good = {"a": lambda block, place: {"time": 1.0}, "b": stops, "c": fails}
    questions = [Question("a", "b", "time"), Question("a", "c", "time")]
    with pytest.raises(Unsettled) as caught:
        settle(good, questions, Protocol())
    assert caught.value.settled.failures == {"c": "no"}
    assert caught.value.settled.blocks == 3


def test_drift_is_found_where_there_is_one() -> None:
    # ln 1.01 a step over 39 steps: a factor of 1.01^39 = 1.474.
    found = drift({"a": [(t, 1.01**t) for t in range(40)]})
    assert found is not None
    assert found.found
    assert found.change.value == pytest.approx(1.01**39)
    noise = np.random.default_rng(5).lognormal(0, 0.03, size=40)
    assert not drift({"a": list(enumerate(noise.tolist()))}).found  # type: ignore[union-attr]
