"""A race of settings: its order, its end, and its errors over many seeds."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from scipy.stats import binom

from schedlab.experiment.group_sequential import Protocol
from schedlab.experiment.sequential_experiment import Arm, Question, settle
from schedlab.experiment.stats import Verdict
from schedlab.tuning.racing import Race, Standing, course, heats, protocol

SEEDS = 60

Compared = Mapping[int, Standing]


def _ends(entrants: Sequence[int], effects: Sequence[float], noise: float, seed: int) -> Race[int]:
    """Race entrants whose costs are known: ``exp(effect)`` times noise, the present one's effect 0.

    Every run also has the drift of its block, common to all: 20 % from block to block.
    """
    random = np.random.default_rng([seed, 7])

    def compare(heat: Sequence[int], by: Protocol) -> Compared:
        drift = random.normal(0, 0.2, by.budget)

        def arm(effect: float) -> Arm:
            return lambda block, _place: {
                "cost": math.exp(effect + drift[block] + random.normal(0, noise))
            }

        settled = settle(
            {"default": arm(0.0)} | {str(one): arm(effects[one]) for one in heat},
            [Question("default", str(one), "cost") for one in heat],
            by,
            seed=seed,
        )
        return {
            int(answer.question.treatment): Standing(
                answer.judged.verdict is Verdict.BETTER,
                answer.judged.decided,
                None if answer.judged.ratio is None else answer.judged.ratio.value,
            )
            for answer in settled.answers
        }

    return list(course(entrants, compare))[-1]


def test_nothing_wins_where_all_are_the_same_but_as_seldom_as_stated() -> None:
    # A/A: any winner is false. Of SEEDS races 5 % at most have one, so more than the 99.9 %
    # quantile of that binomial distribution would be no chance.
    false = sum(_ends(range(6), [0.0] * 6, 0.03, seed).winner is not None for seed in range(SEEDS))
    assert false <= binom.ppf(0.999, SEEDS, 0.05)


def test_the_best_wins_where_the_prior_ranks_it_among_the_first_heats() -> None:
    # The prior has the best (30 % less) third, in the second heat, behind one that gains 10 % and
    # one that gains nothing. The noise of a pair is 4 %, so twelve pairs know a ratio within
    # 4 % * t(0.999, 11 degrees) / sqrt(12), 5 %: neither the 30 nor the 10 can be missed, and the
    # best wins each race but for the stated error.
    effects = [math.log(0.9), 0.0, math.log(0.7), 0.05, 0.1, 0.2, 0.02]
    races = [_ends(range(7), effects, 0.03, seed) for seed in range(20)]
    wrong = sum(race.winner != 2 for race in races)
    assert wrong <= binom.ppf(0.999, len(races), 0.05)
    # The third heat brings nothing better and is the last; all seven have run by then.
    assert all(race.unraced == () for race in races)


def test_the_race_ends_with_a_heat_that_brings_nothing_better() -> None:
    effects = [math.log(0.7), *[0.2] * 11]
    race = _ends(range(12), effects, 0.01, 1)
    assert (race.winner, race.heat, race.settled) == (0, 1, True)
    assert race.unraced == tuple(range(3, 12))
    assert sorted(race.standings) == [0, 1, 2]


def test_a_leader_that_a_later_heat_leaves_open_keeps_the_heat_that_certified_it() -> None:
    open_now = Standing(False, False, 0.91)
    seen: list[list[str]] = []

    def compare(heat: Sequence[str], _: Protocol) -> Mapping[str, Standing]:
        seen.append(list(heat))
        first = len(seen) == 1
        leader = Standing(True, True, 0.9) if first else open_now
        return {one: leader if one == "a" else Standing(False, True, 1.1) for one in heat}

    *_, race = course("abc", compare)
    assert seen == [["a"], ["a", "b", "c"]]
    assert (race.winner, race.heat) == ("a", 0)
    assert race.standings["a"].certified


def test_a_heat_with_a_leader_is_looked_at_once() -> None:
    seen: list[tuple[int, ...]] = []

    def compare(heat: Sequence[int], by: Protocol) -> Compared:
        seen.append(by.looks)
        return {one: Standing(one == 1, True, 0.9 if one == 1 else 1.0) for one in heat}

    *_, race = course(range(9), compare)
    # The second heat certifies 1, the third runs beside it and ends the race.
    assert seen == [(12, 20), (12, 20), (12,)]
    assert (race.winner, race.unraced) == (1, (7, 8))


def test_the_heats_share_the_error() -> None:
    # Four heats at 5 % together: Boole's inequality holds with 1.25 % each.
    assert len(heats(range(9))) == 4
    assert protocol(4, 0.05, 0.01, 20) == Protocol((12, 20), 0.01, 0.9875)
    with pytest.raises(ValueError, match="between 0 and 1"):
        protocol(1, 1.5, 0.01, 20)
