"""The searches that are compared, each on a kernel that answers run by run."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from math import exp

import numpy as np

from schedlab.experiment.group_sequential import Protocol
from schedlab.experiment.sequential_experiment import Arm, Question, settle
from schedlab.experiment.settings import Setting
from schedlab.experiment.stats import Verdict
from schedlab.search import ParticleSwarm, RandomSearch, Search
from schedlab.search.optuna_search import OptunaSearch
from schedlab.tuning import racing
from schedlab.tuning.parameters import Parameters
from schedlab.tuning.racing import Standing
from schedlab.tuning.surrogate import Surrogate
from tuning_benchmark.replayed import Asked

DIRECT = ("random", "tpe", "cmaes", "pso")
"""Searches that take each run for what it says."""

REPEATS = "best of 5"
"""The usual rule: five repeats, kept if better by two standard deviations."""

OURS = "screen and race"
"""Real runs that begin with a simulated ranking, then a race."""

NAMES = (*DIRECT, REPEATS, OURS)

_TIMES = 5
_DEVIATIONS = 2.0

AS_USED = 60
"""Runs after which a direct search is asked for its winner where nothing says when it is there: the
real settings that ``schedlab tune`` tries by default."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A winner that a search would name now.

    Attributes:
        setting: its number; 0 is the present one.
        certified: whether its rule accepts it as better.
    """

    setting: int
    certified: bool


def direct(
    name: str, kernel: Asked, parameters: Parameters, numbers: Mapping[Setting, int], *,
    seed: int, limit: int,
) -> Iterator[Offer]:  # fmt: skip
    """Search with single runs, and name the setting with the least mean after each.

    Args:
        name: one of `DIRECT`.
        kernel: what is asked for runs.
        parameters: the space.
        numbers: of the settings that can be run.
        seed: of the search.
        limit: runs at the most.
    """
    search = _search(name, parameters, seed, limit)
    sums: dict[int, tuple[float, int]] = {}
    while not search.finished and kernel.runs < limit:
        positions = search.ask()
        values = []
        for position in positions:
            one = numbers.get(parameters.setting(position))
            if one is None:  # it cannot be run, which takes a run to find out
                kernel.runs += 1
                values.append(np.inf)
                continue
            cost = kernel.run(one)
            before = sums.get(one, (0.0, 0))
            sums[one] = (before[0] + cost, before[1] + 1)
            values.append(cost)
            yield Offer(min(sums, key=lambda key: sums[key][0] / sums[key][1]), certified=False)
        search.tell(np.exp(np.array(values)))


def _search(name: str, parameters: Parameters, seed: int, limit: int) -> Search:
    space = parameters.space
    if name == "random":
        return RandomSearch(space, evaluations=limit, batch=1, rng=seed)
    if name == "pso":
        return ParticleSwarm(space, particles=8, iterations=limit // 8, rng=seed)
    if name == "tpe":
        return OptunaSearch(space, "tpe", evaluations=limit, batch=1, seed=seed)
    size = 4 + int(3 * np.log(len(space.dimensions)))
    return OptunaSearch(space, "cmaes", evaluations=limit, batch=size, seed=seed)


def repeated(kernel: Asked, settings: int, *, seed: int, limit: int) -> Iterator[Offer]:
    """Try settings in a random order, five runs each, and keep what is better by two deviations.

    Args:
        kernel: what is asked for runs.
        settings: how many, the present one among them.
        seed: of the order.
        limit: runs at the most.
    """
    order = 1 + np.random.default_rng([seed, 5]).permutation(settings - 1)
    kept, best = 0, [kernel.run(0) for _ in range(_TIMES)]
    for one in order.tolist():
        if kernel.runs + _TIMES > limit:
            return
        tried = [kernel.run(one) for _ in range(_TIMES)]
        if np.mean(tried) < np.mean(best) - _DEVIATIONS * np.std(best, ddof=1):
            kept, best = one, tried
        yield Offer(kept, certified=kept != 0)


def certify(kernel: Asked, setting: int, protocol: Protocol, *, seed: int) -> bool:
    """Return whether fresh pairs certify a setting as better than the present one."""
    return _compared(kernel, [setting], protocol, seed)[setting].certified


def explored(
    kernel: Asked, model: Surrogate[int], *, limit: int, difference: float
) -> Iterator[Offer]:
    """Run what a model asks for, and name its leader after each run.

    Args:
        kernel: what is asked for runs.
        model: of the settings.
        limit: runs at the most.
        difference: expected loss at which it ends.
    """
    for leader in racing.explored(model, kernel.run, limit, difference):
        yield Offer(leader, certified=False)


def raced(
    kernel: Asked, model: Surrogate[int], *, seed: int, error: float = 0.05
) -> Iterator[Offer]:
    """Explore and race settings, and name the winner after each heat.

    Args:
        kernel: what is asked for runs.
        model: of the settings.
        seed: of the blocks' orders.
        error: of the whole race.
    """
    heats = count(1)

    def compare(heat: Sequence[int], protocol: Protocol) -> Mapping[int, Standing]:
        return _compared(kernel, heat, protocol, seed * 1000 + next(heats))

    for one in racing.course(model, kernel.run, compare, error=error):
        yield Offer(one.winner or 0, certified=one.winner is not None)


def _compared(
    kernel: Asked, settings: Sequence[int], protocol: Protocol, seed: int
) -> dict[int, Standing]:
    """Compare settings with the present one in blocks, as every comparison is made."""

    def arm(one: int) -> Arm:
        return lambda _block, _place: {"cost": exp(kernel.run(one))}

    settled = settle(
        {str(one): arm(one) for one in (0, *settings)},
        [Question("0", str(one), "cost") for one in settings],
        protocol,
        seed=seed,
    )
    found = {}
    for answer in settled.answers:
        judged = answer.judged
        found[int(answer.question.treatment)] = Standing(
            certified=judged.verdict is Verdict.BETTER,
            decided=judged.decided,
            worth=None if judged.ratio is None else judged.ratio.value,
            pairs=answer.blocks,
        )
    return found
