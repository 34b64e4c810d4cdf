"""Against other implementations and first principles: statsmodels, scipy, simulation."""

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from schedlab import design as doe
from schedlab.design import Surface


def _noisy(seed: int, factors: int = 3, sigma: float = 0.5) -> Surface:
    rng = np.random.default_rng(seed)
    points = doe.central_composite(factors, centre=5)
    matrix = rng.normal(size=(factors, factors))
    values = 10 + points @ rng.normal(size=factors)
    values += np.einsum("ij,jk,ik->i", points, matrix, points)
    return doe.fit(points, values + rng.normal(scale=sigma, size=len(points)))


def test_coefficients_and_errors_are_statsmodels() -> None:
    surface = _noisy(3)

    def columns(x: np.ndarray) -> np.ndarray:
        one, two, three = x.T
        products = [one * two, one * three, two * three, one**2, two**2, three**2]
        return np.stack([np.ones(len(x)), one, two, three, *products], axis=1)

    theirs = sm.OLS(surface.response, columns(surface.design)).fit()
    assert surface.coefficients == pytest.approx(theirs.params)
    errors = [term.standard_error for term in surface.terms]
    assert errors == pytest.approx(theirs.bse)
    assert [term.p for term in surface.terms] == pytest.approx(theirs.pvalues)
    assert (surface.r_squared, surface.f, surface.p) == pytest.approx(
        (theirs.rsquared, theirs.fvalue, theirs.f_pvalue)
    )
    point = np.array([[0.3, -1.0, 0.5]])
    low, high = theirs.get_prediction(columns(point)).conf_int()[0]
    (interval,) = surface.prediction_interval(point)
    assert (interval.low, interval.high) == pytest.approx((low, high))


@given(st.integers(0, 10_000), st.sampled_from([0.25, 1.0, 2.0]), st.booleans())
def test_a_ridge_point_is_the_best_on_its_sphere(seed: int, distance: float, down: bool) -> None:
    surface = _noisy(seed)
    side = 1.0 if down else -1.0
    (point,) = doe.ridge_path(surface, [distance], goal="descent" if down else "ascent")
    assert np.linalg.norm(point.coded) == pytest.approx(distance)
    rng = np.random.default_rng(seed)
    directions = rng.normal(size=(2000, 3))
    sphere = distance * directions / np.linalg.norm(directions, axis=1, keepdims=True)
    start = sphere[int(np.argmin(side * surface.predict(sphere)))]

    def height(direction: np.ndarray) -> float:
        on_sphere = distance * direction / np.linalg.norm(direction)
        return float(side * surface.predict(on_sphere)[0])

    best = minimize(height, start, method="BFGS").fun
    assert side * point.response <= best + 1e-6 * (1 + abs(best))


def test_a_gradient_across_the_ridge_still_reaches_its_sphere() -> None:
    # y = x1^2 - 4 x2^2 + x1: the least response lies along x2, of which the gradient has nothing.
    # On the circle of radius 2, with x2^2 = 4 - x1^2: 5 x1^2 + x1 - 16, least at x1 = -1/10.
    points = doe.central_composite(2)
    surface = doe.fit(points, points[:, 0] ** 2 - 4 * points[:, 1] ** 2 + points[:, 0])
    (point,) = doe.ridge_path(surface, [2.0], goal="descent")
    assert point.coded[0] == pytest.approx(-0.1)
    assert point.response == pytest.approx(-16.05)


def test_errors_of_eigenvalues_are_those_of_a_second_regression() -> None:
    # Bisgaard and Ankenman: fitted anew in the rotated axes, the squares' coefficients are the
    # eigenvalues, with standard errors from ordinary regression.
    surface = _noisy(8)
    axes = doe.canonical(surface).eigenvectors
    rotated = doe.fit(surface.design @ axes, surface.response)
    squares = [rotated.term(f"x{i + 1}^2") for i in range(3)]
    found = doe.stationary_intervals(surface)
    assert doe.canonical(surface).eigenvalues == pytest.approx([one.estimate for one in squares])
    assert found.eigenvalue_errors == pytest.approx([one.standard_error for one in squares])


