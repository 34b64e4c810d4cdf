"""Search by response surfaces: design, fit, follow the ridge, narrow the region, and again.

The sequential use of the methodology in R. H. Myers, D. C. Montgomery and C. M. Anderson-Cook,
"Response Surface Methodology" (3rd ed., 2009), chapter 1.1: a second-order model is fitted to a
designed set of positions in a region; the points of the least predicted value at growing distances
from its centre (`schedlab.design.ridge_path`) are tried, and a minimum of the model where it has
one; then the region is laid about the best position so far, half as wide.
"""

from dataclasses import dataclass

import numpy as np

from schedlab.design import Surface, box_behnken, canonical, central_composite, fit, ridge_path
from schedlab.search.generation import GenerationSearch
from schedlab.search.space import FloatArray, Space

MOST_DIMENSIONS = 7

_RADII = (0.25, 0.5, 0.75, 1.0)
"""Where the ridge is tried, as shares of the distance of a design's farthest points."""


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """A region and what was fitted there.

    Attributes:
        centre: of the region, in the space's units.
        half_width: of the region, by dimension.
        surface: the fitted model, in coded units of the region; None where nothing could be fitted.
    """

    centre: FloatArray
    half_width: FloatArray
    surface: Surface | None


class ResponseSurface(GenerationSearch):
    """A search by second-order models of shrinking regions.

    Args:
        space: of 1 to 7 dimensions, all of them ordered.
        evaluations: positions to ask for at the most; the first region needs a whole design.

    Raises:
        ValueError: a space that it cannot search, or too few evaluations for the first design.

    >>> from schedlab.search import Dimension, Space, run
    >>> space = Space((Dimension("x", -5, 5), Dimension("y", -5, 5)))
    >>> search = ResponseSurface(space, evaluations=40)
    >>> history = run(search, lambda p: (p[:, 0] - 1) ** 2 + (p[:, 1] + 2) ** 2)
    >>> history.minimum < 1e-12, search.stages[0].surface.names
    (True, ('x', 'y'))
    """

    def __init__(self, space: Space, *, evaluations: int = 60) -> None:
        super().__init__(space)
        dimensions = len(space.dimensions)
        if dimensions > MOST_DIMENSIONS:
            raise ValueError(
                f"response surfaces are for 1 to {MOST_DIMENSIONS} dimensions, not {dimensions}"
            )
        if names := [one.name for one in space.dimensions if not one.ordered]:
            raise ValueError(f"a response surface needs numbers: {', '.join(names)} are choices")
        self._design = _design(dimensions)
        if evaluations < len(self._design):
            raise ValueError(
                f"{evaluations} executions are too few; allowed: at least {len(self._design)}, the "
                "size of the first design"
            )
        self._left = evaluations
        self._centre = (space.low + space.high) / 2
        self._half_width = (space.high - space.low) / 2
        self._fitting = True
        self._coded: list[FloatArray] = []
        self._proposals = np.empty((0, dimensions))
        self._best = self._centre.copy()
        self._best_value = np.inf
        self.stages: list[Stage] = []

    @property
    def finished(self) -> bool:
        """Whether no further design, or no further point of a ridge, is within the budget."""
        return self._left < (len(self._design) if self._fitting else 1)

    def _propose(self) -> FloatArray:
        if self._fitting:
            return self._centre + self._design * self._half_width
        return self._centre + self._proposals[: self._left] * self._half_width

    def _learn(self, positions: FloatArray, values: FloatArray) -> None:
        self._left -= len(positions)
        first = int(np.argmin(values))
        if values[first] < self._best_value:
            self._best, self._best_value = positions[first].copy(), float(values[first])
        if not self._fitting:
            self._narrow()
            return
        surface = self._fit(positions, values)
        self.stages.append(Stage(self._centre.copy(), self._half_width.copy(), surface))
        self._proposals = _candidates(surface) if surface is not None else np.empty((0, 0))
        if len(self._proposals):
            self._fitting = False
        else:
            self._narrow()

    def _fit(self, positions: FloatArray, values: FloatArray) -> Surface | None:
        usable = np.isfinite(values)
        coded = (positions[usable] - self._centre) / self._half_width
        try:
            return fit(coded, values[usable], names=self._space.names)
        except ValueError:
            return None  # positions that could not be evaluated, or were rounded onto each other

    def _narrow(self) -> None:
        """Lay the region about the best position, half as wide, within the bounds."""
        self._fitting = True
        self._half_width = self._half_width / 2
        low, high = self._space.low + self._half_width, self._space.high - self._half_width
        self._centre = np.clip(self._best, low, high)


def _design(dimensions: int) -> FloatArray:
    if dimensions == 1:
        return np.array([[-1.0], [-0.5], [0.0], [0.5], [1.0]])
    if dimensions == 2:
        return central_composite(2, alpha="faced", centre=1)
    return box_behnken(dimensions, centre=1)


def _candidates(surface: Surface) -> FloatArray:
    """Return the points that the model recommends, within the region."""
    farthest = float(np.linalg.norm(surface.design, axis=1).max())
    try:
        points = [one.coded for one in ridge_path(surface, [r * farthest for r in _RADII])]
    except ValueError:
        return np.empty((0, len(surface.names)))  # level
    try:
        found = canonical(surface)
    except ValueError:
        found = None
    if found is not None and found.nature == "minimum" and np.abs(found.stationary).max() <= 1:
        points.append(found.stationary)
    return np.unique(np.clip(np.array(points), -1.0, 1.0).round(9), axis=0)
