"""Tuning the tuner: the paper's Box-Behnken design over the swarm's parameters, and its surface.

The paper runs one swarm at each of 14 settings of omega, phi_p and phi_g, adds the least turnaround
R* and the generation I* that met it, and fits a second-order model of that sum. Its optimum is the
surface's stationary point. Its own 14 rows give the same point back here, and
with it the eigenvalues, which say what kind of point it is.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from schedlab.design import (
    Canonical,
    Coding,
    Factor,
    StationaryIntervals,
    Surface,
    canonical,
    fit,
    ridge_path,
    stationary_intervals,
)
from schedlab.report import charts
from schedlab.search import Parameters, ParticleSwarm, run_many
from schedlab.studies import papers
from schedlab.studies.alternative_text import spans
from schedlab.studies.scheduler_tuning.scheduler_tuning import SPACE, Turnaround
from schedlab.studies.study import Claim, Figure, Judgement, Table, Tell, judged

OFFSET = 2**32 - 300_000
"""Where the paper's jiffies counter begins: 2^32 - 300 * HZ, HZ = 1000."""

PARAMETERS = Coding((Factor("omega", 0, 0.9), Factor("phi_p", 0, 4), Factor("phi_g", 0, 4)))
KEPT = Coding((Factor("omega", 0, 0.9), Factor("phi_g", 0, 4)))
"""Those that the paper's model keeps; phi_p had no effect."""


@dataclass(frozen=True, slots=True)
class Row:
    """A setting of the swarm and its results, medians over seeds.

    Attributes:
        setting: omega, phi_p, phi_g.
        minimum: R*, elapsed jiffies.
        generation: I*, the first generation being 1.
    """

    setting: tuple[float, float, float]
    minimum: float
    generation: float

    @property
    def rsum(self) -> float:
        """The response: R* + I*."""
        return self.minimum + self.generation


@dataclass(frozen=True, slots=True)
class Analysis:
    """The surface of rsum over omega and phi_g."""

    surface: Surface
    found: Canonical
    intervals: StationaryIntervals

    @property
    def stationary(self) -> tuple[float, float]:
        """The stationary point's omega and phi_g."""
        omega, phi_g = KEPT.natural(self.found.stationary)
        return float(omega), float(phi_g)


def printed() -> list[Row]:
    """Return the paper's Table I."""
    return [
        Row(
            (float(row["omega"]), float(row["phi_p"]), float(row["phi_g"])),
            float(row["response_jiffies_raw"]) - OFFSET,
            float(row["iterations_to_minimum"]),
        )
        for row in papers.table("tuning_meta_optimization")
    ]


Middle = Callable[[Sequence[float]], np.floating[Any]]


def measured(
    objective: Turnaround, seeds: Sequence[int], tell: Tell, middle: Middle = np.median
) -> list[Row]:
    """Run swarms at the design's settings, in the paper's order.

    Args:
        objective: what they minimise.
        seeds: a swarm a seed at each setting.
        tell: told of progress.
        middle: of the seeds' R* and I*: the median or the mean.

    A swarm ends once it met a turnaround that nothing can undercut: neither R* nor I* changes then.
    """
    rows = []
    settings = [row.setting for row in printed()]
    enough = float(objective.least_possible())
    for number, setting in enumerate(settings):
        tell("meta-optimisation", number, len(settings))
        swarms = [
            ParticleSwarm(SPACE, Parameters(*setting), particles=20, iterations=30, rng=seed)
            for seed in seeds
        ]
        histories = run_many(swarms, objective, remember=True, enough=enough)
        rows.append(
            Row(
                setting,
                float(middle([history.minimum for history in histories])),
                float(middle([history.generation_of_minimum for history in histories])),
            )
        )
    return rows


def level(rows: Sequence[Row]) -> bool:
    """Return whether every setting came to the same: then there is no surface.

    >>> level(printed())
    False
    """
    return len({row.rsum for row in rows}) == 1


