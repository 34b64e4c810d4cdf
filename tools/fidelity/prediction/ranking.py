"""Ranks of settings of which some are as good as each other, and how two rankings agree."""

import math

import numpy as np

from fidelity.observation import FloatArray


def ranks(values: FloatArray, least: float) -> FloatArray:
    """Return the rank of each value, 1 for the least; equal values share a rank.

    A rank is one, and one more for each value that is clearly less, and half for each other that
    is neither clearly less nor clearly more. That is what ties are given in rank correlations
    (Kendall, "The treatment of ties in ranking problems", Biometrika 33, 1945), with values tied
    that are so near that which of them is less is chance. Where nothing is near it is the
    ordinary rank.

    Args:
        values: positive numbers.
        least: how far the greater of two is above the less, as a part of it, if they differ.

    >>> [float(rank) for rank in ranks(np.array([100.0, 101.0, 150.0, 90.0]), 0.02)]
    [2.5, 2.5, 4.0, 1.0]
    """
    one, other = values[:, None], values[None, :]
    near = np.maximum(one, other) / np.minimum(one, other) - 1 <= least
    less = (other < one) & ~near
    shared: FloatArray = less.sum(axis=1) + (near.sum(axis=1) + 1) / 2
    return shared


def agreement(one: FloatArray, other: FloatArray, least: float) -> float:
    """Return Spearman's rank correlation, ties as `ranks` has them; 0 where there is no order.

    Args:
        one: positive numbers.
        other: as many, of the same settings in the same order.
        least: how far two have to be apart that differ, as a part.

    >>> agreement(np.array([1.0, 2.0, 3.0]), np.array([10.0, 30.0, 20.0]), 0.0)
    0.5
    """
    first, second = ranks(one, least), ranks(other, least)
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return 0.0
    found = float(np.corrcoef(first, second)[0, 1])
    # Of a perfect agreement the roots may make a little more than 1.
    return 0.0 if math.isnan(found) else round(found, 12)
