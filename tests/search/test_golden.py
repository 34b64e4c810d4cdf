"""Golden section search, step by step and on functions whose minimum is known."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedlab.search import Dimension, GoldenSection, Space, driver
from schedlab.search.space import FloatArray

UNIT = Space((Dimension("x", 0, 1),))
GOLDEN = (math.sqrt(5) - 1) / 2  # 0.618034


def test_every_point_worked_out_by_hand() -> None:
    # f(x) = (x - 0.7)^2 on [0, 1], to 0.1:
    #   a1 0.381966 f 0.1012, b1 0.618034 f 0.0067: right, [0.381966, 1]
    #   b1 0.763932 f 0.0041 < 0.0067: right, [0.618034, 1]
    #   b1 0.854102 f 0.0237 > 0.0041: left, [0.618034, 0.854102]
    #   a1 0.708204 f 0.0001 < 0.0041: left, [0.618034, 0.763932]
    #   a1 0.673762 f 0.0007 > 0.0001: right, [0.673762, 0.763932], 0.0902 long: the end
    search = GoldenSection(UNIT, tolerance=0.1)
    history = driver.run(search, lambda x: (x[:, 0] - 0.7) ** 2)
    expected = [0.381966, 0.618034, 0.763932, 0.854102, 0.708204, 0.673762]
    np.testing.assert_allclose(history.positions[:, 0], expected, atol=1e-6)
    assert search.interval == pytest.approx((0.673762, 0.763932), abs=1e-6)
    # Two in the first iteration, one in every later one.
    assert history.generations.tolist() == [1, 1, 2, 3, 4, 5]
    assert history.executions == 6
    assert history.executions_to_minimum == 5


def test_each_iteration_shortens_the_interval_by_the_golden_ratio() -> None:
    search = GoldenSection(UNIT, tolerance=0.001)
    length = 1.0
    while not search.finished:
        search.tell(np.abs(search.ask()[:, 0] - 0.3))
        low, high = search.interval
        assert high - low == pytest.approx(length * GOLDEN)
        length = high - low
    # 0.618^14 = 0.0012 > 0.001 >= 0.618^15 = 0.0007.
    assert search.generation - 1 == 15


def test_a_tie_goes_right() -> None:
    # On a constant every comparison is a tie: the left end moves, the right one never does.
    search = GoldenSection(UNIT, tolerance=0.05)
    history = driver.run(search, lambda x: np.zeros(len(x)))
    assert search.interval[1] == 1.0
    # a1, b1, then each new point 1 - rho * 0.618^k, nearer and nearer the right end.
    assert (np.diff(history.positions[:, 0]) > 0).all()
    assert history.executions_to_minimum == 1


@given(
    minimum=st.floats(0, 1),
    low=st.floats(-100, 100),
    length=st.floats(0.1, 1000),
    precision=st.floats(1e-6, 0.9),
)
def test_a_valley_is_found_in_as_many_executions_as_the_formula_says(
    minimum: float, low: float, length: float, precision: float
) -> None:
    # |x - m| has one valley and no rounding trouble, wherever m lies, the ends included.
    space = Space((Dimension("x", low, low + length),))
    target = low + minimum * length
    tolerance = precision * length
    search = GoldenSection(space, tolerance=tolerance)
    history = driver.run(search, lambda x: np.abs(x[:, 0] - target))
    first, last = search.interval
    slack = 1e-9 * (abs(low) + length)
    assert first - slack <= target <= last + slack
    assert last - first <= tolerance
    # n evaluations shorten n - 1 times: length * 0.618^(n - 1) <= tolerance. At an exact power
    # rounding decides.
    expected = GoldenSection.executions_for(length, tolerance)
    power = math.log(precision) / math.log(GOLDEN)
    if abs(power - round(power)) > 1e-6:
        assert history.executions == expected
    assert length * GOLDEN ** (expected - 1) <= tolerance * (1 + 1e-9)


def test_at_least_one_comparison_is_made() -> None:
    assert GoldenSection.executions_for(1.0, 5.0) == 2
    assert driver.run(GoldenSection(UNIT, tolerance=5.0), lambda x: x[:, 0]).executions == 2


def test_whole_values_are_evaluated_where_only_those_are_allowed() -> None:
    space = Space((Dimension("period", 100_000, 2_000_000_000, integer=True),))
    history = driver.run(
        GoldenSection(space, tolerance=1000), lambda x: np.abs(x[:, 0] - 123_456_789)
    )
    assert (history.positions == np.rint(history.positions)).all()
    assert abs(history.minimum_position[0] - 123_456_789) <= 1000


def test_the_point_that_both_intervals_share_is_not_evaluated_again() -> None:
    seen: list[float] = []

    def objective(x: FloatArray) -> FloatArray:
        seen.extend(x[:, 0])
        return np.abs(x[:, 0] - 0.4)

    driver.run(GoldenSection(UNIT, tolerance=1e-4), objective)
    assert min(np.diff(np.sort(seen))) > 1e-5


def test_bad_input_is_named() -> None:
    with pytest.raises(ValueError, match="searches 1 dimension, not 2: x, y"):
        GoldenSection(Space((Dimension("x", 0, 1), Dimension("y", 0, 1))), tolerance=0.1)
    for tolerance in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match=r"tolerance is .* above 0 is needed"):
            GoldenSection(UNIT, tolerance=tolerance)
    with pytest.raises(ValueError, match=r"tolerance is 0.5: a number of at least 1 is needed"):
        GoldenSection(Space((Dimension("x", 0, 9, integer=True),)), tolerance=0.5)