def analyse(rows: Sequence[Row], *, offset: float = 0.0) -> Analysis:
    """Fit the second-order model that the paper keeps.

    Args:
        rows: of a design.
        offset: added to each response, as the paper's counter does.

    >>> found = analyse(printed())
    >>> [round(value, 3) for value in found.stationary], found.found.nature
    ([0.437, 3.019], 'saddle')
    """
    settings = np.array([row.setting for row in rows])
    surface = fit(
        KEPT.coded(settings[:, [0, 2]]),
        np.array([row.rsum + offset for row in rows]),
        names=KEPT.names,
    )
    return Analysis(surface, canonical(surface), stationary_intervals(surface))


def analyses(designs: Mapping[str, Sequence[Row]]) -> dict[str, Analysis]:
    """Return the surfaces of designs by whose they are, where there is one."""
    return {who: analyse(rows) for who, rows in designs.items() if not level(rows)}


def tables(designs: Mapping[str, Sequence[Row]]) -> tuple[Table, ...]:
    """Return Table I of every design side by side, the models' coefficients, and the paths.

    Args:
        designs: rows by whose they are, the paper's first.
    """
    both = [
        (
            number,
            *runs[0].setting,
            *(value for row in runs for value in (row.minimum, row.generation, row.rsum)),
        )
        for number, runs in enumerate(zip(*designs.values(), strict=True), start=1)
    ]
    fitted = analyses(designs)
    terms = [
        (who, term.name, term.estimate, term.standard_error, term.t, term.p)
        for who, analysis in fitted.items()
        for term in analysis.surface.terms
    ]
    points = [
        (who, "ridge", point.distance, *KEPT.natural(point.coded).tolist(), point.response)
        for who, analysis in fitted.items()
        for point in ridge_path(analysis.surface, np.arange(0, 1.6, 0.25).tolist())
    ]
    distances = np.arange(-1, 1.25, 0.25)
    for who, analysis in fitted.items():
        for axis in (0, 1):
            along = analysis.found.path(distances.tolist(), axis=axis)
            points += [
                (who, f"canonical {axis + 1}", float(step), *KEPT.natural(coded).tolist(), value)
                for step, coded, value in zip(
                    distances, along, analysis.surface.predict(along).tolist(), strict=True
                )
            ]
    return (
        Table(
            "table_1",
            "Table I: the 14 runs, R* in elapsed jiffies (ours: medians over seeds on one CPU, "
            "means where the least is rare)",
            (
                *("run", "omega", "phi_p", "phi_g"),
                *(f"{number} {who}" for who in designs for number in ("R*", "I*", "rsum")),
            ),
            tuple(both),
        ),
        Table(
            "significance",
            "The second-order model of rsum over coded omega and phi_g, elapsed jiffies",
            ("rows", "term", "estimate", "standard error", "t", "p"),
            tuple(terms),
        ),
        Table(
            "canonical",
            "Stationary point and eigenvalues (of coded parameters), 95 % intervals by the delta "
            "method",
            ("rows", "quantity", "value", "from", "to"),
            tuple(
                (who, name, value, low, high)
                for who, analysis in fitted.items()
                for name, value, low, high in _canonical(analysis)
            ),
        ),
        Table(
            "paths",
            "Canonical paths through the stationary point, and the ridge of least response",
            ("rows", "path", "distance", "omega", "phi_g", "rsum"),
            tuple(points),
        ),
    )


def _canonical(analysis: Analysis) -> list[tuple[str, float, float, float]]:
    """Return stationary point, in natural units, and eigenvalues with their intervals."""
    coded = analysis.intervals.stationary
    low, high = (
        KEPT.natural(np.array([getattr(one, end) for one in coded])) for end in ("low", "high")
    )
    found = [
        (name, value, float(low[place]), float(high[place]))
        for place, (name, value) in enumerate(zip(KEPT.names, analysis.stationary, strict=True))
    ]
    values = zip(analysis.found.eigenvalues, analysis.intervals.eigenvalues, strict=True)
    found += [
        (f"eigenvalue {number}", float(value), interval.low, interval.high)
        for number, (value, interval) in enumerate(values, start=1)
    ]
    return found


