"""Published worked examples: the tuning paper, and what R's ``rsm`` prints for textbook data.

The numbers of ``rsm`` are those of its vignette "Response-Surface Methods in R, Using rsm"
(R. V. Lenth, version 2.10.6).
"""

import numpy as np
import pytest

from schedlab import design as doe
from schedlab.design import Coding, Factor, Surface

# "Comparison of application of global and one-dimensional local optimization methods to operating
# system scheduler tuning", table I: omega, phi_p, phi_g, R* (raw jiffies), I*.
PAPER = np.array(
    [
        (0, 0, 2, 4294667318, 5),
        (0.9, 0, 2, 4294667318, 4),
        (0, 4, 2, 4294667318, 29),
        (0.9, 4, 2, 4294667318, 30),
        (0, 2, 0, 4294668048, 31),
        (0.9, 2, 0, 4294669150, 31),
        (0, 2, 4, 4294667315, 7),
        (0.9, 2, 4, 4294667315, 6),
        (0.45, 0, 0, 4294669038, 31),
        (0.45, 4, 0, 4294668498, 31),
        (0.45, 0, 4, 4294667315, 5),
        (0.45, 4, 4, 4294667315, 5),
        (0.45, 2, 2, 4294667315, 18),
        (0.45, 2, 2, 4294667315, 16),
    ]
)

# A chemical process in two blocks: R. H. Myers, D. C. Montgomery and C. M. Anderson-Cook, "Response
# Surface Methodology" (3rd ed., 2009), table 7.6: time, temperature, yield, block.
CHEMICAL = np.array(
    [
        (80, 170, 80.5, 1), (80, 180, 81.5, 1), (90, 170, 82.0, 1), (90, 180, 83.5, 1),
        (85, 175, 83.9, 1), (85, 175, 84.3, 1), (85, 175, 84.0, 1),
        (85, 175, 79.7, 2), (85, 175, 79.8, 2), (85, 175, 79.5, 2),
        (92.07, 175, 78.4, 2), (77.93, 175, 75.6, 2), (85, 182.07, 78.5, 2), (85, 167.93, 77.0, 2),
    ]
)  # fmt: skip

# Paper helicopters: G. E. P. Box, J. S. Hunter and W. G. Hunter, "Statistics for Experimenters"
# (2nd ed., 2005), table 12.5: a central composite design of four factors in two blocks (a factorial
# in standard order with two centre points; axial points at 2 with four), mean flight time in
# hundredths of a second.
HELICOPTER_TIMES = (
    [367, 369, 374, 370, 372, 355, 397, 377, 350, 373, 358, 363, 344, 355, 370, 362, 377, 375],
    [361, 364, 355, 373, 361, 360, 380, 360, 370, 368, 369, 366],
)

# Carbon monoxide in exhaust gas: the same book, table 10.17, coded ethanol and air/fuel ratio.
EXHAUST = np.array(
    [
        (-1, -1, 61.9), (-1, -1, 65.6), (0, -1, 80.9), (0, -1, 78.0), (1, -1, 89.7), (1, -1, 93.8),
        (-1, 0, 72.1), (-1, 0, 67.3), (0, 0, 80.1), (0, 0, 81.4), (1, 0, 77.8), (1, 0, 74.8),
        (-1, 1, 66.4), (-1, 1, 68.2), (0, 1, 68.9), (0, 1, 66.0), (1, 1, 60.2), (1, 1, 57.9),
    ]
)  # fmt: skip

REACTOR = Coding((Factor("time", 80, 90), Factor("temperature", 170, 180)))


@pytest.fixture
def paper() -> Surface:
    """The surface of the tuning paper: rsum over omega and phi_g, phi_p left out."""
    coding = Coding((Factor("omega", 0, 0.9), Factor("phi_g", 0, 4)))
    rsum = PAPER[:, 3] + PAPER[:, 4]
    return doe.fit(coding.coded(PAPER[:, [0, 2]]), rsum, names=coding.names)


@pytest.fixture
def reactor() -> Surface:
    points = REACTOR.coded(CHEMICAL[:, :2])
    blocks = CHEMICAL[:, 3].astype(int).tolist()
    return doe.fit(points, CHEMICAL[:, 2], blocks=blocks)


@pytest.fixture
def helicopter() -> Surface:
    factorial = np.vstack([doe.two_level(4), np.zeros((2, 4))])
    axial = np.vstack([doe.central_composite(4, alpha=2.0, centre=4)[16:]])
    times = np.array(HELICOPTER_TIMES[0] + HELICOPTER_TIMES[1], dtype=float)
    return doe.fit(np.vstack([factorial, axial]), times, blocks=[1] * 18 + [2] * 12)


