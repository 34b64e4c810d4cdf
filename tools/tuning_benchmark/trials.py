"""Every search on every table with every seed: how many real runs, and how many false winners."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from schedlab.experiment.settings import Setting
from schedlab.search.space import FloatArray
from schedlab.tuning import racing
from schedlab.tuning.surrogate import Surrogate, likeness
from tuning_benchmark.contenders import (
    AS_USED,
    DIRECT,
    NAMES,
    OURS,
    REPEATS,
    Offer,
    certify,
    direct,
    explored,
    raced,
    repeated,
)
from tuning_benchmark.register import Grid, Register
from tuning_benchmark.replayed import Asked, Behaviour, Kernel
from tuning_benchmark.table import Table

_PATIENCE = 10
"""Runs of a search after which a winner that was not certified is tried again."""

CERTIFICATE = racing.protocol(1, 0.05, 0.01, racing.BUDGET)
"""How a winner is certified that its search does not certify itself."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A search with one seed on one table.

    Attributes:
        first: real runs until it has a certified winner within tolerance of the best, if one who
            knows the table says when to ask for it; None where that is beyond the limit.
        used: the same where nothing says so: a direct search is asked for its winner after each
            `AS_USED` runs, a race and a list end by themselves; None beyond the limit, or for
            another winner.
        whole: real runs when it ends by itself, or with its first certified winner.
        accepted: whether it has a winner then.
        right: whether that one is really better than the present setting.
        gain: what it really gains; 0 where there is no winner.
    """

    first: int | None
    used: int | None
    whole: int
    accepted: bool
    right: bool
    gain: float


@dataclass(frozen=True, slots=True)
class Ground:
    """What trials run on.

    Attributes:
        behaviour: of the kernel.
        register: what was written down.
        grid: what is searched.
        numbers: of the settings.
        simulated: the mean logarithm of each candidate's simulated cost.
        alike: how much settings are alike, the present one first.
        kernel: returns what a trial with a seed asks for runs.
    """

    behaviour: Behaviour
    register: Register
    grid: Grid
    numbers: Mapping[Setting, int]
    simulated: FloatArray
    alike: FloatArray
    kernel: Callable[[int], Asked]

    def good(self, setting: int) -> bool:
        """Return whether a setting is better than the present one, and as good as the best."""
        mean = float(self.behaviour.means[setting])
        tolerance = float(np.log1p(self.register.protocol.within))
        return mean < 0 and mean <= self.behaviour.best + tolerance

    def trial(self, name: str, seed: int) -> Trial:
        """Run a search once."""
        limit = self.register.protocol.limit
        kernel = self.kernel(seed)
        first = None
        if name != REPEATS and self.behaviour.best < 0:
            first = self._observed(name, seed)
        if name in DIRECT:
            found, at_first = self.as_used(name, seed)
            return self._result(first, found, *at_first)
        if name == REPEATS:
            offers = repeated(kernel, len(self.behaviour.means), seed=seed, limit=limit)
        else:
            offers = raced(kernel, self.model(seed), seed=seed)
        last = Offer(0, certified=False)
        for last in offers:
            if name == REPEATS and first is None and last.certified and self.good(last.setting):
                first = kernel.runs
        ended = kernel.runs
        used = ended if last.certified and self.good(last.setting) else None
        return self._result(first, used, ended, last.setting if last.certified else 0)

    def model(self, seed: int) -> Surrogate[int]:
        """Return what is known of the settings before any real run."""
        candidates = range(1, len(self.simulated) + 1)
        return Surrogate(0, candidates, self.simulated, self.alike, seed=seed)

    def _observed(self, name: str, seed: int) -> int | None:
        """Return the runs of a search that an observer tells when to ask for its winner."""
        kernel, limit = self.kernel(seed), self.register.protocol.limit
        again = 0
        offers = (
            explored(kernel, self.model(seed), limit=limit, difference=0)
            if name == OURS
            else direct(name, kernel, self.grid.parameters, self.numbers, seed=seed, limit=limit)
        )
        for one in offers:
            if self.good(one.setting) and kernel.runs >= again:
                if certify(kernel, one.setting, CERTIFICATE, seed=seed * 1000 + kernel.runs):
                    return kernel.runs if kernel.runs <= limit else None
                again = kernel.runs + _PATIENCE
            if kernel.runs >= limit:
                break
        return None

    def as_used(self, name: str, seed: int) -> tuple[int | None, tuple[int, int]]:
        """Return the runs of a direct search whose winner is asked for every `AS_USED` runs.

        Returns:
            Until a certified winner is as good as the best; and until the first certified winner,
            with that one.
        """
        kernel, limit = self.kernel(seed), self.register.protocol.limit
        first: tuple[int, int] | None = None
        offers = direct(name, kernel, self.grid.parameters, self.numbers, seed=seed, limit=limit)
        for number, one in enumerate(offers, start=1):
            if number % AS_USED or one.setting == 0:
                continue
            if certify(kernel, one.setting, CERTIFICATE, seed=seed * 1000 + number):
                first = first or (kernel.runs, one.setting)
                if self.good(one.setting):
                    return kernel.runs, first
        return None, first or (kernel.runs, 0)

    def _result(self, first: int | None, used: int | None, ended: int, winner: int) -> Trial:
        mean = float(self.behaviour.means[winner])
        return Trial(first, used, ended, winner != 0, mean < 0, 1 - float(np.exp(mean)))


def contest(
    register: Register, table: Table, *, control: bool, drifting: bool, names: Sequence[str] = NAMES
) -> dict[str, list[Trial]]:
    """Run searches with every seed on a table, and return their trials by name.

    Args:
        register: what was written down.
        table: the table, with all settings in all blocks.
        control: whether all settings are the present one.
        drifting: whether the stated drift is injected.
        names: of the searches.
    """
    found = Behaviour.of(table)
    behaviour = found.same() if control else found
    drift = register.drift if drifting else None
    ground = ground_of(register, table, behaviour, lambda seed: Kernel(behaviour, seed, drift))
    seeds = range(register.protocol.seeds)
    return {name: [ground.trial(name, seed) for seed in seeds] for name in names}


def numbers_of(table: Table) -> dict[Setting, int]:
    """Return the number of each setting that can be run, as `Behaviour` has them."""
    able = [place for place in range(len(table.settings)) if place not in table.failures]
    return {table.settings[place]: number for number, place in enumerate(able)}


def simulated_of(table: Table) -> FloatArray:
    """Return the mean logarithm of each candidate's simulated cost.

    One that comes to no end there is taken to be as bad as the worst one.
    """
    places = [table.settings.index(one) for one in numbers_of(table)][1:]
    means = np.array(table.simulated).T[places].mean(axis=1)
    finite = np.isfinite(means)
    return np.asarray(np.where(finite, means, means[finite].max(initial=0.0)))


def ground_of(
    register: Register, table: Table, behaviour: Behaviour, kernel: Callable[[int], Asked]
) -> Ground:
    """Return what trials on a table run on.

    Args:
        register: what was written down.
        table: the table.
        behaviour: by which settings are judged.
        kernel: returns what a trial with a seed asks for runs.
    """
    numbers, grid = numbers_of(table), register.places[table.place]
    simulated = simulated_of(table)
    alike = likeness(grid.parameters, list(numbers))
    return Ground(behaviour, register, grid, numbers, simulated, alike, kernel)
