"""A model of what candidates are worth on a real kernel, with a simulation as its prior.

The logarithm of what a run of candidate i costs is taken to be

    level + weight * simulated_i + deviation_i + drift + noise.

*weight* says how far the kernel follows the simulation: it is normal about 1. *deviation* is where
the kernel does otherwise, a Gaussian process over settings, so that candidates with alike settings
deviate alike; *drift* is one over runs; *noise* is a run's own. How large deviation, drift and
noise are is not known beforehand: models with several sizes of each are averaged, weighed by how
likely they make the runs (C. E. Rasmussen, C. K. I. Williams, "Gaussian Processes for Machine
Learning", MIT Press 2006, chapters 2 and 5). Where the kernel follows the simulation, few runs
find the best; where it does not, deviations take over, and the simulation is one hint among others.

The next run is of the candidate from which most is expected: in draws from the model, the one
whose being best would gain most over the leader. Where the leader itself is less known than that
candidate, the leader runs. The loss that is expected if the leader were taken now says when to stop
(the opportunity cost of P. I. Frazier, W. B. Powell, S. Dayanik, "The knowledge-gradient policy for
correlated normal beliefs", INFORMS Journal on Computing 21:4, 2009).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Generic, TypeVar

import numpy as np

from schedlab.experiment.settings import Setting
from schedlab.search.space import FloatArray
from schedlab.tuning.parameters import Parameters

_WEIGHT_VARIANCE = 0.5
"""Of the weight of the simulation, whose mean is 1."""

_DEVIATIONS = (0.01, 0.03, 0.1, 0.3, 1.0)
"""Standard deviations of the kernel from the simulation, logarithms of ratios."""

_NOISES = (0.003, 0.01, 0.03, 0.1, 0.3, 0.6)
"""Standard deviations of single runs."""

_DRIFTS = (0.0, 0.2)
"""Standard deviations of the drift."""

_USUAL = ((0.1, 1.5), (0.05, 2.0))
"""Deviation and noise that are likely beforehand: medians, and the factors' logarithms."""

_DRIFTING = 1.0
"""By how much less likely a drift is than none beforehand, as a logarithm."""

_MEMORY = 30.0
"""Runs after which a drift has lost the greater part of its correlation."""

_LEVEL_VARIANCE = 4.0
"""Of the level, about the first run."""

_LENGTH = 0.35
"""Share of a range within which settings are alike."""

_MAIN, _JOINT, _OWN = 0.5, 0.35, 0.15
"""Shares of the deviation: of each parameter alone, of all together, of the candidate itself."""

_ROOM = 32
"""Runs for which there is room at first."""

_DRAWS = 64
"""From the model, before each run."""

_LEAST = 1e-3
"""Weight below which a model of the average is left out."""

_JITTER = 1e-9
"""Added to variances, against rounding."""

_RANKED = 4
"""Candidates from which on an order can be compared."""

S = TypeVar("S")


def likeness(parameters: Parameters, settings: Sequence[Setting]) -> FloatArray:
    """Return how much settings are expected to deviate alike: a correlation matrix.

    Values of a range are alike as far as they are near, choices only to themselves. A setting that
    leaves a parameter out, as the present one does, is alike in it to others that do.

    Args:
        parameters: what is searched.
        settings: whose values they are.

    >>> from schedlab.tuning.parameters import Options
    >>> policies = Parameters((Options("policy", ("other", "batch")),))
    >>> settings = [Setting({"policy": "other"}), Setting({"policy": "batch"})]
    >>> likeness(policies, settings).round(2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    alike = []
    for one, dimension in zip(parameters.searched, parameters.space.dimensions, strict=True):
        places = np.array(
            [
                (one.coordinate(setting.values[one.name]) - dimension.low)
                / (dimension.high - dimension.low)
                if one.name in setting.values
                else np.nan
                for setting in settings
            ]
        )
        missing = np.isnan(places)
        apart = np.where(missing, 0.0, places)[:, None] - np.where(missing, 0.0, places)[None, :]
        near = (
            np.exp(-0.5 * (apart / _LENGTH) ** 2)
            if dimension.ordered
            else (apart == 0).astype(float)
        )
        alike.append(np.where(missing[:, None] == missing[None, :], near, 0.0))
    joint = np.prod(alike, axis=0)
    return np.asarray(
        _MAIN * np.mean(alike, axis=0) + _JOINT * joint + _OWN * np.eye(len(settings))
    )


@dataclass(frozen=True, slots=True)
class _Seen:
    """A run of a candidate, or its ratio to the present setting.

    Attributes:
        place: of the candidate.
        cost: a logarithm.
        time: number of the run; None for a ratio, which has neither level nor drift.
        variance: of its noise, in those of a single run.
    """

    place: int
    cost: float
    time: int | None
    variance: float


class _Whitening:
    """What makes growing numbers of runs independent, of variance 1, by their covariances.

    These are the inverses of the covariances' Cholesky factors, one a model. A further run adds a
    row to each, and changes none.

    Args:
        models: how many there are.

    >>> white = _Whitening(1)
    >>> white.add(np.array([[4.0]]))
    >>> white.add(np.array([[2.0, 2.0]]))
    >>> white.inverse.tolist()
    [[[0.5, 0.0], [-0.5, 1.0]]]
    """

    def __init__(self, models: int) -> None:
        self.size = 0
        self._inverse = np.zeros((models, _ROOM, _ROOM))
        self._scales = np.ones((models, _ROOM))

    @property
    def inverse(self) -> FloatArray:
        """Of each model's Cholesky factor; lower triangular."""
        return self._inverse[:, : self.size, : self.size]

    def log_scales(self) -> FloatArray:
        """Return half the logarithm of the determinant of each model's covariances."""
        return np.asarray(np.log(self._scales[:, : self.size]).sum(axis=1))

    def add(self, covariances: FloatArray) -> None:
        """Take in a run.

        Args:
            covariances: with those before and with itself, a row a model.
        """
        size, inverse = self.size, self.inverse
        if size == len(self._inverse[0]):
            self._inverse = np.pad(self._inverse, ((0, 0), (0, size), (0, size)))
            self._scales = np.pad(self._scales, ((0, 0), (0, size)), constant_values=1.0)
        known = inverse @ covariances[:, :size, None]
        scale = np.sqrt(covariances[:, size] - (known[..., 0] ** 2).sum(axis=1))
        self._inverse[:, size, :size] = -(np.swapaxes(known, 1, 2) @ inverse)[:, 0] / scale[:, None]
        self._inverse[:, size, size] = 1.0 / scale
        self._scales[:, size] = scale
        self.size += 1


