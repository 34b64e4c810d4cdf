"""What a setting is worth: the geometric mean, over all aims, of its ratio to what is set now.

Each aim is such a mean over its workloads. A setting that breaks a floor is worth nothing: its
ratio is infinite, as that of a setting that cannot be run.

A simulated setting is worth what it says, once or over several seeds. What is measured scatters,
and repeats are spent where they matter. Each generation is run once, in interleaved blocks together
with the best setting so far (the incumbent), so that the machine's drift cancels; that screens
out what is clearly no better. Those few that look better then duel with the incumbent in fresh
blocks, by the protocol of every comparison (`schedlab.experiment.sequential_experiment`): a setting
takes the incumbent's place only with a verdict *better*, and what a duel measured replaces the
lucky first look.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

import numpy as np

from schedlab.boundary.errors import InputError, RunError
from schedlab.experiment import sequential_experiment
from schedlab.experiment.group_sequential import Protocol
from schedlab.experiment.sequential_experiment import Question, Settled, UnanswerableError, Values
from schedlab.experiment.settings import Setting
from schedlab.experiment.stats import Verdict
from schedlab.search.pareto import front
from schedlab.search.space import FloatArray
from schedlab.tuning.aims import Aims, Part
from schedlab.tuning.runs import Case, Runs

DEFAULT = Setting({})
"""The present setting."""

_CONTENDERS = 2
"""Settings of a generation that may duel with the incumbent."""

_LOOKS = (8, 16, 30)
"""Blocks after which a duel is looked at."""

_CONFIDENCE = 0.9
"""Of a duel. A wrong one costs the search a detour; what it ends with is certified afresh."""

_WORTH = "worth"
"""What a duel is about: the geometric mean over all aims."""


class Looks:
    """What is known of the settings that were tried.

    Args:
        aims: what they are judged by.
    """

    def __init__(self, aims: Aims) -> None:
        self.aims = aims
        self.of: dict[Setting, FloatArray] = {}
        self._worth: dict[Setting, float] = {}

    def put(self, setting: Setting, logs: FloatArray | None = None) -> None:
        """Note the logarithms of a setting's ratios, a part each; None of what cannot be run."""
        failed = np.full(len(self.aims.parts), math.inf)
        self.of[setting] = failed if logs is None else logs
        able = logs is not None and self.aims.kept(logs)
        self._worth[setting] = math.exp(
            fmean(self.aims.means(self.of[setting])) if able else math.inf
        )

    def worth(self, setting: Setting) -> float:
        """Return a setting's worth, less being better; infinite where it breaks a floor."""
        return self._worth[setting]

    def best(self) -> Setting:
        """Return the setting with the least worth; the default wins ties."""
        best = min(self._worth, key=lambda one: self._worth[one], default=DEFAULT)
        return best if self._worth.get(best, 1.0) < 1.0 else DEFAULT

    def row(self, setting: Setting) -> list[float]:
        """Return a setting's worth, then that of each aim, then its excess beyond each floor.

        The default is what settings are measured against, tried or not.
        """
        logs = self.of.get(setting, np.zeros(len(self.aims.parts)))
        aims, excesses = np.exp(self.aims.means(logs)), self.aims.excesses(logs)
        return [self._worth.get(setting, 1.0), *aims.tolist(), *excesses.tolist()]

    def runner_up(self) -> Setting | None:
        """Return the best setting that is not the default, however bad; None where none can be."""
        tried = {one: worth for one, worth in self._worth.items() if one != DEFAULT}
        best = min(tried, key=lambda one: tried[one], default=None)
        return best if best is not None and math.isfinite(tried[best]) else None

    def front(self) -> list[Setting]:
        """Return the settings, the default among them, that none of the others dominates."""
        known = {DEFAULT: np.zeros(len(self.aims.parts))} | self.of
        able = [one for one in known if math.isfinite(self._worth.get(one, 1.0))]
        return [able[place] for place in front([self.aims.means(known[one]) for one in able])]


