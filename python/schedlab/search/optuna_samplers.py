"""schedlab's searches as samplers for existing Optuna studies.

The space is given beforehand, as `optuna.samplers.GridSampler` has it, since a swarm or a design
has to know all its dimensions before the first position::

    import optuna
    from optuna.distributions import IntDistribution

    space = {"latency_us": IntDistribution(100, 100_000, log=True)}
    study = optuna.create_study(sampler=ParticleSwarmSampler(space, seed=1))
    study.optimize(objective, n_trials=200)
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.samplers import BaseSampler, RandomSampler
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from schedlab.search.golden import GoldenSection
from schedlab.search.pso import OPTIMIZED, Parameters, ParticleSwarm
from schedlab.search.response_surface import ResponseSurface
from schedlab.search.search import Search
from schedlab.search.space import Dimension, FloatArray, Space


class SearchSampler(BaseSampler):
    """Any search as a sampler.

    A trial that failed or was pruned counts as the worst value. Trials beyond those that the search
    has out (several workers ask at once), and all after its end, are drawn at random; a study ends
    with its search.

    Args:
        search_space: what is suggested, by name.
        make: makes the search in a space of as many dimensions, in this order.
        seed: of random trials.

    Raises:
        ValueError: no parameter, or one that has but a single value.

    >>> import optuna
    >>> from optuna.distributions import FloatDistribution
    >>> sampler = ParticleSwarmSampler({"x": FloatDistribution(-5, 5)}, particles=4, iterations=4)
    >>> optuna.logging.set_verbosity(optuna.logging.WARNING)
    >>> study = optuna.create_study(sampler=sampler)
    >>> study.optimize(lambda trial: trial.suggest_float("x", -5, 5) ** 2)
    >>> len(study.trials)
    20
    """

    def __init__(
        self,
        search_space: Mapping[str, BaseDistribution],
        make: Callable[[Space], Search],
        *,
        seed: int | None = None,
    ) -> None:
        self._distributions = dict(search_space)
        self._search = make(Space([_dimension(*pair) for pair in self._distributions.items()]))
        self._random = RandomSampler(seed)
        self._waiting: list[int] = []
        self._asked: FloatArray = np.empty((0, 0))
        self._values: list[float] = []
        self._owners: dict[int, int] = {}

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """Return the space that was given."""
        del study, trial
        return self._distributions

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return the search's next position; nothing, where it has none to give."""
        del study, search_space
        if not self._waiting and not self._owners and not self._search.finished:
            self._asked = self._search.ask()
            self._values = [math.nan] * len(self._asked)
            self._waiting = list(range(len(self._asked)))
        if not self._waiting:
            return {}
        place = self._waiting.pop(0)
        self._owners[trial.number] = place
        return {
            name: _value(distribution, float(number))
            for (name, distribution), number in zip(
                self._distributions.items(), self._asked[place], strict=True
            )
        }

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Draw at random what the search does not give."""
        return self._random.sample_independent(study, trial, param_name, param_distribution)

    def after_trial(
        self,
        study: Study,
        trial: FrozenTrial,
        state: TrialState,
        values: Sequence[float] | None,
    ) -> None:
        """Tell the search once its generation is complete."""
        place = self._owners.pop(trial.number, None)
        if place is None:
            return
        value = math.inf
        if state == TrialState.COMPLETE and values:
            value = values[0] if study.direction == StudyDirection.MINIMIZE else -values[0]
        self._values[place] = value
        if not self._waiting and not self._owners:
            self._search.tell(np.array(self._values))
            if self._search.finished:
                _stop(study)


class ParticleSwarmSampler(SearchSampler):
    """`ParticleSwarm` as a sampler; see `SearchSampler`.

    Args:
        search_space: what is suggested, by name.
        parameters: of the swarm.
        particles: in the swarm.
        iterations: its moves.
        seed: of all that is drawn.
    """

    def __init__(
        self,
        search_space: Mapping[str, BaseDistribution],
        parameters: Parameters = OPTIMIZED,
        *,
        particles: int = 20,
        iterations: int = 30,
        seed: int = 0,
    ) -> None:
        super().__init__(
            search_space,
            lambda space: ParticleSwarm(
                space, parameters, particles=particles, iterations=iterations, rng=seed
            ),
            seed=seed,
        )


class GoldenSectionSampler(SearchSampler):
    """`GoldenSection` as a sampler, of one parameter; see `SearchSampler`.

    Args:
        search_space: what is suggested, by name.
        tolerance: share of the range at which it ends.
        seed: of random trials.
    """

    def __init__(
        self,
        search_space: Mapping[str, BaseDistribution],
        *,
        tolerance: float = 1e-3,
        seed: int = 0,
    ) -> None:
        def make(space: Space) -> Search:
            length = float(space.high[0] - space.low[0])
            least = 1.0 if space.dimensions[0].integer else 0.0
            return GoldenSection(space, tolerance=max(least, tolerance * length))

        super().__init__(search_space, make, seed=seed)


class ResponseSurfaceSampler(SearchSampler):
    """`ResponseSurface` as a sampler; see `SearchSampler`.

    Args:
        search_space: what is suggested, by name.
        evaluations: trials at the most.
        seed: of random trials.
    """

    def __init__(
        self,
        search_space: Mapping[str, BaseDistribution],
        *,
        evaluations: int = 60,
        seed: int = 0,
    ) -> None:
        super().__init__(
            search_space, lambda space: ResponseSurface(space, evaluations=evaluations), seed=seed
        )


def _dimension(name: str, distribution: BaseDistribution) -> Dimension:
    """Return a parameter as a dimension: its logarithm where it is one of ratios."""
    match distribution:
        case CategoricalDistribution():
            return Dimension(name, 0, len(distribution.choices) - 1, integer=True, ordered=False)
        case FloatDistribution() | IntDistribution() if distribution.log:
            return Dimension(name, math.log(distribution.low), math.log(distribution.high))
        case IntDistribution():
            steps = (distribution.high - distribution.low) // distribution.step
            return Dimension(name, 0, steps, integer=True)
        case FloatDistribution():
            return Dimension(name, distribution.low, distribution.high)
        case _:
            raise ValueError(f"parameter {name!r}: {distribution} is no range and no choice")


def _value(distribution: BaseDistribution, number: float) -> Any:
    """Return the value that a coordinate stands for."""
    if isinstance(distribution, CategoricalDistribution):
        return distribution.choices[round(number)]
    if isinstance(distribution, IntDistribution):
        if distribution.log:
            return min(distribution.high, max(distribution.low, round(math.exp(number))))
        return distribution.low + round(number) * distribution.step
    assert isinstance(distribution, FloatDistribution)
    if distribution.log:
        return min(distribution.high, max(distribution.low, math.exp(number)))
    if distribution.step is None:
        return number
    steps = round((number - distribution.low) / distribution.step)
    return min(distribution.high, distribution.low + steps * distribution.step)


def _stop(study: Study) -> None:
    """End a running `optimize`; with ask and tell there is nothing to end."""
    try:
        study.stop()
    except RuntimeError:
        return
