"""How well a stationary point and its eigenvalues are known.

The delta method takes the fitted coefficients' covariance through the derivatives of what is
computed from them: of the stationary point dx = -inv(B) (dB x + db / 2), of an eigenvalue
m' dB m with its eigenvector m (the standard error that S. Bisgaard and B. Ankenman, "Standard
Errors for the Eigenvalues in Second-Order Response Surface Models", Technometrics 38:3, 1996, find
by a second regression). It is good while an eigenvalue is clear of zero. The bootstrap, which draws
residuals again for the same design, shows also what kind of point the resamples have; and Box and
Hunter's region (G. E. P. Box and J. S. Hunter, "A Confidence Region for the Solution of a Set of
Simultaneous Equations with an Application to Experimental Design", Biometrika 41, 1954) is exact,
whatever shape it has.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import fdtri, stdtrit

from schedlab.design.canonical import canonical, nature_of
from schedlab.design.surface import Surface, model_matrix, quadratic_of
from schedlab.experiment.stats import FloatArray, Interval


@dataclass(frozen=True, slots=True)
class StationaryIntervals:
    """Intervals by the delta method, with Student's t.

    Attributes:
        stationary: of each coordinate of the stationary point, in coded units.
        eigenvalues: of each eigenvalue, the greatest first.
        stationary_errors: standard errors of the coordinates.
        eigenvalue_errors: of the eigenvalues.
    """

    stationary: tuple[Interval, ...]
    eigenvalues: tuple[Interval, ...]
    stationary_errors: tuple[float, ...]
    eigenvalue_errors: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Resampled:
    """Percentile intervals of resampled residuals.

    Attributes:
        stationary: of each coordinate of the stationary point, in coded units.
        eigenvalues: of each eigenvalue, the greatest first.
        natures: the share of resamples in which the point is of each kind.
        resamples: how many.
    """

    stationary: tuple[Interval, ...]
    eigenvalues: tuple[Interval, ...]
    natures: Mapping[str, float]
    resamples: int


def stationary_intervals(surface: Surface, confidence: float = 0.95) -> StationaryIntervals:
    """Return intervals of stationary point and eigenvalues by the delta method.

    Raises:
        ValueError: no degree of freedom is left, or there is no stationary point.

    >>> from schedlab.design import central_composite, fit
    >>> design = central_composite(2)
    >>> noise = np.resize([0.1, -0.1, 0.05], len(design))
    >>> surface = fit(design, ((design - 0.5) ** 2).sum(axis=1) + noise)
    >>> [0.5 in interval for interval in stationary_intervals(surface).stationary]
    [True, True]
    """
    _check(surface, confidence)
    found = canonical(surface)
    factors = len(surface.names)
    inverse = np.linalg.inv(surface.quadratic)
    extra = surface.extra_blocks
    point_slopes, value_slopes = [], []
    for place in range(len(surface.terms)):
        change = np.zeros(len(surface.terms))
        change[place] = 1.0
        linear = change[1 + extra : 1 + extra + factors]
        quadratic = quadratic_of(change, factors, extra, surface.order)
        point_slopes.append(-inverse @ (quadratic @ found.stationary + linear / 2))
        axes = found.eigenvectors
        value_slopes.append(np.einsum("ji,jk,ki->i", axes, quadratic, axes))
    points, values = np.array(point_slopes), np.array(value_slopes)
    point_errors = np.sqrt(np.einsum("ij,ik,kj->j", points, surface.covariance, points))
    value_errors = np.sqrt(np.einsum("ij,ik,kj->j", values, surface.covariance, values))
    reach = float(stdtrit(surface.degrees, (1 + confidence) / 2))
    return StationaryIntervals(
        stationary=_about(found.stationary, reach * point_errors, confidence),
        eigenvalues=_about(found.eigenvalues, reach * value_errors, confidence),
        stationary_errors=tuple(float(one) for one in point_errors),
        eigenvalue_errors=tuple(float(one) for one in value_errors),
    )


def resampled(
    surface: Surface,
    confidence: float = 0.95,
    *,
    resamples: int = 4000,
    rng: np.random.Generator | int = 0,
) -> Resampled:
    """Return intervals by resampling residuals for the same design.

    Residuals are divided by the square root of one less their leverage and centred, so that they
    scatter as the errors do (A. C. Davison and D. V. Hinkley, "Bootstrap Methods and their
    Application", 1997, section 6.2).

    Raises:
        ValueError: no degree of freedom is left, there is no stationary point, or a number out of
            range.
    """
    _check(surface, confidence)
    canonical(surface)
    if resamples < 1:
        raise ValueError(f"resamples is {resamples}: at least 1 is needed")
    generator = np.random.default_rng(rng)
    factors, extra = len(surface.names), surface.extra_blocks
    matrix = model_matrix(surface.design, surface.blocks, extra, surface.order)
    hat = matrix @ np.linalg.pinv(matrix)
    free = np.sqrt(np.clip(1 - np.diag(hat), 1e-12, None))
    errors = (surface.response - surface.fitted) / free
    errors[np.diag(hat) > 1 - 1e-9] = 0.0  # a run that fits itself says nothing of the scatter
    errors -= errors.mean()
    drawn = generator.integers(len(errors), size=(resamples, len(errors)))
    coefficients = (surface.fitted + errors[drawn]) @ np.linalg.pinv(matrix).T
    points, values = np.empty((resamples, factors)), np.empty((resamples, factors))
    kinds: Counter[str] = Counter()
    for place, one in enumerate(coefficients):
        quadratic = quadratic_of(one, factors, extra, surface.order)
        linear = one[1 + extra : 1 + extra + factors]
        points[place] = np.linalg.lstsq(-2 * quadratic, linear, rcond=None)[0]
        values[place] = np.linalg.eigvalsh(quadratic)[::-1]
        kinds[nature_of(values[place])] += 1
    tails = [(1 - confidence) / 2, (1 + confidence) / 2]
    return Resampled(
        stationary=_between(np.quantile(points, tails, axis=0), confidence),
        eigenvalues=_between(np.quantile(values, tails, axis=0), confidence),
        natures={kind: count / resamples for kind, count in sorted(kinds.items())},
        resamples=resamples,
    )


def stationary_region_holds(surface: Surface, coded: ArrayLike, confidence: float = 0.95) -> bool:
    """Say whether a point belongs to Box and Hunter's confidence region of the stationary point.

    The gradient ``g = b + 2 B x`` at the true stationary point is zero, so the region is where
    ``g' inv(Var g) g <= k F(confidence; k, degrees)``. Unlike the intervals of the delta method it
    is right where an eigenvalue may be zero; it can be unbounded then.

    Raises:
        ValueError: no degree of freedom is left.
    """
    _check(surface, confidence)
    factors, extra = len(surface.names), surface.extra_blocks
    point = np.asarray(coded, dtype=np.float64)
    slopes = np.zeros((factors, len(surface.terms)))
    for place in range(len(surface.terms)):
        change = np.zeros(len(surface.terms))
        change[place] = 1.0
        quadratic = quadratic_of(change, factors, extra, surface.order)
        slopes[:, place] = change[1 + extra : 1 + extra + factors] + 2 * quadratic @ point
    gradient = slopes @ surface.coefficients
    variance = slopes @ surface.covariance @ slopes.T
    statistic = float(gradient @ np.linalg.solve(variance, gradient)) / factors
    return statistic <= float(fdtri(factors, surface.degrees, confidence))


def _check(surface: Surface, confidence: float) -> None:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is {confidence}: a number between 0 and 1 is needed")
    if not surface.degrees:
        raise ValueError("as many coefficients as runs: nothing is left to tell their scatter by")


def _about(middle: FloatArray, reach: FloatArray, confidence: float) -> tuple[Interval, ...]:
    return tuple(
        Interval(float(one - half), float(one + half), confidence)
        for one, half in zip(middle, reach, strict=True)
    )


def _between(ends: FloatArray, confidence: float) -> tuple[Interval, ...]:
    return tuple(Interval(float(low), float(high), confidence) for low, high in ends.T)
