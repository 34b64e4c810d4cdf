"""Searching by response surfaces."""

import numpy as np
import pytest

from schedlab.design import canonical
from schedlab.search import Dimension, Pinned, ResponseSurface, Space, run
from schedlab.search.space import FloatArray


def _space(dimensions: int) -> Space:
    return Space([Dimension(f"x{i}", -4, 6) for i in range(dimensions)])


@pytest.mark.parametrize("dimensions", [1, 2, 3, 4])
def test_a_quadratic_is_found_in_the_first_region(dimensions: int) -> None:
    # A second-order model fits it exactly, so the model's minimum is the function's.
    truth = np.linspace(0.5, 2.0, dimensions)
    search = ResponseSurface(_space(dimensions), evaluations=60)
    history = run(search, lambda p: ((p - truth) ** 2).sum(axis=1))
    assert history.minimum < 1e-12
    assert history.minimum_position == pytest.approx(truth)
    assert history.generation_of(1e-12) == 2
    surface = search.stages[0].surface
    assert surface is not None
    assert canonical(surface).nature == "minimum"


def test_regions_narrow_on_what_is_no_quadratic() -> None:
    # |x - 1.3| + |y - 2.1| has a kink where its minimum is; regions of width 10, 5, 2.5, ... come
    # within the last half width of it.
    def objective(p: FloatArray) -> FloatArray:
        return np.asarray(np.abs(p[:, 0] - 1.3) + np.abs(p[:, 1] - 2.1))

    search = ResponseSurface(_space(2), evaluations=100)
    history = run(search, objective)
    widths = [stage.half_width[0] for stage in search.stages]
    assert widths == [5 / 2**i for i in range(len(widths))]
    assert history.minimum < 0.5
    assert history.evaluations <= 100


def test_positions_that_cannot_be_evaluated_are_left_out() -> None:
    search = ResponseSurface(_space(2), evaluations=60)

    def objective(p: FloatArray) -> FloatArray:
        values = (p**2).sum(axis=1)
        return np.asarray(np.where(p[:, 0] > 5, np.inf, values))

    assert run(search, objective).minimum < 0.1


def test_what_it_cannot_search_is_refused() -> None:
    with pytest.raises(ValueError, match="1 to 7 dimensions, not 8"):
        ResponseSurface(_space(8), evaluations=200)
    with pytest.raises(ValueError, match="12 executions are too few; allowed: at least 13"):
        ResponseSurface(_space(3), evaluations=12)
    choice = Space((Dimension("policy", 0, 2, integer=True, ordered=False),))
    with pytest.raises(ValueError, match="policy are choices"):
        ResponseSurface(choice, evaluations=20)


def test_a_pinned_search_moves_in_its_dimensions_alone() -> None:
    whole = Space((Dimension("a", 0, 9), Dimension("b", -4, 6), Dimension("c", 0, 9)))
    search = ResponseSurface(Space(whole.dimensions[1:2]), evaluations=12)
    history = run(Pinned(search, whole, [1], [3.0, 0.0, 7.0]), lambda p: (p[:, 1] - 2) ** 2)
    assert set(history.positions[:, 0]) == {3.0}
    assert set(history.positions[:, 2]) == {7.0}
    assert history.minimum_position[1] == pytest.approx(2)
