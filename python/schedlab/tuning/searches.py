"""Which search: by name, within a budget, over any parameters."""

import math
from itertools import product
from typing import Literal, get_args

import numpy as np

from schedlab.boundary import extras
from schedlab.boundary.errors import InputError
from schedlab.search import (
    GoldenSection,
    ParticleSwarm,
    Pinned,
    RandomSearch,
    ResponseSurface,
    Search,
    Space,
)
from schedlab.search.golden import RHO

By = Literal["pso", "golden", "rsm", "random", "tpe", "cmaes", "nsga2"]
BY: tuple[str, ...] = get_args(By)

DRAWS_NOTHING = ("golden", "rsm")
"""Searches without randomness: more seeds find nothing else."""

SEVERAL_AIMS = ("nsga2", "tpe", "random")
"""Searches for a front of several aims; the others seek one least value."""

_TOLERANCE = 1e-3
"""Golden section ends at this share of the range, where the budget allows."""

_PARTICLES = 20
_POPULATION = 50
_BATCH = 10


def told_rows(by: By, aims: int) -> bool:
    """Return whether a search takes a row a position, and not one number.

    >>> told_rows("tpe", 2), told_rows("tpe", 1), told_rows("random", 2)
    (True, False, False)
    """
    return aims > 1 and by != "random"


def usual(aims: int) -> By:
    """Return the search that is taken where none is named.

    >>> usual(1), usual(2)
    ('pso', 'nsga2')
    """
    return "pso" if aims == 1 else "nsga2"


def searches(
    by: By,
    space: Space,
    *,
    seed: int,
    executions: int,
    real: bool,
    aims: int = 1,
    limits: int = 0,
) -> list[Search]:
    """Return the searches that share a budget of executions.

    Golden section and response surfaces order what they search: one is made for each combination
    of choices. The others take choices as they come.

    Args:
        by: the search.
        space: where.
        seed: of what it draws.
        executions: positions to try, over all searches.
        real: whether runs are measured: batches are smaller then, for a race to tell more often.
        aims: what it improves; a search for several takes rows.
        limits: floors that it takes into account.

    Raises:
        InputError: a search that has one aim, a space that the search cannot search, or a budget
            that is too small.
    """
    if executions < 2:
        raise InputError(f"executions is {executions}; allowed: at least 2")
    if aims > 1 and by not in SEVERAL_AIMS:
        raise InputError(
            f"--by {by} has one aim, and there are {aims}; allowed: {', '.join(SEVERAL_AIMS)}"
        )
    if by in DRAWS_NOTHING:
        return _by_choice(by, space, executions)
    batch = max(3, min(_BATCH, executions // 6)) if real else _BATCH
    if by == "pso":
        particles = max(1, min(_PARTICLES, round(math.sqrt(executions))))
        moves = executions // particles - 1
        return [ParticleSwarm(space, particles=particles, iterations=moves, rng=seed)]
    if by == "random":
        return [RandomSearch(space, evaluations=executions, batch=batch, rng=seed)]
    extras.require("optuna")
    # It takes a third of a second to load, and most commands do without.
    from schedlab.search.optuna_search import OptunaSearch  # noqa: PLC0415

    if by == "cmaes":
        batch = 4 + int(3 * math.log(len(space.dimensions)))  # the usual population
    elif by == "nsga2":
        batch = max(4, min(_POPULATION, round(math.sqrt(executions))))
    sampler: Literal["tpe", "cmaes", "nsga2"] = (
        "cmaes" if by == "cmaes" else "nsga2" if by == "nsga2" else "tpe"
    )
    if aims == 1:
        limits = 0  # it takes one number, which is infinite where a floor is broken
    return [
        OptunaSearch(
            space, sampler, evaluations=executions, batch=batch, seed=seed, aims=aims, limits=limits
        )
    ]


def _by_choice(by: By, space: Space, executions: int) -> list[Search]:
    """Return a search of the ordered dimensions for each combination of the others."""
    dimensions = list(space.dimensions)
    free = [
        place
        for place, one in enumerate(dimensions)
        if one.ordered and not (one.integer and one.high - one.low < 2)
    ]
    choices = [place for place in range(len(dimensions)) if place not in free]
    if not free:
        raise InputError(
            f"--by {by} searches a range, and there is none: give a knob or a slice one"
        )
    if by == "golden" and len(free) > 1:
        names = ", ".join(dimensions[place].name for place in free)
        raise InputError(f"golden section searches one range, not {len(free)}: {names}")
    combinations = list(
        product(*(range(int(dimensions[p].low), int(dimensions[p].high) + 1) for p in choices))
    )
    share = executions // len(combinations)
    inner = Space([dimensions[place] for place in free])
    found: list[Search] = []
    for combination in combinations:
        rest = np.array([one.low for one in dimensions], dtype=np.float64)
        rest[choices] = combination
        found.append(Pinned(_ordered(by, inner, share), space, free, rest))
    return found


def _ordered(by: By, space: Space, executions: int) -> Search:
    try:
        if by == "rsm":
            return ResponseSurface(space, evaluations=executions)
        (dimension,) = space.dimensions
        length = dimension.high - dimension.low
        affordable = length * (1 - RHO) ** max(1, executions - 1)
        least = 1.0 if dimension.integer else 0.0
        return GoldenSection(space, tolerance=max(least, _TOLERANCE * length, affordable))
    except ValueError as error:
        raise InputError(f"--by {by}: {error}") from None
