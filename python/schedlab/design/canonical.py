"""Canonical analysis: what kind of point a second-order surface has, and along which axes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from schedlab.design.surface import Surface
from schedlab.experiment.stats import FloatArray

Nature = Literal["minimum", "maximum", "saddle", "ridge"]


@dataclass(frozen=True, slots=True, eq=False)
class Canonical:
    """A second-order surface about its stationary point: ``y = ys + sum(lambda_i * w_i^2)``.

    Attributes:
        names: the factors.
        stationary: the point where the surface is flat, in coded units.
        response: the surface's height there.
        eigenvalues: the lambdas, the greatest first.
        eigenvectors: the axes of the ``w``, a column each, of length 1, in the same order; the
            largest component of each is above 0.
        nature: ``minimum``, ``maximum``, ``saddle``, or ``ridge`` where an eigenvalue was left out.
        kept: how many eigenvalues were kept.
    """

    names: tuple[str, ...]
    stationary: FloatArray
    response: float
    eigenvalues: FloatArray
    eigenvectors: FloatArray
    nature: Nature
    kept: int

    @property
    def distance(self) -> float:
        """How far the stationary point lies from the centre; beyond about 1 it is a guess."""
        return float(np.linalg.norm(self.stationary))

    def path(self, distances: Sequence[float], *, axis: int = 0) -> FloatArray:
        """Return points along an axis through the stationary point, a row a distance.

        Args:
            distances: signed, in coded units.
            axis: 0 is the axis of the greatest eigenvalue (steepest ascent, or slowest descent),
                -1 that of the least.
        """
        steps = np.asarray(distances, dtype=np.float64)
        return np.asarray(self.stationary + steps[:, None] * self.eigenvectors[:, axis])


def canonical(surface: Surface, *, threshold: float = 0.0) -> Canonical:
    """Find the stationary point and the axes of a surface.

    Args:
        surface: of second order, or with interactions.
        threshold: eigenvalues of a smaller absolute value count as zero: the surface is a ridge
            along their axes, and the point on it nearest the centre is returned (R's ``rsm`` takes
            a tenth of the greatest absolute eigenvalue).

    Raises:
        ValueError: a first-order surface, or no single stationary point.

    >>> from schedlab.design import central_composite, fit
    >>> design = central_composite(2)
    >>> found = canonical(fit(design, 3 + design[:, 0] ** 2 - 2 * design[:, 1] ** 2))
    >>> found.nature, found.eigenvalues.round(6).tolist()
    ('saddle', [1.0, -2.0])
    """
    linear, quadratic = surface.linear, surface.quadratic
    rising, vectors = np.linalg.eigh(quadratic)
    eigenvalues, eigenvectors = rising[::-1].copy(), _directed(vectors[:, ::-1])
    scale = float(np.abs(eigenvalues).max())
    kept = np.abs(eigenvalues) >= max(threshold, 1e-12 * scale)
    if not kept.any() or scale == 0:
        raise ValueError("the surface has no curvature, so no stationary point")
    if threshold == 0 and not kept.all():
        raise ValueError("the surface is level along an axis: it has no single stationary point")
    axes = eigenvectors[:, kept]
    point = -0.5 * axes @ ((axes.T @ linear) / eigenvalues[kept])
    return Canonical(
        names=surface.names,
        stationary=point,
        response=float(surface.predict(point)[0]),
        eigenvalues=eigenvalues,
        eigenvectors=eigenvectors,
        nature="ridge" if not kept.all() else nature_of(eigenvalues),
        kept=int(kept.sum()),
    )


def nature_of(eigenvalues: FloatArray) -> Nature:
    """Return what kind of point eigenvalues make.

    >>> nature_of(np.array([700.8, -74.4]))
    'saddle'
    """
    if (eigenvalues > 0).all():
        return "minimum"
    return "maximum" if (eigenvalues < 0).all() else "saddle"


def _directed(vectors: FloatArray) -> FloatArray:
    """Return the vectors with signs that do not depend on the library that found them."""
    places = np.abs(vectors).argmax(axis=0)
    signs = np.sign(vectors[places, np.arange(vectors.shape[1])])
    return np.asarray(vectors * signs)
