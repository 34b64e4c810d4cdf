"""A race of settings: its exploration, its end, and its errors over many seeds."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from scipy.stats import binom

from schedlab.experiment.group_sequential import Protocol
from schedlab.experiment.sequential_experiment import Arm, Question, settle
from schedlab.experiment.stats import Verdict
from schedlab.tuning.racing import DIFFERENCE, EXPLORED, HEATS, Race, Standing, course, explored
from schedlab.tuning.racing import protocol as judged_by
from schedlab.tuning.surrogate import Surrogate

SEEDS = 60

Compared = Mapping[int, Standing]


class _Kernel:
    """Answers with known costs: an effect, the drift of 20 % from block to block, and noise."""

    def __init__(self, effects: Sequence[float], noise: float, seed: int) -> None:
        self.runs: list[int] = []
        self.heats: list[list[int]] = []
        self._effects = [0.0, *effects]
        self._noise = noise
        self._random = np.random.default_rng([seed, 7])

    def run(self, one: int) -> float:
        """Return the logarithm of what a single run of a setting costs."""
        self.runs.append(one)
        return 3.0 + self._effects[one] + self._random.normal(0, self._noise)

    def compare(self, heat: Sequence[int], by: Protocol) -> Compared:
        """Compare settings with setting 0 in blocks."""
        self.heats.append(list(heat))
        drift = self._random.normal(0, 0.2, by.budget)

        def arm(one: int) -> Arm:
            return lambda block, _place: {
                "cost": math.exp(
                    self._effects[one] + drift[block] + self._random.normal(0, self._noise)
                )
            }

        settled = settle(
            {str(one): arm(one) for one in (0, *heat)},
            [Question("0", str(one), "cost") for one in heat],
            by,
            seed=len(self.heats),
        )
        return {
            int(answer.question.treatment): Standing(
                answer.judged.verdict is Verdict.BETTER,
                answer.judged.decided,
                None if answer.judged.ratio is None else answer.judged.ratio.value,
                answer.blocks,
            )
            for answer in settled.answers
        }


def _model(simulated: Sequence[float], seed: int = 1) -> Surrogate[int]:
    """Settings from 1 on, none of which is more alike to another than to a third."""
    count = len(simulated)
    return Surrogate(0, range(1, count + 1), simulated, np.eye(count + 1), seed=seed)


def _ends(
    effects: Sequence[float], simulated: Sequence[float], noise: float, seed: int
) -> tuple[Race[int], _Kernel]:
    kernel = _Kernel(effects, noise, seed)
    return list(course(_model(simulated, seed), kernel.run, kernel.compare))[-1], kernel


def test_nothing_wins_where_all_are_the_same_but_as_seldom_as_stated() -> None:
    # A/A: any winner is false. Of SEEDS races 5 % at most have one, so more than the 99.9 %
    # quantile of that binomial distribution would be no chance.
    races = [_ends([0.0] * 6, [0.0] * 6, 0.03, seed)[0] for seed in range(SEEDS)]
    false = sum(race.winner is not None for race in races)
    assert false <= binom.ppf(0.999, SEEDS, 0.05)


def test_the_best_wins_where_simulation_is_right_and_where_it_is_upside_down() -> None:
    # The best gains 30 %, the next 10 %, and a single run scatters by 3 %: six standard deviations
    # of a difference of two runs lie between them, so whichever order simulation has, one run of
    # each tells them apart. Twelve pairs know a ratio within 4 % * t(0.999, 11 degrees) / sqrt(12),
    # 5 %, so that the first heat certifies the best.
    effects = [math.log(0.9), 0.0, math.log(0.7), 0.05, 0.1, 0.2, 0.02]
    for simulated in (effects, [-one for one in effects]):
        races = [_ends(effects, simulated, 0.03, seed) for seed in range(20)]
        wrong = sum(race.winner != 3 for race, _ in races)
        assert wrong <= binom.ppf(0.999, len(races), 0.05)
        assert all(len(kernel.heats[0]) == 1 for _, kernel in races)


def test_a_simulation_that_is_right_takes_few_runs() -> None:
    # With the right order, and four times as large a step to the next as a run scatters, the first
    # run is of the best; with the wrong one, it is of the worst, and all others may be better.
    effects = [0.12 * number for number in range(10)]
    right = [len(_ends(effects, effects, 0.03, seed)[1].runs) for seed in range(3)]
    wrong = [
        len(_ends(effects, [-one for one in effects], 0.03, seed)[1].runs) for seed in range(3)
    ]
    assert np.median(right) < np.median(wrong)
    assert _ends(effects, effects, 0.03, 1)[1].runs[0] == 1
    assert _ends(effects, [-one for one in effects], 0.03, 1)[1].runs[0] == 10


def test_a_race_without_a_winner_ends_after_its_heats() -> None:
    race, kernel = _ends([0.2] * 12, [0.0] * 12, 0.01, 1)
    assert (race.winner, race.settled) == (None, True)
    # Nothing that has a verdict runs again.
    assert [len(heat) for heat in kernel.heats] == list(HEATS)
    assert len(race.standings) == sum(HEATS)
    assert race.explored == len(kernel.runs) <= EXPLORED


def test_exploration_ends_with_its_budget() -> None:
    # A loss of 0 is never expected as long as anything scatters.
    kernel = _Kernel([0.1 * number for number in range(20)], 0.5, 1)
    leaders = list(explored(_model([0.0] * 20), kernel.run, most=15, difference=0))
    assert len(leaders) == len(kernel.runs) == 15


def test_exploration_ends_once_little_can_be_gained() -> None:
    # Without noise one run of each of three settings tells all: after a few the best of them is
    # known within what counts as a difference.
    model, kernel = _model([0.0, 0.0, 0.0]), _Kernel([0.5, 0.1, 0.9], 0.0, 1)
    *_, leader = explored(model, kernel.run)
    assert leader == 2
    assert model.loss() < math.log1p(DIFFERENCE)
    assert set(kernel.runs) == {1, 2, 3}
    assert len(kernel.runs) < 20


def test_what_cannot_be_run_is_left_out() -> None:
    model = _model([-0.5, 0.0, 0.1])
    ran = []

    def run(one: int) -> float | None:
        ran.append(one)
        return None if one == 1 else 1.0 + 0.1 * one

    *_, leader = explored(model, run)
    assert (ran.count(1), leader) == (1, 2)
    assert list(course(_model([0.0]), lambda _: None, lambda _heat, _by: {})) == []


def test_a_heat_that_leaves_the_leader_open_is_followed_by_another_one() -> None:
    seen: list[list[int]] = []

    def compare(heat: Sequence[int], _: Protocol) -> Compared:
        seen.append(list(heat))
        return {one: Standing(False, False, 0.9, 20) for one in heat}

    *_, race = course(_model([0.0] * 3), lambda one: 0.1 * one, compare)
    # 1 is the best in each heat, so it runs in all of them.
    assert [1 in heat for heat in seen] == [True, True, True]
    assert (race.winner, race.settled) == (None, False)


def test_the_heats_share_the_error() -> None:
    # Three heats at 5 % together: Boole's inequality holds with a third of it each.
    seen: list[Protocol] = []

    def compare(heat: Sequence[int], by: Protocol) -> Compared:
        seen.append(by)
        return {one: Standing(False, True, 1.1, 12) for one in heat}

    list(course(_model([0.0] * 9), lambda _: 0.0, compare, error=0.06))
    assert seen == [Protocol((12, 20), 0.01, 1 - 0.06 / 3)] * 3
    with pytest.raises(ValueError, match="between 0 and 1"):
        judged_by(1, 1.5, 0.01, 20)
