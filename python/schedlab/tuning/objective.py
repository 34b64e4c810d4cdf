"""What a setting is worth: the geometric mean, over all cases, of its ratio to what is set now.

A simulated setting is worth what it says, once or over several seeds. What is measured scatters,
and repeats are spent where they matter. Each generation is run once, in interleaved blocks together
with the best setting so far (the incumbent), so that the machine's drift cancels; that screens
out what is clearly no better. Those few that look better then duel with the incumbent in fresh
blocks, by the protocol of every comparison (`schedlab.experiment.sequential_experiment`): a setting
takes the incumbent's place only with a verdict *better*, and what a duel measured replaces the
lucky first look.
"""

import math
from collections.abc import Sequence
from statistics import fmean

import numpy as np

from schedlab.boundary.errors import InputError, RunError
from schedlab.experiment import sequential_experiment
from schedlab.experiment.group_sequential import Protocol
from schedlab.experiment.sequential_experiment import Question, Values
from schedlab.experiment.settings import Setting
from schedlab.experiment.stats import Verdict
from schedlab.tuning.runs import Case, Runs

DEFAULT = Setting({})
"""The present setting."""

_CONTENDERS = 2
"""Settings of a generation that may duel with the incumbent."""

_LOOKS = (8, 16, 30)
"""Blocks after which a duel is looked at."""

_CONFIDENCE = 0.9
"""Of a duel. A wrong one costs the search a detour; what it ends with is certified afresh."""


class Batched:
    """Simulated settings.

    Args:
        cases: what is tuned for.
        runs: makes the runs.
        repeats: seeds over which a setting's worth is taken.
    """

    def __init__(self, cases: Sequence[Case], runs: Runs, *, repeats: int = 1) -> None:
        self._cases = cases
        self._runs = runs
        self._repeats = repeats
        self._worth: dict[Setting, float] = {}
        self._default = self._costs([DEFAULT])[0]

    def worth(self, settings: Sequence[Setting]) -> list[float]:
        """Return each setting's ratio to the default, the less the better; infinite if it fails."""
        new = [one for one in dict.fromkeys(settings) if one not in self._worth]
        allowed = [one for one in new if _allowed(one, self._runs)]
        for one in new:
            self._worth[one] = math.inf
        for one, costs in zip(allowed, self._costs(allowed), strict=True):
            self._worth[one] = math.exp(fmean(np.subtract(costs, self._default)))
        return [self._worth[one] for one in settings]

    @property
    def incumbent(self) -> Setting:
        """The best setting so far; the default wins ties."""
        best = min(self._worth, key=lambda one: self._worth[one], default=DEFAULT)
        return best if self._worth.get(best, 1.0) < 1.0 else DEFAULT

    @property
    def effect(self) -> float:
        """The incumbent's ratio to the default."""
        return self._worth.get(self.incumbent, 1.0)

    def runner_up(self) -> Setting | None:
        """Return the best setting that is not the default, however bad."""
        return _best_of(self._worth)

    def _costs(self, settings: Sequence[Setting]) -> list[list[float]]:
        """Return the costs of each setting, one a case and repeat."""
        if not settings:
            return []
        columns = []
        for case in self._cases:
            for number in range(self._repeats):
                values = self._runs.batch(case, settings, number)
                columns.append([case.cost(value) for value in values])
        return [list(row) for row in zip(*columns, strict=True)]


