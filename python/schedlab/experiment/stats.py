"""Statistics of measurements: effects with intervals, verdicts, fits and errors.

Every interval by resampling is an *expanded percentile* bootstrap interval: the percentile interval
at a level widened for small samples, Phi(sqrt(n / (n - 1)) * t), because the plain percentile
interval is too narrow by a factor of sqrt((n - 1) / n) and uses the normal where Student's t
belongs (T. Hesterberg, "What Teachers Should Know About the Bootstrap", The American Statistician
69:4, 2015, section "Expanded percentile intervals"). Nothing here reads a clock or draws randomness
of its own: a generator or its seed is an argument, so the same data give the same interval.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri, stdtrit

from schedlab.model.direction import Better

FloatArray = NDArray[np.float64]

# Resampled values held in memory at a time.
_CHUNK = 2_000_000

RESOLVED = 20
"""Resamples that must lie beyond a quantile for it to count as resolved."""

# How far an end moves out whose tail is smaller than a double can hold.
_OUTERMOST = 12.0


class Verdict(StrEnum):
    """What a comparison of a treatment with a baseline came to."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "same"
    KEPT = "kept"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval, both ends belonging to it."""

    low: float
    high: float
    confidence: float

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimated quantity, its interval and the number of observations it rests on."""

    value: float
    interval: Interval
    size: int


@dataclass(frozen=True, slots=True)
class LinearFit:
    """The least-squares line ``y = intercept + slope * x``."""

    intercept: float
    slope: float
    r_squared: float
    size: int

    def predict(self, x: ArrayLike) -> FloatArray:
        """Return the line's values at ``x``."""
        return self.intercept + self.slope * np.asarray(x, dtype=np.float64)