def test_the_papers_rows_give_back_its_parameters(paper: Surface) -> None:
    found = doe.canonical(paper)
    omega, phi_g = Coding((Factor("omega", 0, 0.9), Factor("phi_g", 0, 4))).natural(
        found.stationary
    )
    assert round(float(omega), 4) == 0.4365
    assert float(phi_g) == pytest.approx(3.0195, abs=5e-5)
    assert found.eigenvalues == pytest.approx([700.8, -74.4], abs=0.05)
    assert found.nature == "saddle"


def test_the_papers_intercept_is_its_counters_offset(paper: Surface) -> None:
    # Jiffies are counted from 2^32 - 300 * HZ: taken off, the intercept is 47 and no longer sure.
    offset = 2**32 - 300_000
    assert paper.term("(Intercept)").p < 1e-40
    elapsed = doe.fit(paper.design, paper.response - offset, names=paper.names)
    assert elapsed.term("(Intercept)").p > 0.5
    assert elapsed.coefficients[1:] == pytest.approx(paper.coefficients[1:], abs=1e-4)


def test_the_papers_design_is_box_and_behnkens() -> None:
    coding = Coding((Factor("omega", 0, 0.9), Factor("phi_p", 0, 4), Factor("phi_g", 0, 4)))
    ours = sorted(map(tuple, doe.box_behnken(3, centre=2).tolist()))
    theirs = coding.coded(PAPER[:, :3]).round(9) + 0.0
    assert ours == sorted(map(tuple, theirs.tolist()))


def test_a_first_order_model_lacks_fit() -> None:
    block = CHEMICAL[:7]
    surface = doe.fit(REACTOR.coded(block[:, :2]), block[:, 2], order="first")
    rows = [(t.estimate, t.standard_error, t.t) for t in surface.terms]
    assert rows[0] == pytest.approx((82.81429, 0.54719, 151.3456), rel=1e-5)
    assert rows[1] == pytest.approx((0.87500, 0.72386, 1.2088), rel=1e-4)
    assert rows[2] == pytest.approx((0.62500, 0.72386, 0.8634), rel=1e-4)
    assert surface.terms[1].p == pytest.approx(0.2933, abs=5e-5)
    assert surface.r_squared == pytest.approx(0.3555, abs=5e-5)
    assert surface.adjusted_r_squared == pytest.approx(0.0333, abs=5e-5)
    assert (surface.f, surface.p) == pytest.approx((1.103, 0.4153), abs=5e-4)
    lack = surface.lack_of_fit
    assert lack is not None
    assert lack.degrees == 2
    assert lack.sum_of_squares == pytest.approx(8.2969, abs=5e-5)
    assert lack.f == pytest.approx(95.7335, abs=5e-5)
    assert lack.p == pytest.approx(0.01034, abs=5e-6)
    # The path of steepest ascent at distances 0, 0.5 and 1.
    path = doe.ridge_path(surface, [0, 0.5, 1], goal="ascent")
    assert [p.coded.round(3).tolist() for p in path] == [[0, 0], [0.407, 0.291], [0.814, 0.581]]
    assert [round(p.response, 3) for p in path] == [82.814, 83.352, 83.890]


def test_the_reactors_significance_table(reactor: Surface) -> None:
    printed = {
        "(Intercept)": (84.095427, 0.079631, 1056.067),
        "block2": (-4.457530, 0.087226, -51.103),
        "x1": (0.932541, 0.057699, 16.162),
        "x2": (0.577712, 0.057699, 10.012),
        "x1:x2": (0.125000, 0.081592, 1.532),
        "x1^2": (-1.308555, 0.060064, -21.786),
        "x2^2": (-0.933442, 0.060064, -15.541),
    }
    assert [term.name for term in reactor.terms] == list(printed)
    for term in reactor.terms:
        estimate, error, t = printed[term.name]
        assert term.estimate == pytest.approx(estimate, abs=5e-7)
        assert term.standard_error == pytest.approx(error, abs=5e-7)
        assert term.t == pytest.approx(t, abs=6e-4)
    assert reactor.term("x1:x2").p == pytest.approx(0.1694, abs=5e-5)
    assert reactor.term("x1").p == pytest.approx(8.444e-07, rel=1e-3)
    assert (reactor.r_squared, reactor.adjusted_r_squared) == pytest.approx(
        (0.9981, 0.9964), abs=5e-5
    )
    assert reactor.f == pytest.approx(607.2, abs=0.05)
    assert reactor.p == pytest.approx(3.811e-09, rel=1e-3)