class Raced:
    """Measured settings.

    Args:
        cases: what is tuned for.
        runs: makes the runs.
        repeats: blocks in which a generation is screened.
        band: half-width of what counts as the same.
        seed: of the orders of blocks.
    """

    def __init__(
        self,
        cases: Sequence[Case],
        runs: Runs,
        *,
        repeats: int = 1,
        band: float = 0.01,
        seed: int = 1,
    ) -> None:
        self._cases = cases
        self._runs = runs
        self._repeats = repeats
        self._band = band
        self._seed = seed
        self._race = 0
        self._worth: dict[Setting, float] = {}
        self._incumbent = DEFAULT
        self._incumbent_log = 0.0
        self.duels = 0

    @property
    def incumbent(self) -> Setting:
        """The best setting so far, the default until one beat it."""
        return self._incumbent

    @property
    def effect(self) -> float:
        """The incumbent's ratio to the default."""
        return math.exp(self._incumbent_log)

    def runner_up(self) -> Setting | None:
        """Return the setting that looked best and is not the default, however bad."""
        return _best_of(self._worth)

    def worth(self, settings: Sequence[Setting]) -> list[float]:
        """Return each setting's ratio to the default, less being better; infinite where it fails.

        Raises:
            RunError: the incumbent cannot be run.
        """
        new = [one for one in dict.fromkeys(settings) if one not in self._worth]
        for one in new:
            self._worth[one] = 1.0 if one == DEFAULT else math.inf
        entrants = [
            one
            for one in new
            if one not in (DEFAULT, self._incumbent) and _allowed(one, self._runs)
        ]
        if entrants:
            self._race += 1
            self._screen(entrants)
            looking_better = sorted(
                (one for one in entrants if self._worth[one] < math.exp(self._incumbent_log)),
                key=lambda one: self._worth[one],
            )
            if looking_better:
                self._duel(looking_better[:_CONTENDERS])
        return [self._worth[one] for one in settings]

    def _screen(self, entrants: list[Setting]) -> None:
        """Run entrants and incumbent in a block or a few, and note what each looks worth."""
        everyone = [self._incumbent, *entrants]
        logs: dict[Setting, list[float]] = {one: [] for one in everyone}
        for block in range(self._repeats):
            order = np.random.default_rng([self._seed, self._race, block])
            for index in order.permutation(len(everyone)):
                one = everyone[index]
                try:
                    logs[one].append(self._cost(one))
                except RunError:
                    if one == self._incumbent:
                        raise
                    logs[one].append(math.inf)
        base = fmean(logs[self._incumbent])
        for one in entrants:
            ratio = fmean(logs[one]) - base + self._incumbent_log
            self._worth[one] = math.exp(ratio)

    def _duel(self, contenders: list[Setting]) -> None:
        """Compare contenders with the incumbent in fresh blocks; the best that wins replaces it."""
        self.duels += 1
        names = {str(one): one for one in (self._incumbent, *contenders)}
        settled = sequential_experiment.settle(
            {name: self._arm(one) for name, one in names.items()},
            [Question(str(self._incumbent), str(one), "cost") for one in contenders],
            Protocol(_LOOKS, self._band, _CONFIDENCE),
            seed=self._seed + self._race,
        )
        before, found = self._incumbent_log, []
        for answer in settled.answers:
            one, ratio = names[answer.question.treatment], answer.judged.ratio
            if str(one) in settled.failures or ratio is None:
                self._worth[one] = math.inf
                continue
            self._worth[one] = math.exp(before + math.log(ratio.value))
            if answer.judged.verdict is Verdict.BETTER:
                found.append((ratio.value, one))
        if found:
            ratio_of_best, self._incumbent = min(found, key=lambda pair: pair[0])
            self._incumbent_log = before + math.log(ratio_of_best)

    def _arm(self, setting: Setting) -> sequential_experiment.Arm:
        def execute(block: int, place: int) -> Values:
            del block, place
            return {"cost": math.exp(self._cost(setting))}

        return execute

    def _cost(self, setting: Setting) -> float:
        """Run every case once, in a random order, and return the mean cost."""
        order = np.random.default_rng([self._seed, self._runs.done]).permutation(len(self._cases))
        costs = []
        for index in order:
            case = self._cases[index]
            costs.append(case.cost(self._runs.one(case, setting)))
        return fmean(costs)


def _allowed(setting: Setting, runs: Runs) -> bool:
    """Whether the target takes a combination of values that it takes one by one."""
    try:
        setting.check(runs.target)
    except InputError:
        return False
    return True


def _best_of(worth: dict[Setting, float]) -> Setting | None:
    tried = {one: value for one, value in worth.items() if one != DEFAULT}
    if not tried:
        return None
    best = min(tried, key=lambda one: tried[one])
    return best if math.isfinite(tried[best]) else None
