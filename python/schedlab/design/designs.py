"""Designs: which runs to make, in coded units, a row a run."""

from itertools import combinations, product
from typing import Literal

import numpy as np

from schedlab.experiment.stats import FloatArray

_BLOCKS = {
    3: ((0, 1), (0, 2), (1, 2)),
    4: ((0, 1), (2, 3), (0, 3), (1, 2), (0, 2), (1, 3)),
    5: tuple(combinations(range(5), 2)),
    6: ((0, 1, 3), (1, 2, 4), (2, 3, 5), (0, 3, 4), (1, 4, 5), (0, 2, 5)),
    7: ((3, 4, 5), (0, 5, 6), (1, 4, 6), (0, 1, 3), (2, 3, 6), (0, 2, 4), (1, 2, 5)),
}
"""Which factors move together in a Box-Behnken design, by the number of factors.

G. E. P. Box and D. W. Behnken, "Some New Three Level Designs for the Study of Quantitative
Variables", Technometrics 2:4, 1960, table 4: incomplete block designs, of pairs for 3 to 5 factors,
of triples for 6 and 7.
"""

_CENTRES = {3: 3, 4: 3, 5: 6, 6: 6, 7: 6}

_MOST_FACTORS = 12


def two_level(factors: int) -> FloatArray:
    """Return the full factorial design of two levels, the first factor changing fastest.

    Raises:
        ValueError: fewer than one factor, or more than 12.

    >>> two_level(2).tolist()
    [[-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0], [1.0, 1.0]]
    """
    if not 1 <= factors <= _MOST_FACTORS:
        raise ValueError(f"factors is {factors}: 1 to {_MOST_FACTORS} are allowed")
    return np.array([row[::-1] for row in product((-1.0, 1.0), repeat=factors)])


def box_behnken(factors: int, *, centre: int | None = None) -> FloatArray:
    """Return Box and Behnken's design: midpoints of edges, no corner, and centre points.

    Args:
        factors: 3 to 7.
        centre: centre points; the authors' number otherwise.

    Raises:
        ValueError: a number out of range.

    >>> box_behnken(3, centre=2).shape
    (14, 3)
    """
    if factors not in _BLOCKS:
        raise ValueError(f"factors is {factors}: Box-Behnken designs have 3 to 7")
    count = _CENTRES[factors] if centre is None else _centres(centre)
    rows = []
    for block in _BLOCKS[factors]:
        for levels in two_level(len(block)):
            row = np.zeros(factors)
            row[list(block)] = levels
            rows.append(row)
    return np.vstack([*rows, np.zeros((count, factors))])


def central_composite(
    factors: int,
    *,
    alpha: Literal["rotatable", "faced", "spherical"] | float = "rotatable",
    centre: int = 4,
) -> FloatArray:
    """Return a central composite design: a factorial, axial points and centre points.

    Args:
        factors: 1 to 12; a single one has its two ends and the axial points.
        alpha: distance of the axial points: ``rotatable`` is the fourth root of the number of
            factorial runs (the variance of a prediction depends on the distance alone), ``faced``
            is 1 (nothing beyond -1 and 1), ``spherical`` the square root of the factors.
        centre: centre points.

    Raises:
        ValueError: a number out of range.

    >>> central_composite(2, centre=1).round(3)[[0, 5, 8]].tolist()
    [[-1.0, -1.0], [1.414, 0.0], [0.0, 0.0]]
    """
    corners = two_level(factors)
    match alpha:
        case "rotatable":
            distance = len(corners) ** 0.25
        case "faced":
            distance = 1.0
        case "spherical":
            distance = factors**0.5
        case float() | int():
            distance = float(alpha)
        case _:
            raise ValueError(f"alpha is {alpha!r}: rotatable, faced, spherical or a distance")
    if not (np.isfinite(distance) and distance > 0):
        raise ValueError(f"alpha is {alpha}: a distance above 0 is needed")
    axes = [
        np.where(np.arange(factors) == factor, side * distance, 0.0)
        for factor in range(factors)
        for side in (-1, 1)
    ]
    return np.vstack([corners, *axes, np.zeros((_centres(centre), factors))])


def _centres(count: int) -> int:
    if count < 0:
        raise ValueError(f"centre is {count}: at least 0 is needed")
    return count
