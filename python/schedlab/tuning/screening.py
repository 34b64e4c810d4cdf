"""Screening: a simulation ranks candidates before any real run, and leaves out what fails there."""

from collections.abc import Sequence

import numpy as np

from schedlab.boundary.errors import RunError
from schedlab.experiment.settings import Setting
from schedlab.experiment.subjects import Subject
from schedlab.search.space import FloatArray
from schedlab.targets.target import Simulated
from schedlab.tuning.aims import parse_aims
from schedlab.tuning.objective import Batched
from schedlab.tuning.result import Tuning, ranking
from schedlab.tuning.runs import Case, Runs

SEEDS = 8
"""Seeds with which each candidate is simulated, none of them of the search."""

STEPS = 8
"""Steps of a dimension: settings nearer to each other than one are neighbours."""


def simulated_costs(
    subjects: Sequence[tuple[str, Subject]],
    place: Simulated,
    settings: Sequence[Setting],
    *,
    metrics: Sequence[str] = (),
    keep: Sequence[str] = (),
    seeds: int = SEEDS,
    first_seed: int = 1,
) -> FloatArray:
    """Return the logarithm of what each setting is worth in simulation, a column a seed.

    Args:
        subjects: what is simulated, each with a name.
        place: the rules and the machine.
        settings: what is set.
        metrics: the aims, as for `schedlab.tune`.
        keep: floors, as for `schedlab.tune`; a setting that breaks one costs infinitely much.
        seeds: how many.
        first_seed: the first of them.

    Raises:
        InputError: something that cannot be simulated.
        RunError: the present setting cannot be.

    >>> from schedlab.experiment.subjects import Described
    >>> from schedlab.model import Machine, Scheduler, Workload
    >>> place = Simulated(Scheduler("6.1"), Machine(1, "reference"))
    >>> one = Described(Workload.parse("hackbench:groups=1,fds=2,loops=1"))
    >>> simulated_costs([("one", one)], place, [Setting({})], seeds=2).tolist()
    [[0.0, 0.0]]
    """
    aims = parse_aims(subjects, metrics, keep)
    cases = [Case(name, one, aims.metrics_of(name)) for name, one in subjects]
    simulated = Batched(cases, aims, Runs(place, seed=first_seed), repeats=seeds)
    rows = np.full((len(settings), seeds), np.inf)
    for row, one in enumerate(settings):
        try:
            rows[row] = simulated.worths(one)
        except RunError:
            continue  # it comes to no end there
    return rows


def candidates(found: Tuning) -> list[Setting]:
    """Return settings that stand for all that a simulated tuning tried, the best first.

    Settings that share a cell of a grid with `STEPS` steps a dimension are neighbours, of which the
    best stands for all.
    """
    space = found.parameters.space
    worths = dict(ranking(found))
    cells: dict[tuple[int, ...], Setting] = {}
    for history in found.histories:
        for position in history.positions:
            one = found.parameters.setting(position)
            if one not in worths:
                continue
            cell = tuple(
                round(value - dimension.low)
                if dimension.integer and dimension.high - dimension.low < STEPS
                else min(
                    STEPS - 1,
                    int(STEPS * (value - dimension.low) / (dimension.high - dimension.low)),
                )
                for value, dimension in zip(position.tolist(), space.dimensions, strict=True)
            )
            if cell not in cells or worths[one] < worths[cells[cell]]:
                cells[cell] = one
    return sorted(dict.fromkeys(cells.values()), key=lambda one: worths[one])
