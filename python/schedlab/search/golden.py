"""Golden section search in one dimension.

The interval [a0, b0] has two inner points a1 < b1, each rho = (3 - sqrt(5)) / 2 of its length from
an end, so that rho / (1 - rho) = (1 - rho) / 1. If f(a1) < f(b1) the minimum lies in [a0, b1],
else, a tie included, in [a1, b0]: the rule of "Comparison of application of global and
one-dimensional local optimization methods to operating system scheduler tuning", section V.B, after
Chong and Żak, "An Introduction to Optimization", section 7.1. One inner point of the
old interval is one of the new, so only the first iteration evaluates two points and every later one
a single point.

The rule finds the minimum of a function with one valley. On a plateau (a function counted in whole
units has them) every comparison is a tie, and ties go right.
"""

import math

import numpy as np

from schedlab.search.generation import GenerationSearch
from schedlab.search.space import FloatArray, Space

RHO = (3 - math.sqrt(5)) / 2
"""The short part of a length divided in the golden ratio, 0.382."""


class GoldenSection(GenerationSearch):
    """Golden section search, down to an interval of a stated length.

    The first generation is two positions, every later one a single position; each shortens the
    interval by the factor 1 - rho = 0.618. See `executions_for` for how many that takes.

    Args:
        space: of one dimension; its bounds are the first interval.
        tolerance: length of the interval, in the dimension's unit, at which the search ends;
            at least 1 where only whole values are allowed, for the points to stay apart.

    Raises:
        ValueError: a space of more dimensions, or a tolerance out of range.

    >>> from schedlab.search import Dimension, Space, run
    >>> search = GoldenSection(Space((Dimension("x", 0, 2),)), tolerance=0.01)
    >>> history = run(search, lambda x: (x[:, 0] - 1.5) ** 2)
    >>> history.executions, round(float(history.minimum_position[0]), 2)
    (13, 1.5)
    """

    def __init__(self, space: Space, *, tolerance: float) -> None:
        super().__init__(space)
        if len(space.dimensions) != 1:
            raise ValueError(
                f"golden section searches 1 dimension, not {len(space.dimensions)}: "
                + ", ".join(space.names)
            )
        dimension = space.dimensions[0]
        least = 1.0 if dimension.integer else 0.0
        if not (math.isfinite(tolerance) and tolerance > 0 and tolerance >= least):
            raise ValueError(
                f"tolerance is {tolerance}: a number "
                + ("of at least 1 is needed" if dimension.integer else "above 0 is needed")
            )
        self._tolerance = tolerance
        self._low, self._high = float(dimension.low), float(dimension.high)
        self._left_point = self._low + RHO * (self._high - self._low)
        self._right_point = self._high - RHO * (self._high - self._low)
        self._left_value: float | None = None
        self._right_value: float | None = None

    @staticmethod
    def executions_for(length: float, tolerance: float) -> int:
        """Return how many evaluations shorten an interval of this length to the tolerance.

        n evaluations shorten it n - 1 times, and the search makes at least one comparison:
        max(2, 1 + ceil(ln(tolerance / length) / ln(1 - rho))).

        >>> GoldenSection.executions_for(2.0, 0.01)
        13
        """
        return max(2, 1 + math.ceil(math.log(tolerance / length) / math.log(1 - RHO)))

    @property
    def interval(self) -> tuple[float, float]:
        """The interval that holds the minimum, if the function has one valley."""
        return self._low, self._high

    @property
    def finished(self) -> bool:
        """Whether the interval is no longer than the tolerance, after at least one comparison."""
        return self._generation > 1 and self._high - self._low <= self._tolerance

    def _propose(self) -> FloatArray:
        missing = []
        if self._left_value is None:
            missing.append([self._left_point])
        if self._right_value is None:
            missing.append([self._right_point])
        return np.array(missing)

    def _learn(self, positions: FloatArray, values: FloatArray) -> None:
        del positions  # the interval divides in the continuum, whatever was rounded for evaluation
        told = [float(value) for value in values]
        left = told.pop(0) if self._left_value is None else self._left_value
        right = told.pop(0) if self._right_value is None else self._right_value
        if left < right:
            self._high = self._right_point
            self._right_point, self._right_value = self._left_point, left
            self._left_point = self._low + RHO * (self._high - self._low)
            self._left_value = None
        else:
            self._low = self._left_point
            self._left_point, self._left_value = self._right_point, right
            self._right_point = self._high - RHO * (self._high - self._low)
            self._right_value = None