class Batched:
    """Simulated settings.

    Args:
        cases: what is tuned for.
        aims: what settings are judged by.
        runs: makes the runs.
        repeats: seeds over which a setting's worth is taken.
    """

    def __init__(self, cases: Sequence[Case], aims: Aims, runs: Runs, *, repeats: int = 1) -> None:
        self._cases = cases
        self._runs = runs
        self._repeats = repeats
        self.looks = Looks(aims)
        self._default = self._costs([DEFAULT])[0]

    def rows(self, settings: Sequence[Setting]) -> list[list[float]]:
        """Return each setting's row, see `Looks.row`."""
        new = [one for one in dict.fromkeys(settings) if one not in self.looks.of]
        allowed = [one for one in new if _allowed(one, self._runs)]
        for one in new:
            self.looks.put(one)
        for one, costs in zip(allowed, self._costs(allowed), strict=True):
            self.looks.put(one, (costs - self._default).mean(axis=0))
        return [self.looks.row(one) for one in settings]

    def worths(self, setting: Setting) -> FloatArray:
        """Return the logarithm of a setting's worth in each repeat; infinite if it breaks a floor.

        Raises:
            RunError: it comes to no end.
        """
        aims = self.looks.aims
        if not _allowed(setting, self._runs):
            return np.full(self._repeats, math.inf)
        logs = self._default if setting == DEFAULT else self._costs([setting])[0]
        logs = logs - self._default
        if not aims.kept(logs.mean(axis=0)):
            return np.full(self._repeats, math.inf)
        return np.array([fmean(aims.means(row)) for row in logs])

    @property
    def incumbent(self) -> Setting:
        """The best setting so far; the default wins ties."""
        return self.looks.best()

    @property
    def effect(self) -> float:
        """The incumbent's ratio to the default."""
        best = self.incumbent
        return self.looks.worth(best) if best in self.looks.of else 1.0

    def _costs(self, settings: Sequence[Setting]) -> list[FloatArray]:
        """Return the costs of each setting, a row a repeat, a column a part."""
        if not settings:
            return []
        rows: list[list[FloatArray]] = [[] for _ in settings]
        for number in range(self._repeats):
            found: list[dict[Part, float]] = [{} for _ in settings]
            for case in self._cases:
                values = self._runs.batch(case, settings, number)
                for place, one in enumerate(values):
                    found[place] |= _parts(case, one)
            for place, costs in enumerate(found):
                rows[place].append(np.array([costs[part] for part in self.looks.aims.parts]))
        return [np.array(one) for one in rows]


