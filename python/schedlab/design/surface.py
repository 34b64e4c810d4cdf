"""A polynomial model of a response, fitted by least squares, and its reliability."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import fdtrc, stdtr, stdtrit

from schedlab.experiment.stats import FloatArray, Interval

Order = Literal["first", "interactions", "second"]

_SAME = 9
"""Decimals to which two coded settings have to agree to count as one, replicated."""


@dataclass(frozen=True, slots=True)
class Term:
    """A coefficient and its test against zero.

    Attributes:
        name: ``(Intercept)``, ``block2``, ``x1``, ``x1:x2``, ``x1^2``.
        estimate: the coefficient, in coded units.
        standard_error: of it; not a number where no degree of freedom is left.
        t: estimate / standard error.
        p: the probability of so large a ``t``, either way, where the coefficient is zero.
    """

    name: str
    estimate: float
    standard_error: float
    t: float
    p: float


@dataclass(frozen=True, slots=True)
class Part:
    """A row of the analysis of variance.

    Attributes:
        name: ``blocks``, ``first order``, ``interactions``, ``squares``, ``residuals``,
            ``lack of fit`` or ``pure error``.
        degrees: of freedom.
        sum_of_squares: what it explains beyond the rows before it.
        mean_square: the same a degree of freedom.
        f: over the residuals' mean square, of the lack of fit over the pure error's.
        p: the probability of so large an ``f`` by chance.
    """

    name: str
    degrees: int
    sum_of_squares: float
    mean_square: float
    f: float | None = None
    p: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Surface:
    """A fitted response surface ``y = b0 + x'b + x'Bx`` in coded units.

    Attributes:
        names: the factors.
        order: ``first``, ``interactions`` or ``second``.
        terms: the coefficients with their tests.
        parts: the analysis of variance, sequential: blocks, first order, interactions, squares.
        covariance: of the coefficients, in their order.
        degrees: of freedom of the residuals.
        sigma: the residuals' standard error.
        r_squared: the share of the variance that is explained.
        adjusted_r_squared: the same for the number of coefficients.
        f: of the whole model.
        p: of the whole model.
        design: the settings it was fitted to, coded.
        blocks: the number of each run's block, from 0.
        response: what was observed.
        fitted: what the model says.
    """

    names: tuple[str, ...]
    order: Order
    terms: tuple[Term, ...]
    parts: tuple[Part, ...]
    covariance: FloatArray
    degrees: int
    sigma: float
    r_squared: float
    adjusted_r_squared: float
    f: float
    p: float
    design: FloatArray
    blocks: tuple[int, ...]
    response: FloatArray
    fitted: FloatArray

    @property
    def coefficients(self) -> FloatArray:
        """All coefficients, in the order of the terms."""
        return np.array([term.estimate for term in self.terms])

    @property
    def linear(self) -> FloatArray:
        """The vector b."""
        first = 1 + self.extra_blocks
        return self.coefficients[first : first + len(self.names)]

    @property
    def quadratic(self) -> FloatArray:
        """The symmetric matrix B; half of an interaction's coefficient is on either side.

        Raises:
            ValueError: the model is of first order.
        """
        if self.order == "first":
            raise ValueError("a first-order model has no quadratic part")
        return quadratic_of(self.coefficients, len(self.names), self.extra_blocks, self.order)

    @property
    def lack_of_fit(self) -> Part | None:
        """The test of the model against the scatter of repeated runs; None without repeats."""
        return next((part for part in self.parts if part.name == "lack of fit"), None)

    def term(self, name: str) -> Term:
        """Return a coefficient by its name.

        Raises:
            KeyError: no such term.
        """
        for term in self.terms:
            if term.name == name:
                return term
        raise KeyError(name)

    def predict(self, coded: ArrayLike) -> FloatArray:
        """Return the model's response at coded settings, in the first block."""
        return np.asarray(self._rows(coded) @ self.coefficients)

    def prediction_interval(self, coded: ArrayLike, confidence: float = 0.95) -> list[Interval]:
        """Return the confidence interval of the mean response at each of some settings."""
        rows = self._rows(coded)
        middle = rows @ self.coefficients
        deviation = np.sqrt(np.einsum("ij,jk,ik->i", rows, self.covariance, rows))
        reach = float(stdtrit(self.degrees, (1 + confidence) / 2)) * deviation
        return [
            Interval(float(one - half), float(one + half), confidence)
            for one, half in zip(middle, reach, strict=True)
        ]

    @property
    def extra_blocks(self) -> int:
        """Blocks beyond the first, each with its own coefficient."""
        return max(self.blocks) if self.blocks else 0

    def _rows(self, coded: ArrayLike) -> FloatArray:
        points = np.atleast_2d(np.asarray(coded, dtype=np.float64))
        return model_matrix(points, (0,) * len(points), self.extra_blocks, self.order)


