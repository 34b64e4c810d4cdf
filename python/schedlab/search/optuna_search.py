"""Optuna's samplers as searches: TPE, CMA-ES, NSGA-II, or any other.

T. Akiba et al., "Optuna: A Next-generation Hyperparameter Optimization Framework", KDD 2019. Trials
live in memory: to keep them, keep the values, since the same seed and the same values
lead to the same positions.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import numpy as np
import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.samplers import BaseSampler, CmaEsSampler, NSGAIISampler, TPESampler
from optuna.trial import FrozenTrial, TrialState

from schedlab.search.generation import GenerationSearch
from schedlab.search.space import FloatArray, Space


def distributions(space: Space) -> dict[str, BaseDistribution]:
    """Return a space as Optuna describes it; choices are categories.

    >>> from schedlab.search import Dimension, Space
    >>> distributions(Space((Dimension("x", 0, 1),)))
    {'x': FloatDistribution(high=1.0, log=False, low=0.0, step=None)}
    """
    found: dict[str, BaseDistribution] = {}
    for one in space.dimensions:
        if not one.integer:
            found[one.name] = FloatDistribution(one.low, one.high)
        elif one.ordered:
            found[one.name] = IntDistribution(int(one.low), int(one.high))
        else:
            found[one.name] = CategoricalDistribution(range(int(one.low), int(one.high) + 1))
    return found


class OptunaSearch(GenerationSearch):
    """A search that asks one of Optuna's samplers.

    Args:
        space: where to search.
        sampler: ``tpe``, ``cmaes``, ``nsga2``, or a sampler.
        evaluations: positions to ask for in all.
        batch: positions a generation.
        seed: of the sampler that is made here.
        aims: numbers to minimise. Of several (``tpe``, ``nsga2``) it takes a row a position; a
            row that is not finite is a position that failed.
        limits: numbers behind them in each row of which a position above 0 is to be avoided.

    Raises:
        ValueError: a number below 1, or a sampler that has one aim.

    >>> from schedlab.search import Dimension, Space, run
    >>> space = Space((Dimension("x", -5, 5), Dimension("y", -5, 5)))
    >>> search = OptunaSearch(space, "cmaes", evaluations=120, batch=6)
    >>> run(search, lambda p: (p**2).sum(axis=1)).minimum < 0.5
    True
    """

    def __init__(
        self,
        space: Space,
        sampler: BaseSampler | Literal["tpe", "cmaes", "nsga2"] = "tpe",
        *,
        evaluations: int = 100,
        batch: int = 5,
        seed: int = 0,
        aims: int = 1,
        limits: int = 0,
    ) -> None:
        super().__init__(space, aims + limits if aims + limits > 1 else None)
        for name, value in (("evaluations", evaluations), ("batch", batch), ("aims", aims)):
            if value < 1:
                raise ValueError(f"{name} is {value}: at least 1 is needed")
        self._left = evaluations
        self._batch = batch
        self._aims = aims
        self._limits = limits
        self._distributions = distributions(space)
        self._trials: list[optuna.Trial] = []
        with _quiet():
            self._study = optuna.create_study(
                sampler=self._made(sampler, seed) if isinstance(sampler, str) else sampler,
                directions=["minimize"] * aims,
            )

    @property
    def finished(self) -> bool:
        """Whether every position has been asked for and told."""
        return self._left == 0

    def _made(self, name: str, seed: int) -> BaseSampler:
        seed %= 2**32
        limited = _limits if self._limits else None
        if name == "tpe":
            return TPESampler(
                seed=seed,
                n_startup_trials=min(10, max(1, self._left // 3)),
                constraints_func=limited,
            )
        if name == "nsga2":
            return NSGAIISampler(
                seed=seed, population_size=max(2, self._batch), constraints_func=limited
            )
        if name == "cmaes" and self._aims + self._limits == 1:
            # It learns from each separate generation.
            return CmaEsSampler(
                seed=seed, popsize=max(3, self._batch), warn_independent_sampling=False
            )
        raise ValueError(
            f"sampler is {name!r}: 'tpe', 'nsga2', a sampler, or for one aim 'cmaes' is needed"
        )

    def _propose(self) -> FloatArray:
        count = min(self._batch, self._left)
        with _quiet():
            self._trials = [self._study.ask(self._distributions) for _ in range(count)]
        return np.array(
            [[float(trial.params[name]) for name in self._space.names] for trial in self._trials]
        )

    def _learn(self, positions: FloatArray, values: FloatArray) -> None:
        with _quiet():
            for trial, value in zip(self._trials, values, strict=True):
                told = np.atleast_1d(value).tolist()
                trial.set_user_attr(_LIMITS, told[self._aims :])
                if len(told) > 1 and not np.isfinite(told).all():
                    self._study.tell(trial, state=TrialState.FAIL)
                else:
                    self._study.tell(trial, told[: self._aims])
        self._left -= len(positions)


_LIMITS = "limits"


def _limits(trial: FrozenTrial) -> list[float]:
    """Return by how much a position is beyond each limit, for a sampler."""
    return list(trial.user_attrs.get(_LIMITS, ()))


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Optuna's remarks on its progress, and on what it tries out, to itself."""
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        optuna.logging.set_verbosity(level)
