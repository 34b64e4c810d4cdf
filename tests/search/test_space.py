"""Named dimensions with bounds."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedlab.search import Dimension, Space

SPACE = Space((Dimension("latency", 100_000, 1_000_000_000, integer=True), Dimension("y", -1, 1)))


def test_positions_are_moved_to_the_nearest_allowed_ones() -> None:
    allowed = SPACE.allowed([[99_999.0, -2.0], [100_000.6, 0.25], [2e9, 1.0]])
    assert allowed.tolist() == [[100_000, -1], [100_001, 0.25], [1_000_000_000, 1]]


def test_values_by_name() -> None:
    named = SPACE.named([100_001.0, 0.25])
    assert named == {"latency": 100_001, "y": 0.25}
    assert isinstance(named["latency"], int)


def test_uniform_positions_fill_the_ranges_evenly() -> None:
    # 10,000 draws: the mean of U(low, high) has standard error width / sqrt(12 * 10,000).
    positions = SPACE.uniform(np.random.default_rng(0), 10_000)
    width = SPACE.high - SPACE.low
    middle = (SPACE.low + SPACE.high) / 2
    assert (np.abs(positions.mean(axis=0) - middle) < 4 * width / math.sqrt(120_000)).all()
    assert (positions >= SPACE.low).all()
    assert (positions <= SPACE.high).all()


@given(st.lists(st.tuples(st.floats(-1e12, 1e12), st.floats(-9, 9)), min_size=1, max_size=9))
def test_allowed_positions_are_allowed_and_stay(rows: list[tuple[float, float]]) -> None:
    allowed = SPACE.allowed(rows)
    assert (allowed >= SPACE.low).all()
    assert (allowed <= SPACE.high).all()
    assert (allowed[:, 0] == np.rint(allowed[:, 0])).all()
    assert (SPACE.allowed(allowed) == allowed).all()


@pytest.mark.parametrize(("low", "high"), [(1, 1), (2, 1), (0, math.inf), (math.nan, 1)])
def test_bounds_must_be_finite_and_in_order(low: float, high: float) -> None:
    with pytest.raises(ValueError, match=r"'x' runs from .* finite bounds are needed"):
        Dimension("x", low, high)


def test_other_bad_input_is_named() -> None:
    with pytest.raises(ValueError, match=r"'x' has whole values from 0\.5 to 2"):
        Dimension("x", 0.5, 2, integer=True)
    with pytest.raises(ValueError, match="there are no dimensions"):
        Space(())
    with pytest.raises(ValueError, match="dimension 'x' is there more than once"):
        Space((Dimension("x", 0, 1), Dimension("x", 0, 2)))
