"""Statistics against published examples, other implementations and known truths."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import scipy.stats
import statsmodels.stats.proportion
from hypothesis import given
from hypothesis import strategies as st

from schedlab.experiment import stats
from schedlab.experiment.stats import Estimate, Interval, Verdict
from schedlab.model.direction import Better

positive = st.floats(min_value=1e-6, max_value=1e6)
pairs = st.lists(st.tuples(positive, positive), min_size=2, max_size=12)


def mean(sample: stats.FloatArray) -> stats.FloatArray:
    return np.asarray(sample.mean(axis=-1))


def test_bootstrap_interval_of_two_values_spans_them() -> None:
    # n = 2: t(0.975, 1) = 12.706, times sqrt(2/1) = 17.97, so the tail left out is Phi(-17.97),
    # under 1e-70: the interval runs from the smallest mean a resample can have to the largest.
    estimate = stats.bootstrap([3.0, 7.0], mean)
    assert estimate == Estimate(5.0, Interval(3.0, 7.0, 0.95), 2)


def test_bootstrap_interval_of_a_binomial_mean() -> None:
    # Five zeros and five ones: ten times a resample's mean is Binomial(10, 1/2). n = 10:
    # t(0.975, 9) = 2.262, times sqrt(10/9) = 2.3846, tail Phi(-2.3846) = 0.00855, which falls
    # between P(0) = 1/1024 = 0.00098 and P(<= 1) = 11/1024 = 0.01074, so the lower end is 1/10 and
    # by symmetry the upper one 9/10. With 100,000 resamples both gaps are over six standard errors.
    estimate = stats.bootstrap([0.0] * 5 + [1.0] * 5, mean, resamples=100_000)
    assert estimate.interval == Interval(0.1, 0.9, 0.95)


def test_bootstrap_agrees_with_scipys_percentile_interval_at_the_widened_level() -> None:
    sample = np.random.default_rng(7).lognormal(size=40)
    # n = 40: t(0.975, 39) = 2.022691, times sqrt(40/39) = 2.048462.
    tail = scipy.stats.norm.cdf(-math.sqrt(40 / 39) * scipy.stats.t.ppf(0.975, 39))
    expected = scipy.stats.bootstrap(
        (sample,),
        np.mean,
        confidence_level=1 - 2 * tail,
        n_resamples=200_000,
        method="percentile",
        rng=np.random.default_rng(8),
    )
    ours = stats.bootstrap(sample, mean, resamples=200_000, rng=9)
    spread = expected.standard_error
    # Two Monte Carlo quantiles at a tail of 0.02 differ by about 0.01 standard errors.
    assert ours.interval.low == pytest.approx(expected.confidence_interval.low, abs=0.05 * spread)
    assert ours.interval.high == pytest.approx(expected.confidence_interval.high, abs=0.05 * spread)


def test_bootstrap_in_chunks_is_the_same_as_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    # A generator gives the same stream in one draw or several, so memory use changes no result.
    sample = [1.0, 2.0, 4.0, 8.0, 16.0]
    whole = stats.bootstrap(sample, mean, resamples=100, rng=3)
    monkeypatch.setattr(stats, "_CHUNK", 35)
    assert stats.bootstrap(sample, mean, resamples=100, rng=3) == whole


def test_bootstrap_takes_a_generator_and_repeats_by_seed() -> None:
    sample = np.random.default_rng(0).normal(size=30)
    by_seed = stats.bootstrap(sample, mean, rng=3)
    assert stats.bootstrap(sample, mean, rng=np.random.default_rng(3)) == by_seed
    assert stats.bootstrap(sample, mean, rng=4) != by_seed


@pytest.mark.parametrize("size", [8, 30])
def test_interval_of_a_mean_covers_the_truth_as_often_as_it_says(size: int) -> None:
    # The log-ratios are normal around ln 0.9. Over 1000 experiments the count of intervals that
    # contain 0.9 is Binomial(1000, 0.95) if they keep their word: standard deviation 6.9. Four of
    # them either way is 922 to 978; the plain percentile interval at n = 8 covers about 0.90.
    rng = np.random.default_rng(size)
    covered = 0
    for experiment in range(1000):
        baseline = rng.lognormal(3.0, 0.2, size=size)
        treatment = baseline * 0.9 * rng.lognormal(0.0, 0.05, size=size)
        estimate = stats.paired_ratio(baseline, treatment, resamples=1000, rng=experiment)
        covered += 0.9 in estimate.interval
    assert 922 <= covered <= 978


def test_interval_of_a_median_covers_the_truth_as_often_as_it_says() -> None:
    # The median of an exponential distribution is ln 2. A bootstrap median sits on order
    # statistics, so coverage is not exact; it may not fall below 0.95 by more than four standard
    # deviations of Binomial(500, 0.95) = 4 * 4.87, i.e. 475 - 20.
    rng = np.random.default_rng(1)
    covered = sum(
        math.log(2) in stats.median(rng.exponential(size=101), resamples=1000, rng=seed).interval
        for seed in range(500)
    )
    assert covered >= 455


def test_interval_of_a_median_is_near_the_exact_one_from_order_statistics() -> None:
    # For 200 values the exact interval runs from the order statistic l to 201 - l, where l - 1
    # is the largest k with P(Binomial(200, 1/2) <= k) <= 0.025. With the values 1 … 200 the order
    # statistics are their own ranks; a bootstrap interval may differ by a rank or two.
    k = int(scipy.stats.binom.ppf(0.025, 200, 0.5)) - 1
    estimate = stats.median(np.arange(1, 201))
    assert estimate.value == 100.5
    assert estimate.interval.low == pytest.approx(k + 1, abs=2)
    assert estimate.interval.high == pytest.approx(200 - k, abs=2)


def test_paired_ratio_is_the_geometric_mean_of_the_ratios() -> None:
    # Ratios 1/2 and 2/1 and 1/1: their product is 1, so nothing changed on the whole.
    estimate = stats.paired_ratio([2.0, 1.0, 5.0], [1.0, 2.0, 5.0])
    assert estimate.value == pytest.approx(1.0)
    assert estimate.size == 3


def test_paired_ratio_cancels_what_a_block_shares() -> None:
    # Blocks a million times apart, the same ratio in each: no uncertainty remains.
    baseline = np.array([1.0, 1e3, 1e6, 1.0, 1e3, 1e6])
    estimate = stats.paired_ratio(baseline, 1.02 * baseline)
    assert estimate.interval.low == pytest.approx(1.02)
    assert estimate.interval.high == pytest.approx(1.02)


@given(pairs)
def test_swapping_the_arms_inverts_the_ratio_and_its_interval(
    sample: list[tuple[float, float]],
) -> None:
    # The log-ratios change sign, the same pairs are resampled, and both tails are equal.
    one = [pair[0] for pair in sample]
    other = [pair[1] for pair in sample]
    forth = stats.paired_ratio(one, other, resamples=200)
    back = stats.paired_ratio(other, one, resamples=200)
    assert back.value == pytest.approx(1 / forth.value)
    assert back.interval.low == pytest.approx(1 / forth.interval.high)
    assert back.interval.high == pytest.approx(1 / forth.interval.low)


@given(pairs, positive)
def test_the_unit_of_measurement_does_not_matter(
    sample: list[tuple[float, float]], unit: float
) -> None:
    one = np.array([pair[0] for pair in sample])
    other = np.array([pair[1] for pair in sample])
    plain = stats.paired_ratio(one, other, resamples=100)
    scaled = stats.paired_ratio(unit * one, unit * other, resamples=100)
    assert scaled.value == pytest.approx(plain.value)
    assert scaled.interval.low == pytest.approx(plain.interval.low)


@pytest.mark.parametrize(
    ("low", "high", "better", "expected"),
    [
        # The band of 1 % is [0.990099, 1.01].
        (0.95, 0.98, "lower", Verdict.BETTER),
        (0.95, 0.98, "higher", Verdict.WORSE),
        (1.02, 1.05, "lower", Verdict.WORSE),
        (1.02, 1.05, "higher", Verdict.BETTER),
        (0.9902, 1.0099, "lower", Verdict.SAME),
        (1.002, 1.008, "lower", Verdict.SAME),  # differs, but by less than matters
        (0.985, 0.995, "lower", Verdict.BETTER),  # differs, perhaps by more than matters
        (0.98, 1.005, "lower", Verdict.INCONCLUSIVE),
        (0.9, 1.1, "lower", Verdict.INCONCLUSIVE),
        (0.98, 1.0, "lower", Verdict.INCONCLUSIVE),  # does not exclude 1
        (1.0, 1.0, "lower", Verdict.SAME),
    ],
)
def test_verdicts(low: float, high: float, better: Better, expected: Verdict) -> None:
    ratio = Estimate(math.sqrt(low * high), Interval(low, high, 0.95), 10)
    assert stats.judge(ratio, better=better) is expected


def test_too_few_pairs_settle_nothing() -> None:
    # All n pairs point one way by chance with probability 2^(1 - n): 0.0625 for 5, 0.03125 for 6.
    assert stats.minimum_pairs(0.95) == 6
    # 2^(1 - 8) = 0.0078 <= 0.01 < 2^(1 - 7) = 0.0156.
    assert stats.minimum_pairs(0.99) == 8
    interval = Interval(0.5, 0.6, 0.95)
    assert stats.judge(Estimate(0.55, interval, 5)) is Verdict.INCONCLUSIVE
    assert stats.judge(Estimate(0.55, interval, 6)) is Verdict.BETTER


def test_a_comparison_with_itself_is_rarely_called_different() -> None:
    # An A/A check: no effect, noise of 5 %. An interval at 95 % excludes 1 in one of twenty
    # experiments: of 400, Binomial(400, 0.05) with mean 20 and standard deviation 4.4.
    rng = np.random.default_rng(5)
    wrong = 0
    for experiment in range(400):
        ratio = stats.paired_ratio(
            rng.lognormal(0, 0.05, 10), rng.lognormal(0, 0.05, 10), resamples=1000, rng=experiment
        )
        wrong += stats.judge(ratio) in (Verdict.BETTER, Verdict.WORSE)
    assert wrong <= 20 + 4 * 4.4


# F. J. Anscombe, "Graphs in Statistical Analysis", The American Statistician 27:1, 1973: four sets
# of eleven points with the same line 3.00 + 0.500 x and the same R² of 0.67, to the given digits.
_ANSCOMBE_X = [10, 8, 13, 9, 11, 14, 6, 4, 12, 7, 5]
_ANSCOMBE = [
    (_ANSCOMBE_X, [8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68]),
    (_ANSCOMBE_X, [9.14, 8.14, 8.74, 8.77, 9.26, 8.10, 6.13, 3.10, 9.13, 7.26, 4.74]),
    (_ANSCOMBE_X, [7.46, 6.77, 12.74, 7.11, 7.81, 8.84, 6.08, 5.39, 8.15, 6.42, 5.73]),
    (
        [8, 8, 8, 8, 8, 8, 8, 19, 8, 8, 8],
        [6.58, 5.76, 7.71, 8.84, 8.47, 7.04, 5.25, 12.50, 5.56, 7.91, 6.89],
    ),
]


@pytest.mark.parametrize(("x", "y"), _ANSCOMBE)
def test_linear_fit_of_anscombes_quartet(x: list[float], y: list[float]) -> None:
    fit = stats.linear_fit(x, y)
    assert fit.intercept == pytest.approx(3.0, abs=0.01)
    assert fit.slope == pytest.approx(0.5, abs=0.001)
    assert fit.r_squared == pytest.approx(0.67, abs=0.005)
    assert fit.predict([0.0, 2.0]) == pytest.approx([3.0, 4.0], abs=0.01)


@given(st.lists(st.tuples(st.integers(-999, 999), st.integers(-999, 999)), min_size=3, max_size=20))
def test_linear_fit_agrees_with_scipy(points: list[tuple[int, int]]) -> None:
    x = [float(point[0]) for point in points]
    y = [float(point[1]) for point in points]
    if len(set(x)) == 1 or len(set(y)) == 1:
        with pytest.raises(ValueError, match="does not vary"):
            stats.linear_fit(x, y)
        return
    expected = scipy.stats.linregress(x, y)
    fit = stats.linear_fit(x, y)
    assert fit.slope == pytest.approx(expected.slope, abs=1e-9)
    assert fit.intercept == pytest.approx(expected.intercept, abs=1e-6)
    assert fit.r_squared == pytest.approx(expected.rvalue**2, abs=1e-9)


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [
        # R. G. Newcombe, "Two-sided confidence intervals for the single proportion", Statistics in
        # Medicine 17, 1998, table I, method 3 (the score method).
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_proportion_of_newcombes_examples(
    successes: int, trials: int, low: float, high: float
) -> None:
    estimate = stats.proportion(successes, trials)
    assert estimate.value == successes / trials
    assert estimate.interval.low == pytest.approx(low, abs=5e-5)
    assert estimate.interval.high == pytest.approx(high, abs=5e-5)


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_proportion_agrees_with_statsmodels(counts: tuple[int, int]) -> None:
    successes, trials = counts
    low, high = statsmodels.stats.proportion.proportion_confint(
        successes, trials, alpha=0.1, method="wilson"
    )
    estimate = stats.proportion(successes, trials, confidence=0.9)
    assert estimate.interval.low == pytest.approx(low, abs=1e-12)
    assert estimate.interval.high == pytest.approx(high, abs=1e-12)
    assert estimate.value in estimate.interval


def test_errors_of_predictions() -> None:
    predicted, observed = [8.0, 30.0, 5.0, 41.0], [10.0, 20.0, 5.0, 40.0]
    # Relative errors 0.2, 0.5, 0 and 0.025; the median of four is the mean of 0.025 and 0.2.
    assert stats.median_absolute_relative_error(predicted, observed) == pytest.approx(0.1125)
    # e times too much is an error of one, e times too little of minus one.
    assert stats.log_ratio([math.e, 1 / math.e], [1.0, 1.0]) == pytest.approx([1.0, -1.0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: stats.median([1.0]), r"values has 1 numbers: at least 2 are needed"),
        (lambda: stats.median([1.0, math.nan]), r"values\[1\] is nan: finite numbers are needed"),
        (lambda: stats.median([[1.0, 2.0]]), r"values has 2 dimensions"),
        (lambda: stats.median([1.0, 2.0], confidence=1.0), r"confidence is 1.0"),
        (lambda: stats.median([1.0, 2.0], resamples=0), r"resamples is 0"),
        (lambda: stats.paired_ratio([1.0, 2.0], [1.0]), r"2 numbers|has 1 numbers and"),
        (lambda: stats.paired_ratio([1.0, 0.0], [1.0, 1.0]), r"reference\[1\] is 0.0"),
        (lambda: stats.proportion(3, 2), r"successes is 3: 0 to 2"),
        (lambda: stats.proportion(0, 0), r"trials is 0"),
        (lambda: stats.median_absolute_relative_error([1.0], [0.0]), r"observed\[0\] is 0"),
        (lambda: stats.judge(Estimate(1, Interval(1, 1, 0.95), 9), band=-1), r"band is -1"),
    ],
)
def test_bad_input_is_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