def claims(designs: Mapping[str, Sequence[Row]]) -> tuple[Claim, ...]:
    """Return what the paper says of its surface, and what the rows say.

    Args:
        designs: rows by whose they are, the paper's first.
    """
    theirs, *_ = designs.values()
    own = [(who, rows) for who, rows in designs.items() if rows is not theirs]
    paper, raw = analyse(theirs), analyse(theirs, offset=OFFSET)
    omega, phi_g = paper.stationary
    values = ", ".join(f"{value:+.1f}" for value in paper.found.eigenvalues)
    intercepts = [analysis.surface.term("(Intercept)").p for analysis in (raw, paper)]
    first = {name: paper.surface.term(name).p for name in KEPT.names}
    return (
        Claim(
            "The stationary point of the surface is omega = 0.4365, phi_g = 3.020",
            "omega = 0.4365, phi_g = 3.020",
            f"the paper's own 14 rows give {omega:.4f} and {phi_g:.4f}; interval of omega",
            judged(round(omega, 4) == 0.4365 and abs(phi_g - 3.02) < 0.001),
            _canonical(paper)[0][2:],
        ),
        Claim(
            "That point is the optimum of the swarm's parameters",
            "taken as the minimum",
            f"the eigenvalues of the paper's rows are {values}: a {paper.found.nature} "
            "(interval of the first); "
            + "; ".join(f"{who}: {_own(paper, rows)}" for who, rows in own),
            Judgement.CONFIRMED if paper.found.nature == "minimum" else Judgement.CONTRADICTED,
            _canonical(paper)[2][2:],
        ),
        Claim(
            "The intercept is highly significant, which speaks for the model",
            "high significance",
            f"p = {intercepts[0]:.1g} with the raw counter, {intercepts[1]:.2g} once its beginning "
            f"({OFFSET}) is taken off",
            judged(intercepts[1] < 0.05, against=intercepts[1] > 0.05),
        ),
        Claim(
            "omega and phi_g are highly significant",
            "high significance",
            ", ".join(f"{name}: p = {value:.2g}" for name, value in first.items())
            + " in the paper's own rows",
            judged(all(value < 0.01 for value in first.values())),
        ),
    )


def _own(paper: Analysis, ours: Sequence[Row]) -> str:
    """Say what our runs' surface is like."""
    if level(ours):
        return f"every setting comes to {ours[0].rsum:g}, so that there is no surface"
    own = analyse(ours)
    points = zip(own.intervals.stationary, paper.found.stationary.tolist(), strict=True)
    within = all(interval.low <= coded <= interval.high for interval, coded in points)
    omega, phi_g = own.stationary
    return f"a {own.found.nature} at omega = {omega:.3f}, phi_g = {phi_g:.3f}" + (
        ", with the paper's within its interval" if within else ""
    )


def figure(designs: Mapping[str, Sequence[Row]]) -> Figure:
    """Draw the fitted surfaces over omega and phi_g, a panel a design that has one."""
    values = []
    fitted = analyses(designs)
    for who, analysis in fitted.items():
        for omega in np.linspace(0, 0.9, 10):
            for phi_g in np.linspace(0, 4, 5):
                coded = KEPT.coded([[float(omega), float(phi_g)]])
                values.append(
                    {
                        "omega": round(float(omega), 2),
                        "rsum": float(analysis.surface.predict(coded)[0]),
                        "phi_g": f"phi_g = {phi_g:g}",
                        "rows": who,
                    }
                )
    return Figure(
        "surface",
        "The second-order model of rsum along omega, a line a phi_g: the paper's rows and ours "
        "(each panel with its own axis).",
        "Lines of rsum against omega, a line a phi_g. "
        + " ".join(
            f"{who}: {spans([one for one in values if one['rows'] == who], 'rsum', 'phi_g')}."
            for who in fitted
        ),
        charts.lines(
            values,
            x="omega",
            y="rsum",
            names=("omega", "rsum (jiffies)"),
            color="phi_g",
            facet="rows",
            free=True,
        ),
    )
