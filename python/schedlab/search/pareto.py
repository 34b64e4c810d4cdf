"""Pareto fronts of positions with several values, each the better the lower.

A row of values *dominates* another where it is nowhere higher and somewhere lower; the front is
what no other row dominates. K. Deb et al., "A Fast and Elitist Multiobjective Genetic Algorithm:
NSGA-II", IEEE Transactions on Evolutionary Computation 6:2, 2002, section III.
"""

import numpy as np
from numpy.typing import ArrayLike

from schedlab.search.space import FloatArray

_MARGIN = 0.1
"""How far beyond the front its reference point is, as a share of the front's extent."""


def front(values: ArrayLike) -> list[int]:
    """Return the numbers of the rows that no other row dominates; of equal rows the first.

    Args:
        values: a row a position, a column an aim; rows that are not finite are left out.

    >>> front([[1, 4], [2, 2], [3, 3], [4, 1], [2, 2]])
    [0, 1, 3]
    """
    rows = _matrix(values)
    found: list[int] = []
    # In lexicographic order no row dominates an earlier one; lexsort is stable.
    for place in np.lexsort(rows.T[::-1]).tolist():
        row = rows[place]
        if np.isfinite(row).all() and not any((rows[one] <= row).all() for one in found):
            found.append(place)
    return sorted(found)


def hypervolume(values: ArrayLike, reference: ArrayLike) -> float:
    """Return the volume between a front and a reference point, exactly, slice by slice.

    E. Zitzler, L. Thiele, "Multiobjective Evolutionary Algorithms: A Comparative Case Study and the
    Strength Pareto Approach", IEEE Transactions on Evolutionary Computation 3:4, 1999.

    Args:
        values: a row a position; what is not below the reference everywhere adds nothing.
        reference: a value for each aim.

    >>> hypervolume([[1, 4], [2, 2], [4, 1]], [5, 5])
    11.0
    """
    rows, corner = _matrix(values), np.asarray(reference, dtype=np.float64)
    rows = rows[(rows < corner).all(axis=1)]
    if not len(rows):
        return 0.0
    if len(corner) == 1:
        return float(corner[0] - rows.min())
    order = rows[np.argsort(rows[:, -1], kind="stable")]
    ends = [*order[1:, -1], corner[-1]]
    slices = (
        (end - row[-1]) * hypervolume(order[: place + 1, :-1], corner[:-1])
        for place, (row, end) in enumerate(zip(order, ends, strict=True))
        if end > row[-1]
    )
    return float(sum(slices))


def representatives(values: ArrayLike, count: int, first: int | None = None) -> list[int]:
    """Return rows that stand for a front: one after the other what adds most hypervolume.

    Adding greedily comes to 1 - 1/e of the largest hypervolume of so many rows at least
    (A. P. Guerreiro, C. M. Fonseca, L. Paquete, "Greedy Hypervolume Subset Selection in Low
    Dimensions", Evolutionary Computation 24:3, 2016). The reference point is the front's worst
    value of each aim, and a tenth of its extent beyond.

    Args:
        values: a front, a row a position.
        count: rows to return at the most.
        first: a row that is among them.

    >>> representatives([[1, 9], [2, 8], [4, 4], [9, 1]], 2)
    [2, 1]
    """
    rows = _matrix(values)
    if not len(rows):
        return []
    worst = rows.max(axis=0)
    extent = worst - rows.min(axis=0)
    reference = worst + _MARGIN * np.where(extent > 0, extent, 1.0)
    chosen = [] if first is None else [first]
    while len(chosen) < min(count, len(rows)):
        left = [place for place in range(len(rows)) if place not in chosen]
        chosen.append(max(left, key=lambda place: hypervolume(rows[[*chosen, place]], reference)))
    return chosen[:count]


def _matrix(values: ArrayLike) -> FloatArray:
    rows = np.asarray(values, dtype=np.float64)
    return rows if rows.ndim == 2 else rows.reshape(len(rows), 1)