def test_the_reactors_analysis_of_variance(reactor: Surface) -> None:
    printed = [
        ("blocks", 1, 69.531, 2611.0950),
        ("first order", 2, 9.626, 180.7341),
        ("interactions", 1, 0.063, 2.3470),
        ("squares", 2, 17.791, 334.0539),
        ("residuals", 7, 0.186, None),
        ("lack of fit", 3, 0.053, 0.5307),
        ("pure error", 4, 0.133, None),
    ]
    assert len(reactor.parts) == len(printed)
    for part, (name, degrees, squares, f) in zip(reactor.parts, printed, strict=True):
        assert (part.name, part.degrees) == (name, degrees)
        assert part.sum_of_squares == pytest.approx(squares, abs=5.1e-4)
        assert part.f == (None if f is None else pytest.approx(f, rel=1e-4))
    lack = reactor.lack_of_fit
    assert lack is not None
    assert lack.p == pytest.approx(0.6851, abs=5e-5)


def test_the_reactors_maximum(reactor: Surface) -> None:
    found = doe.canonical(reactor)
    assert found.stationary == pytest.approx([0.3722954, 0.3343802], abs=5e-8)
    assert REACTOR.natural(found.stationary) == pytest.approx([86.86148, 176.67190], abs=5e-6)
    assert found.eigenvalues == pytest.approx([-0.9233027, -1.3186949], abs=5e-8)
    # Printed up to sign: (-0.1601375, -0.9870947) and (-0.9870947, 0.1601375).
    assert found.eigenvectors[:, 0] == pytest.approx([0.1601375, 0.9870947], abs=5e-8)
    assert found.eigenvectors[:, 1] == pytest.approx([0.9870947, -0.1601375], abs=5e-8)
    assert found.nature == "maximum"


def test_the_helicopters_saddle(helicopter: Surface) -> None:
    assert helicopter.term("x1:x4").estimate == pytest.approx(4.375)
    assert helicopter.term("x1:x4").standard_error == pytest.approx(0.779623, abs=5e-7)
    assert helicopter.term("x3^2").p == pytest.approx(0.0008873, abs=5e-8)
    lack = helicopter.lack_of_fit
    assert lack is not None
    assert lack.degrees == 10
    assert lack.f == pytest.approx(4.6660, abs=5e-5)
    assert lack.p == pytest.approx(0.075500, abs=5e-7)
    found = doe.canonical(helicopter)
    printed = [0.8607107, -0.3307115, -0.8394866, -0.1161465]
    assert found.stationary == pytest.approx(printed, abs=5e-8)
    assert found.eigenvalues == pytest.approx([3.258222, -1.198324, -3.807935, -4.651963], abs=5e-7)
    assert found.nature == "saddle"


def test_the_helicopters_canonical_path(helicopter: Surface) -> None:
    found = doe.canonical(helicopter)
    # Printed for the distances -5, -3.5, 0 and 3.5, along the vector with a first component
    # above 0; ours is directed by its largest, the fourth, which has the same sign.
    path = found.path([-5, -3.5, 0, 3.5])
    printed = [
        [-1.728, 1.921, 1.419, -2.967],
        [-0.951, 1.246, 0.742, -2.112],
        [0.861, -0.331, -0.839, -0.116],
        [2.673, -1.907, -2.421, 1.879],
    ]
    assert path == pytest.approx(np.array(printed), abs=5.1e-4)
    # Its responses are those at the rounded points.
    assert helicopter.predict(path.round(3)) == pytest.approx(
        [453.627, 412.094, 372.172, 412.088], abs=5.1e-4
    )


def test_a_ridge_is_recognised() -> None:
    surface = doe.fit(EXHAUST[:, :2], EXHAUST[:, 2])
    plain = doe.canonical(surface)
    assert plain.stationary == pytest.approx([-14.81387, 15.44149], abs=5e-6)
    assert plain.eigenvalues == pytest.approx([0.1868328, -8.8868328], abs=5e-8)
    # rsm sets eigenvalues below a tenth of the greatest to zero.
    ridge = doe.canonical(surface, threshold=0.1 * 8.8868328)
    assert (ridge.nature, ridge.kept) == ("ridge", 1)
    assert ridge.stationary == pytest.approx([-0.06302658, -0.05997463], abs=5e-9)