class Raced:
    """Measured settings.

    Args:
        cases: what is tuned for.
        aims: what settings are judged by.
        runs: makes the runs.
        repeats: blocks in which a generation is screened.
        band: half-width of what counts as the same.
        seed: of the orders of blocks.

    Attributes:
        duels: comparisons in fresh blocks so far.
        duel_end: runs there are at the most when the last of them is settled.
    """

    def __init__(
        self,
        cases: Sequence[Case],
        aims: Aims,
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
        self.looks = Looks(aims)
        self._incumbent = DEFAULT
        self._incumbent_logs = np.zeros(len(aims.parts))
        self._incumbent_worth = 1.0
        self.duels = 0
        self.duel_end = 0

    @property
    def incumbent(self) -> Setting:
        """The best setting so far, the default until one beat it."""
        return self._incumbent

    @property
    def effect(self) -> float:
        """The incumbent's ratio to the default."""
        return self._incumbent_worth

    def rows(self, settings: Sequence[Setting]) -> list[list[float]]:
        """Return each setting's row, see `Looks.row`.

        Raises:
            RunError: the incumbent cannot be run.
        """
        new = [one for one in dict.fromkeys(settings) if one not in self.looks.of]
        for one in new:
            self.looks.put(one, np.zeros(len(self.looks.aims.parts)) if one == DEFAULT else None)
        entrants = [
            one
            for one in new
            if one not in (DEFAULT, self._incumbent) and _allowed(one, self._runs)
        ]
        if entrants:
            self._race += 1
            self._screen(entrants)
            looking_better = sorted(
                (one for one in entrants if self.looks.worth(one) < self._incumbent_worth),
                key=self.looks.worth,
            )
            if looking_better:
                self._duel(looking_better[:_CONTENDERS])
        return [self.looks.row(one) for one in settings]

    def _screen(self, entrants: list[Setting]) -> None:
        """Run entrants and incumbent in a block or a few, and note what each looks worth."""
        everyone = [self._incumbent, *entrants]
        logs: dict[Setting, list[FloatArray]] = {one: [] for one in everyone}
        failed: set[Setting] = set()
        for block in range(self._repeats):
            order = np.random.default_rng([self._seed, self._race, block])
            for index in order.permutation(len(everyone)):
                one = everyone[index]
                try:
                    logs[one].append(self._costs(one))
                except RunError:
                    if one == self._incumbent:
                        raise
                    failed.add(one)
        base = np.mean(logs[self._incumbent], axis=0)
        for one in entrants:
            if one not in failed:
                self.looks.put(one, np.mean(logs[one], axis=0) - base + self._incumbent_logs)

    def _duel(self, contenders: list[Setting]) -> None:
        """Compare contenders with the incumbent in fresh blocks; the best that wins replaces it."""
        self.duels += 1
        names = {str(one): one for one in (self._incumbent, *contenders)}
        self.duel_end = self._runs.done + len(names) * _LOOKS[-1] * len(self._cases)
        try:
            settled = sequential_experiment.settle(
                {name: self._arm(one) for name, one in names.items()},
                [Question(str(self._incumbent), str(one), _WORTH) for one in contenders],
                Protocol(_LOOKS, self._band, _CONFIDENCE),
                seed=self._seed + self._race,
            )
        except UnanswerableError as stop:
            settled = stop.settled
        if (why := settled.failures.get(str(self._incumbent))) is not None:
            raise RunError(why)
        for name in settled.failures:
            self.looks.put(names[name])
        before, found = self._incumbent_logs, []
        for answer in settled.answers:
            one = names[answer.question.treatment]
            if str(one) in settled.failures:
                continue
            if answer.judged.ratio is None:
                self.looks.put(one)
                continue
            logs = before + self._paired(settled, answer.question)
            self.looks.put(one, logs)
            worth = self.looks.worth(one)
            if answer.judged.verdict is Verdict.BETTER and math.isfinite(worth):
                found.append((worth, one))
        if found:
            self._incumbent_worth, self._incumbent = min(found, key=lambda pair: pair[0])
            self._incumbent_logs = self.looks.of[self._incumbent]

    def _paired(self, settled: Settled, question: Question) -> FloatArray:
        """Return the mean logarithm of the ratio of each part over the blocks of a duel."""
        base, treated = (settled.values[arm] for arm in (question.baseline, question.treatment))
        blocks = [block for block in base if block in treated]
        return np.array(
            [
                fmean(math.log(treated[one][str(part)] / base[one][str(part)]) for one in blocks)
                for part in self.looks.aims.parts
            ]
        )

    def _arm(self, setting: Setting) -> sequential_experiment.Arm:
        def execute(block: int, place: int) -> Values:
            del block, place
            costs = self._costs(setting)
            worth = math.exp(fmean(self.looks.aims.means(costs)))
            parts = zip(self.looks.aims.parts, np.exp(costs), strict=True)
            return {_WORTH: worth} | {str(part): float(value) for part, value in parts}

        return execute

    def _costs(self, setting: Setting) -> FloatArray:
        """Run every case once, in a random order, and return the cost of each part."""
        order = np.random.default_rng([self._seed, self._runs.done]).permutation(len(self._cases))
        costs: dict[Part, float] = {}
        for index in order:
            case = self._cases[index]
            dispensable = setting not in (DEFAULT, self._incumbent)
            costs |= _parts(case, self._runs.one(case, setting, dispensable=dispensable))
        return np.array([costs[part] for part in self.looks.aims.parts])


def _allowed(setting: Setting, runs: Runs) -> bool:
    """Whether the target takes a combination of values that it takes one by one."""
    try:
        setting.check(runs.target)
    except InputError:
        return False
    return True


def _parts(case: Case, values: Mapping[str, float]) -> dict[Part, float]:
    """Return the cost of each part of a run."""
    return {Part(case.name, metric): cost for metric, cost in case.costs(values).items()}
