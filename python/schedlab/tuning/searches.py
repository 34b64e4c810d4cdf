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

By = Literal["pso", "golden", "rsm", "random", "tpe", "cmaes"]
BY: tuple[str, ...] = get_args(By)

DRAWS_NOTHING = ("golden", "rsm")
"""Searches without randomness: more seeds find nothing else."""

_TOLERANCE = 1e-3
"""Golden section ends at this share of the range, where the budget allows."""

_PARTICLES = 20
_BATCH = 10


def searches(by: By, space: Space, *, seed: int, executions: int, real: bool) -> list[Search]:
    """Return the searches that share a budget of executions.

    Golden section and response surfaces order what they search: one is made for each combination
    of choices. The others take choices as they come.

    Args:
        by: the search.
        space: where.
        seed: of what it draws.
        executions: positions to try, over all searches.
        real: whether runs are measured: batches are smaller then, for a race to tell more often.

    Raises:
        InputError: a space that the search cannot search, or a budget that is too small.
    """
    if executions < 2:
        raise InputError(f"executions is {executions}; allowed: at least 2")
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
    sampler: Literal["tpe", "cmaes"] = "cmaes" if by == "cmaes" else "tpe"
    return [OptunaSearch(space, sampler, evaluations=executions, batch=batch, seed=seed)]


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