def bootstrap(
    values: ArrayLike,
    statistic: Callable[[FloatArray], FloatArray],
    *,
    confidence: float = 0.95,
    resamples: int = 10_000,
    rng: np.random.Generator | int = 0,
) -> Estimate:
    """Estimate a statistic of a sample, with its expanded percentile bootstrap interval.

    Args:
        values: at least two observations.
        statistic: reduces the last axis, e.g. ``lambda x: np.median(x, axis=-1)``.
        confidence: of the interval, between 0 and 1.
        resamples: samples drawn with replacement.
        rng: a generator, or the seed of one.

    Raises:
        ValueError: fewer than two observations, one that is not finite, or a confidence or number
            of resamples out of range.

    >>> bootstrap([1.0, 2.0, 3.0, 4.0], lambda x: x.mean(axis=-1)).value
    2.5
    """
    sample = _vector("values", values, at_least=2)
    _check_confidence(confidence)
    if resamples < 1:
        raise ValueError(f"resamples is {resamples}: at least 1 is needed")
    generator = np.random.default_rng(rng)
    rows = max(1, _CHUNK // sample.size)
    parts = [
        statistic(sample[generator.integers(sample.size, size=(count, sample.size))])
        for count in _chunks(resamples, rows)
    ]
    tail = _expanded_tail(confidence, sample.size)
    low, high = np.quantile(np.concatenate(parts), [tail, 1 - tail])
    interval = Interval(float(low), float(high), confidence)
    return Estimate(float(statistic(sample)), interval, sample.size)


def mean_intervals(
    samples: ArrayLike,
    *,
    confidence: float = 0.95,
    resamples: int = 10_000,
    rng: np.random.Generator | int = 0,
) -> FloatArray:
    """Return the bootstrap intervals of the means of many samples of one size.

    The intervals are those of `bootstrap` with the mean, each sample resampled by the same draws.
    They stay right at confidences so high that few resamples lie outside: an end that fewer than
    `RESOLVED` resamples reach is continued from the last quantile that they do resolve, in
    proportion to the normal quantiles of the two tails (a mean's bootstrap distribution is close
    to a normal one). Of a few observations that reaches beyond the data, as it must.

    Args:
        samples: a row a sample, at least two observations each.
        confidence: of each interval.
        resamples: drawn with replacement.
        rng: a generator, or the seed of one.

    Returns:
        A row a sample: the lower and the upper end.

    Raises:
        ValueError: as `bootstrap`.

    >>> mean_intervals([[1.0, 2.0, 3.0] * 20, [5.0] * 60]).round(2).tolist()
    [[1.78, 2.22], [5.0, 5.0]]
    """
    matrix = np.atleast_2d(np.asarray(samples, dtype=np.float64))
    _vector("samples", matrix.ravel(), at_least=2)
    if matrix.ndim != 2 or matrix.shape[1] < 2:
        raise ValueError("samples have fewer than two observations each")
    _check_confidence(confidence)
    if resamples < 2 * RESOLVED:
        raise ValueError(f"resamples is {resamples}: at least {2 * RESOLVED} are needed")
    weights = _resample_weights(matrix.shape[1], resamples, rng)
    centre = matrix.mean(axis=1)
    # Deviations, so that samples without any scatter have none in their resamples either.
    means = weights @ (matrix - centre[:, None]).T
    tail = _expanded_tail(confidence, matrix.shape[1])
    resolved = max(tail, RESOLVED / resamples)
    ends = np.quantile(means, [resolved, 1 - resolved], axis=0)
    reach = float(ndtri(tail) / ndtri(resolved)) if tail > 0 else _OUTERMOST
    return np.asarray(centre[:, None] + ends.T * reach)


def _resample_weights(size: int, resamples: int, rng: np.random.Generator | int) -> FloatArray:
    """Return each observation's share in each resample, drawn as `bootstrap` draws."""
    generator = np.random.default_rng(rng)
    weights = np.zeros((resamples, size))
    rows = max(1, _CHUNK // size)
    done = 0
    for count in _chunks(resamples, rows):
        drawn = generator.integers(size, size=(count, size))
        flat = (drawn + size * np.arange(count)[:, None]).ravel()
        weights[done : done + count] = np.bincount(flat, minlength=count * size).reshape(
            count, size
        )
        done += count
    return weights / size


def median(
    values: ArrayLike,
    *,
    confidence: float = 0.95,
    resamples: int = 10_000,
    rng: np.random.Generator | int = 0,
) -> Estimate:
    """Estimate a median, e.g. of a search's result over its seeds. See `bootstrap`.

    >>> median([3.0, 1.0, 2.0]).value
    2.0
    """
    return bootstrap(
        values,
        lambda sample: np.asarray(np.median(sample, axis=-1)),
        confidence=confidence,
        resamples=resamples,
        rng=rng,
    )


def paired_ratio(
    baseline: ArrayLike,
    treatment: ArrayLike,
    *,
    confidence: float = 0.95,
    resamples: int = 10_000,
    rng: np.random.Generator | int = 0,
) -> Estimate:
    """Estimate by what factor a treatment changes a positive quantity.

    The estimate is the geometric mean of the paired ratios treatment / baseline, i.e. the
    exponential of the mean log-ratio, and its interval that of the mean log-ratio, resampled by
    pairs. A disturbance that hits both members of a pair cancels.

    Args:
        baseline: positive measurements, one a block.
        treatment: the measurements of the same blocks.
        confidence: of the interval, between 0 and 1.
        resamples: samples of pairs drawn with replacement.
        rng: a generator, or the seed of one.

    Raises:
        ValueError: as `bootstrap`; also for unequal lengths and for measurements not above zero.

    >>> round(paired_ratio([10.0, 20.0, 40.0], [5.0, 10.0, 20.0]).value, 12)
    0.5
    """
    log_mean = bootstrap(
        log_ratio(treatment, baseline),
        lambda sample: np.asarray(sample.mean(axis=-1)),
        confidence=confidence,
        resamples=resamples,
        rng=rng,
    )
    interval = Interval(
        math.exp(log_mean.interval.low), math.exp(log_mean.interval.high), confidence
    )
    return Estimate(math.exp(log_mean.value), interval, log_mean.size)


def centre(values: ArrayLike) -> float:
    """Return the geometric mean; the arithmetic one where a value is 0 or less.

    The ratio of two geometric means over the same pairs is what `paired_ratio` estimates.

    Raises:
        ValueError: no value, or one that is not finite.

    >>> round(centre([1.0, 4.0]), 12), centre([0.0, 4.0])
    (2.0, 2.0)
    """
    sample = _vector("values", values, at_least=1)
    if (sample == sample[0]).all():
        return float(sample[0])
    return float(np.exp(np.log(sample).mean()) if (sample > 0).all() else sample.mean())


def minimum_pairs(confidence: float = 0.95) -> int:
    """Return how many pairs a verdict at this confidence needs at the least.

    Even if every one of n pairs points the same way, chance alone does that with probability
    2^(1 - n) (the two-sided sign test), so n pairs settle nothing while that is above
    ``1 - confidence``.

    >>> minimum_pairs(0.95)
    6
    """
    _check_confidence(confidence)
    pairs = 2
    while 2.0 ** (1 - pairs) > 1 - confidence:
        pairs += 1
    return pairs


def judge(
    ratio: Estimate, *, band: float = 0.01, better: Better = "lower", limit: float | None = None
) -> Verdict:
    """Say what a ratio of treatment to baseline amounts to.

    ``same``: the whole interval lies in the equivalence band from 1 / (1 + band) to 1 + band, so a
    difference, if any, is too small to matter. ``better`` or ``worse``: the interval excludes 1
    on that side, and reaches out of the band. ``inconclusive``: neither, or fewer pairs than
    `minimum_pairs`.

    With a limit the question is whether the treatment is no worse than that (non-inferiority):
    ``better`` as before; ``kept``: the whole interval is on the better side of the limit, the limit
    included; ``worse``: the whole interval is beyond it.

    Args:
        ratio: from `paired_ratio`.
        band: half-width of the equivalence band, 0.01 for one per cent.
        better: whether a lower or a higher quantity is better.
        limit: the worst ratio that is allowed; None where none is set.

    >>> judge(Estimate(0.9, Interval(0.88, 0.92, 0.95), 10))
    <Verdict.BETTER: 'better'>
    >>> judge(Estimate(1.001, Interval(0.995, 1.006, 0.95), 10))
    <Verdict.SAME: 'same'>
    >>> judge(Estimate(0.99, Interval(0.985, 0.995, 0.95), 10), better="higher", limit=0.98)
    <Verdict.KEPT: 'kept'>
    """
    if not (math.isfinite(band) and band >= 0):
        raise ValueError(f"band is {band}: a number of at least 0 is needed")
    if better not in ("lower", "higher"):
        raise ValueError(f"better is {better!r}: 'lower' or 'higher' is needed")
    low, high = ratio.interval.low, ratio.interval.high
    if ratio.size < minimum_pairs(ratio.interval.confidence):
        return Verdict.INCONCLUSIVE
    if limit is not None:
        return _judge_limit(ratio.interval, band, better, limit)
    if 1 / (1 + band) <= low and high <= 1 + band:
        return Verdict.SAME
    if high < 1:
        return Verdict.BETTER if better == "lower" else Verdict.WORSE
    if low > 1:
        return Verdict.WORSE if better == "lower" else Verdict.BETTER
    return Verdict.INCONCLUSIVE


def _judge_limit(interval: Interval, band: float, better: Better, limit: float) -> Verdict:
    low, high = interval.low, interval.high
    if better == "higher":
        low, high, limit = 1 / high, 1 / low, 1 / limit
    if high < 1 and low < 1 / (1 + band):
        return Verdict.BETTER
    if high <= limit:
        return Verdict.KEPT
    return Verdict.WORSE if low > limit else Verdict.INCONCLUSIVE


def linear_fit(x: ArrayLike, y: ArrayLike) -> LinearFit:
    """Fit a straight line by least squares; R² is 1 - residual / total sum of squares.

    Raises:
        ValueError: fewer than two points, unequal lengths, values that are not finite, or an ``x``
            or ``y`` that does not vary (no line, or no R², exists).

    >>> linear_fit([0, 1, 2], [1, 3, 5])
    LinearFit(intercept=1.0, slope=2.0, r_squared=1.0, size=3)
    """
    abscissa, ordinate = _pair("x", x, "y", y, at_least=2)
    dx, dy = abscissa - abscissa.mean(), ordinate - ordinate.mean()
    sum_xx, sum_yy = float(dx @ dx), float(dy @ dy)
    for name, total in (("x", sum_xx), ("y", sum_yy)):
        if total == 0:
            raise ValueError(f"{name} does not vary: a line and its R² need values that do")
    slope = float(dx @ dy) / sum_xx
    residual = dy - slope * dx
    return LinearFit(
        intercept=float(ordinate.mean() - slope * abscissa.mean()),
        slope=slope,
        r_squared=1 - float(residual @ residual) / sum_yy,
        size=abscissa.size,
    )


def log_ratio(value: ArrayLike, reference: ArrayLike) -> FloatArray:
    """Return ln(value / reference) of each pair: the error of a prediction on a log scale.

    Twice too much and half as much are equally wrong: +0.693 and -0.693.

    Raises:
        ValueError: unequal lengths, no pair, or a number that is not finite and above zero.

    >>> log_ratio([20.0, 5.0], [10.0, 10.0]).round(3).tolist()
    [0.693, -0.693]
    """
    numerator, denominator = _pair("value", value, "reference", reference, at_least=1)
    for name, array in (("value", numerator), ("reference", denominator)):
        if (array <= 0).any():
            first = int(np.argmax(array <= 0))
            raise ValueError(f"{name}[{first}] is {array[first]}: numbers above 0 are needed")
    return np.log(numerator) - np.log(denominator)


def median_absolute_relative_error(predicted: ArrayLike, observed: ArrayLike) -> float:
    """Return the median of ``|predicted - observed| / |observed|``.

    Raises:
        ValueError: unequal lengths, no pair, a number that is not finite, or an observed zero.

    >>> median_absolute_relative_error([11.0, 19.0, 60.0], [10.0, 20.0, 40.0])
    0.1
    """
    estimate, truth = _pair("predicted", predicted, "observed", observed, at_least=1)
    if (truth == 0).any():
        raise ValueError(f"observed[{int(np.argmax(truth == 0))}] is 0: no relative error exists")
    return float(np.median(np.abs(estimate - truth) / np.abs(truth)))


def proportion(successes: int, trials: int, *, confidence: float = 0.95) -> Estimate:
    """Estimate a proportion, with Wilson's score interval (Wilson, JASA 22:158, 1927).

    Raises:
        ValueError: no trials, or successes outside 0 … trials.

    >>> proportion(0, 10).value
    0.0
    """
    _check_confidence(confidence)
    if trials < 1:
        raise ValueError(f"trials is {trials}: at least 1 is needed")
    if not 0 <= successes <= trials:
        raise ValueError(f"successes is {successes}: 0 to {trials} (the trials) is allowed")
    z = float(ndtri((1 + confidence) / 2))
    share = successes / trials
    shrink = 1 + z * z / trials
    centre = (share + z * z / (2 * trials)) / shrink
    half = z / shrink * math.sqrt(share * (1 - share) / trials + (z / (2 * trials)) ** 2)
    # At no or only successes an end is 0 or 1 exactly; rounding must not leave it beside that.
    low = 0.0 if successes == 0 else centre - half
    high = 1.0 if successes == trials else centre + half
    return Estimate(share, Interval(low, high, confidence), trials)


def _expanded_tail(confidence: float, size: int) -> float:
    """Return the share of resamples to leave out at each end."""
    quantile = float(stdtrit(size - 1, (1 + confidence) / 2))
    return float(ndtr(-math.sqrt(size / (size - 1)) * quantile))


def _chunks(total: int, size: int) -> list[int]:
    whole, rest = divmod(total, size)
    return [size] * whole + ([rest] if rest else [])


def _check_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is {confidence}: a number between 0 and 1 is needed")


def _vector(name: str, values: ArrayLike, *, at_least: int) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError(f"{name} has {array.ndim} dimensions: a list of numbers is needed")
    if array.size < at_least:
        raise ValueError(f"{name} has {array.size} numbers: at least {at_least} are needed")
    if not np.isfinite(array).all():
        first = int(np.argmin(np.isfinite(array)))
        raise ValueError(f"{name}[{first}] is {array[first]}: finite numbers are needed")
    return array


def _pair(
    first_name: str, first: ArrayLike, second_name: str, second: ArrayLike, *, at_least: int
) -> tuple[FloatArray, FloatArray]:
    one = _vector(first_name, first, at_least=at_least)
    other = _vector(second_name, second, at_least=at_least)
    if one.size != other.size:
        raise ValueError(
            f"{first_name} has {one.size} numbers and {second_name} {other.size}: "
            "as many are needed in each"
        )
    return one, other