def fit(
    design: ArrayLike,
    response: ArrayLike,
    *,
    names: Sequence[str] | None = None,
    order: Order = "second",
    blocks: Sequence[Hashable] | None = None,
) -> Surface:
    """Fit a response surface by least squares.

    Args:
        design: settings in coded units, a row a run.
        response: a number a run.
        names: of the factors; ``x1``, ``x2``, … otherwise.
        order: ``first``, ``interactions`` (first order and products of two factors), or ``second``.
        blocks: each run's block; blocks differ by a constant, and the first is the reference.

    Raises:
        ValueError: not one finite number a run, or a design that does not support the model.

    >>> surface = fit([[-1.0], [0.0], [1.0], [0.0]], [3.0, 1.0, 1.0, 1.2], names=["x"])
    >>> [(term.name, round(term.estimate, 2)) for term in surface.terms]
    [('(Intercept)', 1.1), ('x', -1.0), ('x^2', 0.9)]
    """
    points = np.asarray(design, dtype=np.float64)
    values = np.asarray(response, dtype=np.float64)
    if points.ndim != 2 or values.shape != (len(points),):
        raise ValueError(
            f"a design of shape {points.shape} and responses of shape {values.shape}: a row and "
            "a number a run are needed"
        )
    if not (np.isfinite(points).all() and np.isfinite(values).all()):
        raise ValueError("a setting or a response is not a finite number")
    factors = points.shape[1]
    labels = tuple(names) if names is not None else tuple(f"x{i + 1}" for i in range(factors))
    if len(labels) != factors:
        raise ValueError(f"{len(labels)} names were given for {factors} factors")
    numbers, block_names = _numbered(blocks, len(points))
    matrix = model_matrix(points, numbers, len(block_names) - 1, order)
    titles = _titles(labels, block_names, order)
    if len(points) < matrix.shape[1] or np.linalg.matrix_rank(matrix) < matrix.shape[1]:
        raise ValueError(
            f"these {len(points)} runs cannot tell the {matrix.shape[1]} coefficients of the model "
            f"apart ({', '.join(titles)})"
        )
    inverse = np.linalg.inv(matrix.T @ matrix)
    estimates = np.linalg.lstsq(matrix, values, rcond=None)[0]
    fitted = matrix @ estimates
    degrees = len(points) - len(estimates)
    residual = float(((values - fitted) ** 2).sum())
    variance = residual / degrees if degrees else np.nan
    covariance: FloatArray = np.asarray(inverse * variance, dtype=np.float64)
    total = float(((values - values.mean()) ** 2).sum())
    explained, model_degrees = total - residual, len(estimates) - 1
    share = 1 - residual / total if total else np.nan
    f = _ratio(explained / model_degrees, variance)
    return Surface(
        names=labels,
        order=order,
        terms=tuple(
            _term(title, float(one), float(np.sqrt(covariance[place, place])), degrees)
            for place, (title, one) in enumerate(zip(titles, estimates, strict=True))
        ),
        parts=_parts(points, numbers, values, len(block_names) - 1, order),
        covariance=covariance,
        degrees=degrees,
        sigma=float(np.sqrt(variance)),
        r_squared=share,
        adjusted_r_squared=1 - (1 - share) * (len(points) - 1) / degrees if degrees else np.nan,
        f=f,
        p=_tail(f, model_degrees, degrees),
        design=points,
        blocks=numbers,
        response=values,
        fitted=fitted,
    )


def model_matrix(
    points: FloatArray, numbers: Sequence[int], extra_blocks: int, order: Order
) -> FloatArray:
    """Return the columns of the model: constant, blocks, first order, products, squares."""
    columns = [np.ones(len(points))]
    chosen = np.asarray(numbers)
    columns += [(chosen == block + 1).astype(np.float64) for block in range(extra_blocks)]
    columns += list(points.T)
    if order != "first":
        columns += [
            points[:, one] * points[:, other]
            for one, other in combinations(range(points.shape[1]), 2)
        ]
    if order == "second":
        columns += list(points.T**2)
    return np.stack(columns, axis=1)


