"""Ridge analysis: the best point at each distance from the centre.

A. E. Hoerl, "Optimum solution of many variables equations", Chemical Engineering Progress 55, 1959;
N. R. Draper, "'Ridge Analysis' of Response Surfaces", Technometrics 5:4, 1963. On a sphere of
radius d the gradient is along the radius, (B - mu I) x = -b / 2. Every mu above the greatest
eigenvalue gives the maximum on its sphere, every one below the least the minimum; the radius falls
as mu moves away, so each d has one mu.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from schedlab.design.surface import Surface
from schedlab.experiment.stats import FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class PathPoint:
    """A point on a path.

    Attributes:
        distance: from the centre, in coded units.
        coded: the point.
        response: the model's prediction there; the farther out, the less reliable.
    """

    distance: float
    coded: FloatArray
    response: float


def ridge_path(
    surface: Surface,
    distances: Sequence[float] = tuple(np.arange(0, 5.5, 0.5)),
    *,
    goal: Literal["ascent", "descent"] = "descent",
) -> list[PathPoint]:
    """Return the points of the greatest or least response at distances from the centre.

    Of a first-order surface that is the straight line along its gradient.

    Args:
        surface: fitted, of any order.
        distances: from the centre, in coded units, at least 0.
        goal: ``descent`` to the least response, ``ascent`` to the greatest.

    Raises:
        ValueError: a distance below 0, or a surface that is level at the centre in every direction.

    >>> from schedlab.design import central_composite, fit
    >>> design = central_composite(2)
    >>> surface = fit(design, (design[:, 0] - 2) ** 2 + design[:, 1] ** 2)
    >>> [round(point.response, 6) for point in ridge_path(surface, [0.0, 1.0])]
    [4.0, 1.0]
    """
    steps = np.asarray(distances, dtype=np.float64)
    if (steps < 0).any() or not np.isfinite(steps).all():
        raise ValueError(f"distances are {list(distances)}: finite numbers from 0 on are needed")
    side = -1.0 if goal == "descent" else 1.0
    linear = side * surface.linear
    if surface.order == "first":
        length = float(np.linalg.norm(linear))
        if length == 0:
            raise ValueError("the surface is level: no direction is better than another")
        points = steps[:, None] * (linear / length)
    else:
        points = np.array([_maximum(linear, side * surface.quadratic, step) for step in steps])
    heights = surface.predict(points)
    return [
        PathPoint(float(step), point, float(height))
        for step, point, height in zip(steps, points, heights, strict=True)
    ]


def _maximum(linear: FloatArray, quadratic: FloatArray, distance: float) -> FloatArray:
    """Return the greatest point of ``x'b + x'Bx`` on the sphere of a radius about 0."""
    if distance == 0:
        return np.zeros_like(linear)
    values, vectors = np.linalg.eigh(quadratic)
    along = vectors.T @ linear
    top = values[-1]
    scale = max(float(np.abs(values).max()), float(np.abs(along).max()), 1e-300)
    steep = values >= top - 1e-9 * scale
    if np.abs(along[steep]).max() <= 1e-9 * scale:
        # The gradient has nothing along the steepest axes. Where the other axes do not fill the
        # radius with mu at the top, the rest of it goes along those axes, either way.
        rest = np.where(steep, 0.0, 0.5 * along / np.where(steep, 1.0, top - values))
        length = float(np.linalg.norm(rest))
        if length <= distance:
            rest[-1] = np.sqrt(distance**2 - length**2)
            return np.asarray(vectors @ rest)

    def radius(gap: float) -> float:
        return float(np.linalg.norm(0.5 * along / (top + gap - values)))

    from scipy.optimize import brentq  # noqa: PLC0415 - slow to load, and needed here alone

    # The radius lies between those that the part along the top and the whole gradient would give.
    high = float(np.linalg.norm(along)) / (2 * distance)
    low = high
    while radius(low) < distance:
        low /= 4
    gap = high if radius(high) >= distance else brentq(lambda g: radius(g) - distance, low, high)
    return np.asarray(vectors @ (0.5 * along / (top + gap - values)))