def test_errors_of_the_stationary_point_are_derivatives() -> None:
    surface = _noisy(5)
    step, slopes = 1e-6, []
    for place in range(len(surface.terms)):
        moved = surface.coefficients
        moved[place] += step
        linear, rest = moved[1:4], moved[4:]
        quadratic = np.diag(rest[3:])
        for (one, other), value in zip([(0, 1), (0, 2), (1, 2)], rest[:3], strict=True):
            quadratic[one, other] = quadratic[other, one] = value / 2
        point = -0.5 * np.linalg.solve(quadratic, linear)
        slopes.append((point - doe.canonical(surface).stationary) / step)
    slope = np.array(slopes)
    errors = np.sqrt(np.diag(slope.T @ surface.covariance @ slope))
    assert doe.stationary_intervals(surface).stationary_errors == pytest.approx(errors, rel=1e-3)


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    # y = (x1 - 0.4)^2 + 2 (x2 + 0.2)^2 with an error of 0.1: eigenvalues 2 and 1, a clear minimum,
    # where the delta method is good. Of 400 trials at 90 %, binomial chance leaves 0.87 to 0.93
    # two standard errors about it; the bootstrap's plain percentiles are known to be a little
    # narrow with 7 degrees of freedom.
    rng = np.random.default_rng(11)
    points = doe.central_composite(2, centre=5)
    truth = (points[:, 0] - 0.4) ** 2 + 2 * (points[:, 1] + 0.2) ** 2
    held = {"delta": 0, "eigenvalue": 0, "region": 0, "bootstrap": 0}
    trials = 400
    for trial in range(trials):
        surface = doe.fit(points, truth + rng.normal(scale=0.1, size=len(points)))
        found = doe.stationary_intervals(surface, 0.9)
        held["delta"] += 0.4 in found.stationary[0]
        held["eigenvalue"] += 2.0 in found.eigenvalues[0]
        held["region"] += doe.stationary_region_holds(surface, [0.4, -0.2], 0.9)
        again = doe.resampled(surface, 0.9, resamples=200, rng=trial)
        held["bootstrap"] += 0.4 in again.stationary[0]
    shares = {name: count / trials for name, count in held.items()}
    assert 0.86 <= shares["delta"] <= 0.94
    assert 0.86 <= shares["eigenvalue"] <= 0.94
    assert 0.86 <= shares["region"] <= 0.94
    assert 0.80 <= shares["bootstrap"] <= 0.94


def test_resamples_tell_how_sure_a_saddle_is() -> None:
    points = doe.central_composite(2, centre=5)
    rng = np.random.default_rng(2)
    errors = rng.normal(size=len(points))
    sure = doe.fit(points, points[:, 0] ** 2 - points[:, 1] ** 2 + 0.01 * errors)
    assert doe.resampled(sure, resamples=300).natures == {"saddle": 1.0}
    unsure = doe.fit(points, points[:, 0] ** 2 + errors)
    assert len(doe.resampled(unsure, resamples=300).natures) > 1


@pytest.mark.parametrize(("factors", "runs"), [(3, 12), (4, 24), (5, 40), (6, 48), (7, 56)])
def test_box_and_behnkens_runs(factors: int, runs: int) -> None:
    # Their table 4: this many runs besides the centre; every factor is as often low as high, any
    # two are uncorrelated, and the second-order model can be fitted.
    found = doe.box_behnken(factors, centre=3)
    assert len(found) == runs + 3
    moments = found.T @ found
    assert np.array_equal(moments, np.diag(np.diag(moments)))
    assert set(np.diag(moments)) == {moments[0, 0]}
    assert not found.sum(axis=0).any()
    doe.fit(found, np.arange(len(found), dtype=float))


@pytest.mark.parametrize("factors", [2, 3, 4])
def test_a_rotatable_design_predicts_alike_at_equal_distances(factors: int) -> None:
    surface = doe.fit(doe.central_composite(factors), np.arange(2.0**factors + 2 * factors + 4) % 3)
    rng = np.random.default_rng(1)
    directions = rng.normal(size=(20, factors))
    sphere = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    widths = [one.high - one.low for one in surface.prediction_interval(sphere)]
    assert widths == pytest.approx([widths[0]] * 20)


def test_wrong_input_says_what_is_allowed() -> None:
    with pytest.raises(ValueError, match="3 to 7"):
        doe.box_behnken(2)
    with pytest.raises(ValueError, match="cannot tell the 6 coefficients"):
        doe.fit(doe.two_level(2), [1, 2, 3, 4])
    with pytest.raises(ValueError, match="not a finite number"):
        doe.fit([[0.0], [1.0], [2.0]], [1, 2, float("nan")])
    points = doe.central_composite(2)
    level = doe.fit(points, points[:, 0] ** 2)
    with pytest.raises(ValueError, match="level along an axis"):
        doe.canonical(level)
    with pytest.raises(ValueError, match="first-order model"):
        doe.canonical(doe.fit([[-1.0], [0.0], [1.0]], [1, 2, 3], order="first"))
    with pytest.raises(ValueError, match="nothing is left"):
        doe.stationary_intervals(doe.fit([[-1.0], [0.0], [1.0]], [1.0, 0.0, 1.0]))
    with pytest.raises(ValueError, match="ratios need"):
        doe.Factor("x", 0, 1, "log")


def test_codings_are_inverse() -> None:
    coding = doe.Coding((doe.Factor("a", 2, 6), doe.Factor("b", 1, 100, "log")))
    # The middle of 1 to 100 in ratios is 10.
    assert coding.natural([0, 0]).tolist() == pytest.approx([4, 10])
    rows = np.array([[-1.4, 0.3], [1, -1]])
    assert coding.coded(coding.natural(rows)) == pytest.approx(rows)