def quadratic_of(
    coefficients: FloatArray, factors: int, extra_blocks: int, order: Order
) -> FloatArray:
    """Return the matrix B of a model's coefficients."""
    rest = coefficients[1 + extra_blocks + factors :]
    matrix = np.zeros((factors, factors))
    pairs = list(combinations(range(factors), 2))
    for (one, other), value in zip(pairs, rest, strict=False):
        matrix[one, other] = matrix[other, one] = value / 2
    if order == "second":
        matrix[np.diag_indices(factors)] = rest[len(pairs) :]
    return matrix


def _numbered(
    blocks: Sequence[Hashable] | None, runs: int
) -> tuple[tuple[int, ...], list[Hashable]]:
    if blocks is None:
        return (0,) * runs, [0]
    if len(blocks) != runs:
        raise ValueError(f"{len(blocks)} blocks were given for {runs} runs: one a run is needed")
    known = list(dict.fromkeys(blocks))
    return tuple(known.index(block) for block in blocks), known


def _titles(labels: Sequence[str], blocks: Sequence[Hashable], order: Order) -> list[str]:
    titles = ["(Intercept)", *(f"block{block}" for block in blocks[1:]), *labels]
    if order != "first":
        titles += [f"{one}:{other}" for one, other in combinations(labels, 2)]
    if order == "second":
        titles += [f"{one}^2" for one in labels]
    return titles


def _term(name: str, estimate: float, error: float, degrees: int) -> Term:
    t = _ratio(estimate, error)
    p = float(2 * stdtr(degrees, -abs(t))) if degrees and not np.isnan(t) else np.nan
    return Term(name, estimate, error, t, p)


def _parts(
    points: FloatArray,
    numbers: tuple[int, ...],
    values: FloatArray,
    extra_blocks: int,
    order: Order,
) -> tuple[Part, ...]:
    """Return the sequential analysis of variance, and the residuals' split where runs repeat."""
    factors = points.shape[1]
    matrix = model_matrix(points, numbers, extra_blocks, order)
    pairs = factors * (factors - 1) // 2
    sizes = [
        ("blocks", extra_blocks),
        ("first order", factors),
        ("interactions", pairs if order != "first" else 0),
        ("squares", factors if order == "second" else 0),
    ]
    before, columns = _left_over(matrix[:, :1], values), 1
    rows: list[tuple[str, int, float]] = []
    for name, size in sizes:
        if size:
            columns += size
            after = _left_over(matrix[:, :columns], values)
            rows.append((name, size, before - after))
            before = after
    degrees = len(values) - columns
    unit = before / degrees if degrees else np.nan
    found = []
    for name, size, squares in rows:
        f = _ratio(squares / size, unit)
        found.append(Part(name, size, squares, squares / size, f, _tail(f, size, degrees)))
    found.append(Part("residuals", degrees, before, unit))
    pure, pure_degrees = _pure_error(points, numbers, values)
    lack_degrees = degrees - pure_degrees
    if pure_degrees and lack_degrees > 0:
        lack = (before - pure) / lack_degrees
        f = _ratio(lack, pure / pure_degrees)
        p = _tail(f, lack_degrees, pure_degrees)
        found.append(Part("lack of fit", lack_degrees, before - pure, lack, f, p))
        found.append(Part("pure error", pure_degrees, pure, pure / pure_degrees))
    return tuple(found)


def _pure_error(
    points: FloatArray, numbers: tuple[int, ...], values: FloatArray
) -> tuple[float, int]:
    """Return the squares of repeated runs about their means, and their degrees of freedom."""
    groups: dict[tuple[float, ...], list[float]] = {}
    for point, number, value in zip(points, numbers, values, strict=True):
        key = (float(number), *(round(float(one), _SAME) + 0.0 for one in point))
        groups.setdefault(key, []).append(float(value))
    squares = sum(float(((np.array(one) - np.mean(one)) ** 2).sum()) for one in groups.values())
    return squares, len(values) - len(groups)


def _left_over(matrix: FloatArray, values: FloatArray) -> float:
    fitted = matrix @ np.linalg.lstsq(matrix, values, rcond=None)[0]
    return float(((values - fitted) ** 2).sum())


def _ratio(value: float, unit: float) -> float:
    if unit == 0:
        return np.inf if value > 0 else -np.inf if value < 0 else np.nan
    return value / unit


def _tail(f: float, degrees: int, rest: int) -> float:
    return float(fdtrc(degrees, rest, f)) if rest and not np.isnan(f) else np.nan