class Surrogate(Generic[S]):
    """What is known of candidates by a simulation and by real runs so far.

    Args:
        present: the present setting, which is no candidate.
        candidates: the others.
        simulated: the logarithm of each one's simulated cost relative to the present setting.
        alike: see `likeness`, the present setting first.
        seed: of the draws.

    >>> model = Surrogate("now", ["a", "b", "c"], [0.0, -0.1, 0.1], np.eye(4))
    >>> model.next()
    'b'
    >>> for name, cost in (("b", 5.0), ("a", 4.0), ("b", 5.0), ("a", 4.0), ("c", 5.2)):
    ...     model.run(name, cost)
    >>> model.order()[0]
    'a'
    """

    def __init__(
        self,
        present: S,
        candidates: Sequence[S],
        simulated: Sequence[float] | FloatArray,
        alike: FloatArray,
        *,
        seed: int = 1,
    ) -> None:
        self.candidates = list(candidates)
        self._names = [present, *candidates]
        self._places = {one: place for place, one in enumerate(self._names)}
        self._prior = np.array([0.0, *simulated], dtype=np.float64)
        self._alike = alike
        self._seed = seed
        self._seen: list[_Seen] = []
        self._out: set[int] = {0}
        self._draws: FloatArray = np.empty((0, len(self._names)))
        self._means = self._prior
        self._fresh = False
        sizes = np.array(list(product(_DEVIATIONS, _NOISES, _DRIFTS)))
        self._deviations, self._noises, self._drifts = (size[:, None] for size in sizes.T)
        self._white = _Whitening(len(sizes))

    @property
    def runs(self) -> int:
        """Single runs that it knows."""
        return sum(one.time is not None for one in self._seen)

    def run(self, candidate: S, cost: float) -> None:
        """Note a single run of a candidate.

        Args:
            candidate: what ran.
            cost: the logarithm of what it cost, of whatever unit.
        """
        self._seen.append(_Seen(self._places[candidate], cost, self.runs, 1.0))
        self._fresh = False

    def ratio(self, candidate: S, cost: float, pairs: int) -> None:
        """Note what pairs of runs of a candidate and of the present setting came to.

        Args:
            candidate: what ran.
            cost: the logarithm of the ratio.
            pairs: how many.
        """
        self._seen.append(_Seen(self._places[candidate], cost, None, 2.0 / pairs))
        self._fresh = False

    def leave_out(self, candidate: S) -> None:
        """Name no more a candidate that cannot be run, or that has a verdict."""
        self._out.add(self._places[candidate])
        self._fresh = False

    @property
    def left(self) -> int:
        """Candidates that can be named."""
        return len(self._names) - len(self._out)

    def order(self) -> list[S]:
        """Return the candidates that can be named, the one with the least expected cost first."""
        self._update()
        costs = self._means.copy()
        costs[list(self._out)] = np.inf
        ranked = np.argsort(costs, kind="stable")[: self.left]
        return [self._names[place] for place in ranked.tolist()]

    def loss(self) -> float:
        """Return how much the leader is expected to cost more than the best, as a logarithm."""
        leader = self._places[self.order()[0]]
        able = self._able()
        return float((self._draws[:, leader] - self._draws[:, able].min(axis=1)).mean())

    def next(self) -> S:
        """Return the candidate of which a run is expected to tell most."""
        first = self.order()[0]
        if not self._seen:
            return first
        leader, able = self._places[first], self._able()
        best = able[self._draws[:, able].argmin(axis=1)]
        promise = np.zeros(len(self._names))
        rows = np.arange(len(self._draws))
        np.add.at(promise, best, self._draws[:, leader] - self._draws[rows, best])
        rival = int(promise.argmax())
        if promise[rival] <= 0 or self._draws[:, leader].var() > self._draws[:, rival].var():
            rival = leader
        return self._names[rival]

    def agreement(self) -> float | None:
        """Return Spearman's correlation of simulated and real means of what ran.

        None where fewer than four candidates ran, or simulation does not order them.
        """
        costs: dict[int, list[float]] = {}
        for one in self._seen:
            if one.time is not None:
                costs.setdefault(one.place, []).append(one.cost)
        ranked = self._prior[list(costs)]
        if len(costs) < _RANKED or np.ptp(ranked) == 0:
            return None
        from scipy.stats import spearmanr  # noqa: PLC0415 - slow to load, and needed here alone

        return float(spearmanr(ranked, [np.mean(of) for of in costs.values()]).statistic)

    def _able(self) -> FloatArray:
        return np.array([place for place in range(len(self._names)) if place not in self._out])

    def _update(self) -> None:
        """Average the models, and draw from them."""
        if self._fresh:
            return
        random = np.random.default_rng([self._seed, len(self._seen)])
        places = [one.place for one in self._seen]
        times = np.array([np.nan if one.time is None else one.time for one in self._seen])
        single = ~np.isnan(times)
        costs = np.array([one.cost for one in self._seen])
        if single.any():
            costs = np.where(single, costs - costs[single][0], costs)
        # A ratio is the difference of a candidate and the present setting.
        prior = self._prior[places]
        covering = self._alike[:, places] - np.where(single, 0.0, self._alike[:, :1])
        self._take_in(places, times, covering)
        inverse = self._white.inverse
        left = (inverse @ (costs - prior)[:, None])[..., 0]
        likely = -0.5 * (left**2).sum(axis=1) - _DRIFTING * (self._drifts > 0).ravel()
        likely -= self._white.log_scales()
        for sizes, (usual, factor) in zip((self._deviations, self._noises), _USUAL, strict=True):
            likely -= 0.5 * (np.log(sizes.ravel() / usual) / factor) ** 2
        weights = np.exp(likely - likely.max())
        weights[weights < _LEAST * weights.sum()] = 0.0
        weights /= weights.sum()
        self._means = np.zeros(len(self._names))
        draws, of_model = [], random.multinomial(_DRAWS, weights)
        for one in np.flatnonzero(weights):
            scale = float(self._deviations[one, 0]) ** 2
            crossing = _WEIGHT_VARIANCE * np.outer(prior, self._prior) + scale * covering.T
            explained = inverse[one] @ crossing
            means = self._prior + explained.T @ left[one]
            self._means = self._means + weights[one] * means
            if of_model[one]:
                of_all = (
                    _WEIGHT_VARIANCE * np.outer(self._prior, self._prior)
                    + scale * self._alike
                    - explained.T @ explained
                )
                root = np.linalg.cholesky(of_all + _JITTER * np.eye(len(of_all)))
                normal = random.standard_normal((of_model[one], len(means)))
                draws.append(means + normal @ root.T)
        self._draws = np.concatenate(draws)
        self._fresh = True

    def _take_in(self, places: Sequence[int], times: FloatArray, covering: FloatArray) -> None:
        """Take in the runs that came since the last time."""
        known, single, prior = self._white.size, ~np.isnan(times), self._prior[list(places)]
        new = slice(known, None)
        among = covering[places[new]] - np.where(single[new, None], 0.0, covering[:1])
        level = _LEVEL_VARIANCE * np.outer(single[new], single)
        apart = np.abs(times[new, None] - times[None, :])
        drifting = np.where(np.isnan(apart), 0.0, np.exp(-np.nan_to_num(apart) / _MEMORY))
        for run in range(len(places) - known):
            upto = slice(known + run + 1)
            covariances = (
                _WEIGHT_VARIANCE * prior[known + run] * prior[upto]
                + level[run, upto]
                + self._deviations**2 * among[run, upto]
                + self._drifts**2 * drifting[run, upto]
            )
            variance = self._seen[known + run].variance
            covariances[:, -1] += self._noises[:, 0] ** 2 * variance
            self._white.add(covariances)
