"""Pareto fronts, their hypervolume, and searches of several aims."""

from itertools import product
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedlab.search import Dimension, Space, run
from schedlab.search.optuna_search import OptunaSearch
from schedlab.search.pareto import front, hypervolume, representatives
from schedlab.search.space import FloatArray

SIDE = 5
"""Values of a column are whole, from 0 to this."""

ROWS = st.integers(1, 3).flatmap(
    lambda aims: st.lists(
        st.lists(st.integers(0, SIDE), min_size=aims, max_size=aims), min_size=1, max_size=12
    )
)


def _dominates(one: list[int], other: list[int]) -> bool:
    return one != other and all(a <= b for a, b in zip(one, other, strict=True))


def test_a_front_worked_out_by_hand() -> None:
    # p99 in ms and the cost of a request: (2, 9) and (3, 5) and (6, 4) and (9, 1) trade one for the
    # other; (4, 5) is no better than (3, 5), (7, 7) worse than (6, 4), (9, 9) worse than any.
    rows = [[7, 7], [3, 5], [9, 9], [9, 1], [4, 5], [2, 9], [6, 4]]
    assert front(rows) == [1, 3, 5, 6]
    assert front([[1.0, np.inf], [2.0, 2.0]]) == [1]
    assert front([[3.0], [2.0], [2.0]]) == [1]
    assert front([]) == representatives([], 2) == []


@given(ROWS)
def test_a_front_is_what_nothing_dominates(rows: list[list[int]]) -> None:
    found = front(rows)
    for place, row in enumerate(rows):
        dominated = any(_dominates(other, row) for other in rows)
        repeated = row in rows[:place]
        assert (place in found) == (not dominated and not repeated)


@given(ROWS)
def test_a_front_depends_on_the_order_of_values_alone(rows: list[list[int]]) -> None:
    # Any increasing function of each aim leaves the front, as logarithms of ratios do.
    assert front(np.exp(np.array(rows, dtype=float))) == front(rows)
    assert front(10.0 * np.array(rows) ** 3 + 7) == front(rows)


@given(ROWS)
def test_hypervolume_counts_the_cells_that_are_dominated(rows: list[list[int]]) -> None:
    # With whole values the volume up to SIDE + 1 is the number of unit cells whose lower corner is
    # nowhere below some row.
    cells = product(range(SIDE + 1), repeat=len(rows[0]))
    counted = sum(any((np.array(row) <= cell).all() for row in rows) for cell in cells)
    assert hypervolume(rows, [SIDE + 1] * len(rows[0])) == counted


def test_a_known_hypervolume() -> None:
    # Three boxes to (5, 5), of areas 4 x 1 and 3 x 3 and 1 x 4. The first and the second share
    # 3 x 1, the second and the third 1 x 3, the first and the third 1 x 1, and all of them that:
    # 17 - 7 + 1 = 11. (9, 0) is beyond the reference and adds nothing.
    assert hypervolume([[1, 4], [2, 2], [4, 1], [9, 0]], [5, 5]) == 11


def test_representatives_add_most_volume_first() -> None:
    # The reference is (9, 9) and a tenth of the extent (8, 8) beyond: (9.8, 9.8). Alone (1, 9) has
    # 8.8 x 0.8 = 7.04, (2, 8) 7.8 x 1.8 = 14.04, (4, 4) 5.8 x 5.8 = 33.64, (9, 1) 7.04: (4, 4) is
    # first. Beside it (2, 8) adds 2 x 1.8 = 3.6, (1, 9) adds 3 x 0.8 = 2.4 and (9, 1) adds
    # 0.8 x 3 = 2.4.
    rows = [[1, 9], [2, 8], [4, 4], [9, 1]]
    assert representatives(rows, 1) == [2]
    assert representatives(rows, 2) == [2, 1]
    assert representatives(rows, 2, first=0)[0] == 0
    assert sorted(representatives(rows, 9)) == [0, 1, 2, 3]


SPACE = Space([Dimension(f"x{place}", 0, 1) for place in range(4)])


def _zdt1(positions: FloatArray) -> FloatArray:
    """ZDT1 (Zitzler, Deb, Thiele 2000): its front is f2 = 1 - sqrt(f1), where the others are 0."""
    g = 1 + 9 * positions[:, 1:].mean(axis=1)
    f1 = positions[:, 0]
    return np.column_stack([f1, g * (1 - np.sqrt(f1 / g))])


@pytest.mark.parametrize("sampler", ["nsga2", "tpe"])
def test_a_search_of_several_aims_beats_chance_on_a_known_front(
    sampler: Literal["nsga2", "tpe"],
) -> None:
    # To the reference (1.1, 1.1) the front's volume is the square of 1.1 less the area below
    # 1 - sqrt(f1) from 0 to 1, a third.
    best = 1.1 * 1.1 - 1 / 3
    seen: list[FloatArray] = []

    def rows(positions: FloatArray) -> FloatArray:
        values = _zdt1(positions)
        seen.append(values)
        return np.column_stack([values.sum(axis=1), values])

    search = OptunaSearch(SPACE, sampler, evaluations=160, batch=20, seed=1, aims=2)
    history = run(search, rows)
    drawn = _zdt1(np.random.default_rng(1).random((160, 4)))
    volume = hypervolume(np.concatenate(seen), [1.1, 1.1])
    # It learns: as many positions at random have less than half of its volume.
    assert 2 * hypervolume(drawn, [1.1, 1.1]) < volume <= best
    # The history records the first number of each row.
    assert history.minimum == pytest.approx(min(values.sum(axis=1).min() for values in seen))


@pytest.mark.parametrize("sampler", ["nsga2", "tpe"])
def test_a_search_keeps_away_from_what_is_beyond_a_limit(sampler: Literal["nsga2", "tpe"]) -> None:
    # f1 + f2 is least at the far end of the front; the limit forbids f1 above 0.3.
    shares = []

    def rows(positions: FloatArray) -> FloatArray:
        values = _zdt1(positions)
        beyond = positions[:, 0] - 0.3
        shares.append(float((beyond <= 0).mean()))
        return np.column_stack([values.sum(axis=1), values, beyond])

    run(
        OptunaSearch(SPACE, sampler, evaluations=200, batch=20, seed=2, aims=2, limits=1),
        rows,
    )
    # 30 % at random.
    assert np.mean(shares[-3:]) > 0.6


def test_what_cannot_be_told_is_refused() -> None:
    search = OptunaSearch(SPACE, "nsga2", evaluations=4, batch=4, aims=2)
    search.ask()
    with pytest.raises(ValueError, match="2 numbers a position"):
        search.tell(np.zeros(4))
    with pytest.raises(ValueError, match="is not a number"):
        search.tell(np.full((4, 2), np.nan))
    # A position that failed is left out, and the search goes on.
    search.tell(np.array([[np.inf, np.inf], [1, 2], [2, 1], [3, 3]]))
    assert search.finished
    with pytest.raises(ValueError, match="for one aim 'cmaes'"):
        OptunaSearch(SPACE, "cmaes", aims=2)
