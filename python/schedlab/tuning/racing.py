"""A race: single runs find the likely best, and heats against the present setting decide.

*Exploration* runs candidates one by one on the real kernel. Which one, says a model that begins
with a simulated ranking and learns how far the kernel follows it (`schedlab.tuning.surrogate`). It
ends when its leader is expected to cost at most `DIFFERENCE` more than the best, or with its
budget.

A *heat* compares the leader with the present setting as any other comparison does
(`schedlab.experiment.sequential_experiment`): both run in interleaved blocks, a setting leaves as
soon as its verdict is settled, and the heat ends when all are, or with its budget. A heat that
certifies a setting ends the race. After one that does not, the model learns its ratios,
exploration goes on where there is something left to learn, and the next heat has more candidates.

The heats share the error probability evenly (Boole's inequality) and the settings, metrics and
looks of a heat by its protocol, so that all verdicts of a race are right together with probability
``1 - error``. Runs of the exploration choose what enters a heat, and none of them counts in it: a
winner is certified by fresh runs, however the model erred.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from schedlab.experiment.group_sequential import LOOKS, Protocol
from schedlab.tuning.surrogate import Surrogate

HEATS = (1, 2, 4)
"""Candidates of each heat at the most.

The leader alone costs two runs a block. More than four would leave each too small a share of the
error probability for the first look to settle anything
(`schedlab.experiment.stats.minimum_pairs`).
"""

BUDGET = 20
"""Blocks of a heat at the most by default."""

EXPLORED = 60
"""Single runs of a race at the most: the real settings that a search tries by default."""

DIFFERENCE = 0.02
"""Ratios up to which settings are equally good in practice (``difference`` in
``validation/prediction.toml``)."""

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Standing:
    """What a heat says of a setting.

    Attributes:
        certified: whether it is certain to be better than the present one.
        decided: whether there is a verdict.
        worth: its ratio to the present setting, below 1 being better; None where there is none.
        pairs: of runs that say so.
    """

    certified: bool
    decided: bool
    worth: float | None
    pairs: int


@dataclass(frozen=True, slots=True)
class Race(Generic[S]):
    """How a race stands.

    Attributes:
        winner: the certified setting with the least worth; None where nothing is certified.
        standings: by setting, of the last heat that it ran in.
        explored: single runs so far.
        agreement: Spearman's correlation of simulated and real costs in them; None where they have
            no order.
    """

    winner: S | None
    standings: Mapping[S, Standing]
    explored: int
    agreement: float | None

    @property
    def settled(self) -> bool:
        """Whether every setting that ran in a heat has a verdict."""
        return all(one.decided for one in self.standings.values())


def explored(
    model: Surrogate[S],
    run: Callable[[S], float | None],
    most: int = EXPLORED,
    difference: float = DIFFERENCE,
) -> Iterator[S]:
    """Run candidates one by one, and yield the leader after each run until there is little to gain.

    Args:
        model: of the candidates; it learns what they cost.
        run: runs a candidate once, and returns the logarithm of its cost; None where it cannot be
            run.
        most: single runs at the most, those that the model knows among them.
        difference: expected loss at which it ends, as a share.

    >>> import numpy as np
    >>> model = Surrogate("now", ["a", "b"], [0.0, 0.1], np.eye(3))
    >>> *_, leader = explored(model, lambda one: {"a": 0.5, "b": 0.1}[one])
    >>> leader
    'b'
    """
    while model.left and model.runs < most:
        one = model.next()
        cost = run(one)
        if cost is None:
            model.leave_out(one)
            continue
        model.run(one, cost)
        yield model.order()[0]
        if model.loss() < math.log1p(difference):
            return


def course(
    model: Surrogate[S],
    run: Callable[[S], float | None],
    compare: Callable[[Sequence[S], Protocol], Mapping[S, Standing]],
    *,
    error: float = 0.05,
    band: float = 0.01,
    budget: int = BUDGET,
    most: int = EXPLORED,
) -> Iterator[Race[S]]:
    """Race candidates against the present setting, and yield how the race stands after each heat.

    Args:
        model: of the candidates, with their simulated costs as its prior.
        run: see `explored`.
        compare: compares settings with the present one in fresh blocks by a protocol.
        error: probability with which any verdict is wrong at the most.
        band: half-width of what counts as the same.
        budget: blocks of a heat at the most.
        most: single runs at the most.

    Raises:
        ValueError: a number out of range.

    >>> import numpy as np
    >>> model = Surrogate("now", ["slow", "fast"], [0.0, 0.1], np.eye(3))
    >>> cost = {"slow": 0.2, "fast": -0.1}
    >>> heat = lambda names, protocol: {
    ...     one: Standing(cost[one] < 0, True, 1 + cost[one], 12) for one in names
    ... }
    >>> [race.winner for race in course(model, cost.get, heat)]
    ['fast']
    """
    standings: dict[S, Standing] = {}
    for size in HEATS:
        for _ in explored(model, run, most):
            pass
        heat = model.order()[:size]
        if not heat:
            return
        found = compare(heat, protocol(len(HEATS), error, band, budget))
        standings |= found
        for one, standing in found.items():
            if standing.worth is not None:
                model.ratio(one, math.log(standing.worth), standing.pairs)
            if standing.decided or standing.worth is None:
                model.leave_out(one)
        better = {one: of.worth for one, of in found.items() if of.certified and of.worth}
        winner = min(better, key=better.__getitem__, default=None)
        yield Race(winner, dict(standings), model.runs, model.agreement())
        if winner is not None:
            return


def protocol(count: int, error: float, band: float, budget: int) -> Protocol:
    """Return how each heat of a race is judged.

    Args:
        count: heats of the race.
        error: of the whole race.
        band: half-width of what counts as the same.
        budget: blocks at the most.

    Raises:
        ValueError: a number out of range.

    >>> protocol(4, 0.05, 0.01, 32).looks, protocol(4, 0.05, 0.01, 32).confidence
    ((12, 20, 32), 0.9875)
    """
    if not 0 < error < 1:
        raise ValueError(f"error is {error}: a number between 0 and 1 is needed")
    looks = (*(look for look in LOOKS if look < budget), budget)
    return Protocol(looks, band, 1 - error / max(1, count))
