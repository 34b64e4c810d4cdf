"""Each ranking held against the real one."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fidelity.observation import FloatArray, Observation
from fidelity.prediction.collect import Collected
from fidelity.prediction.ranking import agreement
from fidelity.prediction.register import Line, Measure, Register, Rules

RESAMPLES = 1_000
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Finding:
    """What became of a line.

    Attributes:
        line: the line.
        settings: the settings' names.
        real: their real medians.
        simulated: their simulated ones.
        noise: how far the medians of two sets of real runs of one setting are apart, as a part.
        effect: how far the real settings are apart, as a part.
        correlation: Spearman's, where the real settings differ; None elsewhere. Settings that
            differ by no more than the noise, or what no user would choose by, share a rank.
        interval: its bootstrap interval.
        plain: Spearman's if chance ranks those too.
        own: that of the kernel with itself: of the first half of its runs with the second.
        holds_untied: whether the line held if chance ranked those too.
        unranked: settings under which there is nothing to measure.
        chosen: the setting that is best in simulation.
        rank: its real rank, 1 for the best, settings within the noise of it not counted.
        failure: what is wrong; empty if the line holds.
    """

    line: Line
    settings: tuple[str, ...] = ()
    real: tuple[float, ...] = ()
    simulated: tuple[float, ...] = ()
    noise: float = math.nan
    effect: float = math.nan
    correlation: float | None = None
    interval: tuple[float, float] | None = None
    plain: float = math.nan
    own: float = math.nan
    holds_untied: bool = False
    unranked: tuple[str, ...] = ()
    chosen: str = ""
    rank: int = 0
    failure: str = ""

    @property
    def holds(self) -> bool:
        """Whether it is as was written down."""
        return not self.failure

    @property
    def diverges(self) -> bool:
        """Whether the line is about a known divergence, which is no agreement."""
        return self.line.correlation is not None


def judge(register: Register, collected: Mapping[str, Collected | str]) -> list[Finding]:
    """Hold every line against the runs of its place."""
    findings = []
    for line in register.lines:
        there = collected.get(line.place, "nothing was run")
        if isinstance(there, str):
            findings.append(Finding(line, failure=there))
            continue
        everything = [setting.name for setting in register.settings(line.place)]
        names = [name for name in everything if _happens(line, there, name)]
        unranked = tuple(name for name in everything if name not in names)
        tables = [
            _table(line.measure, [runs.get((line.workload, name), []) for name in names])
            for runs in (there.real, there.simulated)
        ]
        real, ours = tables
        if real is None or ours is None or real.shape[1] < register.repeats(line.place):
            failure = "runs are missing, or have no such data"
            findings.append(Finding(line, unranked=unranked, failure=failure))
        else:
            found = find(line, register.rules, names, real, ours)
            findings.append(replace(found, unranked=unranked))
    return findings


def find(
    line: Line, rules: Rules, names: Sequence[str], real: FloatArray, simulated: FloatArray
) -> Finding:
    """Hold a line against its runs.

    Args:
        line: the line.
        rules: when a ranking agrees.
        names: of the settings.
        real: a row of real runs for each setting.
        simulated: a row of simulated ones.
    """
    middle, ours = np.median(real, axis=1), np.median(simulated, axis=1)
    if (middle <= 0).any() or (ours <= 0).any():
        return Finding(line, failure="nothing was measured in some setting")
    noise = _noise(real)
    least = max(noise, rules.difference)
    effect = _spread(middle)
    correlation = interval = None
    plain = agreement(middle, ours, 0.0)
    low, high = line.correlation or (rules.correlation, 1.0)
    failures, of_rank = [], 0
    if effect > least:
        correlation = agreement(middle, ours, least)
        interval = _interval(real, simulated, least)
        if not low <= correlation <= high:
            failures.append(f"rank correlation {correlation:.2f}, allowed {low:.2f} to {high:.2f}")
            of_rank = 1
    elif _spread(ours) > least:
        failures.append(
            f"simulated settings differ by {_spread(ours):.1%}, real ones by {effect:.1%}"
        )
    best = int(np.argmin(ours))
    # A setting that is not worse by more than the noise is as good.
    rank = 1 + int((middle < middle[best] / (1 + least)).sum())
    allowed = math.ceil(rules.best * len(names))
    if rank > allowed and line.correlation is None:
        failures.append(f"'{names[best]}' is best in simulation and really {rank}, not {allowed}")
    return Finding(
        line=line,
        settings=tuple(names),
        real=tuple(middle.tolist()),
        simulated=tuple(ours.tolist()),
        noise=noise,
        effect=effect,
        correlation=correlation,
        interval=interval,
        plain=plain,
        holds_untied=len(failures) == of_rank and (effect <= least or low <= plain <= high),
        own=_own(real),
        chosen=names[best],
        rank=rank,
        failure="; ".join(failures),
    )


def _own(real: FloatArray) -> float:
    """Return how the first half of each setting's runs ranks them as the second half does."""
    half = real.shape[1] // 2
    first, second = real[:, :half], real[:, half:]
    return agreement(np.median(first, axis=1), np.median(second, axis=1), 0.0)


def _happens(line: Line, there: Collected, setting: str) -> bool:
    """Whether there is anything to measure under a setting, really or in simulation.

    Where no task sleeps none is woken, and none waits: under SCHED_FIFO the first that
    computes has the CPU to the end. Some may have slept once before that, to begin together. Such
    a setting has no rank: one in which no run has more sleeps than tasks.
    """
    if line.measure != "p99":
        return True
    runs = (*there.real.get((line.workload, setting), ()),)
    runs += (*there.simulated.get((line.workload, setting), ()),)
    return not runs or any(run.values.get("voluntary", 0.0) > len(run.shares) for run in runs)


def _table(measure: Measure, rows: Sequence[Sequence[Observation]]) -> FloatArray | None:
    """Return a row of runs for each setting; None where a run has no data."""
    found = [[_value(measure, run) for run in row] for row in rows]
    counts = {len(row) for row in found}
    if len(counts) != 1 or counts == {0} or any(math.isnan(x) for row in found for x in row):
        return None
    return np.array(found)


def _value(measure: Measure, run: Observation) -> float:
    if measure == "switches":
        parts = (run.values.get("voluntary"), run.values.get("involuntary"))
        # A run without any switch is no better by a factor than one with two.
        return math.nan if None in parts else sum(part or 0.0 for part in parts) + 1.0
    # A simulated task that preempts waits for nothing, where a real one waits for microseconds.
    value = run.values.get(measure, math.nan)
    return max(value, 1_000.0) if measure == "p99" else value


def _spread(medians: FloatArray) -> float:
    """Return how far the greatest is above the least, as a part of it."""
    return float(medians.max() / medians.min() - 1)


def _noise(real: FloatArray) -> float:
    """Return how far the medians of two sets of one setting's runs are apart, 95 times in 100."""
    generator = np.random.default_rng(0)
    settings, repeats = real.shape
    apart = []
    for row in real:
        draws = generator.integers(repeats, size=(2, RESAMPLES // settings + 20, repeats))
        one, other = np.median(row[draws], axis=2)
        apart.append(np.abs(one / other - 1))
    return float(np.quantile(np.concatenate(apart), CONFIDENCE))


def _interval(real: FloatArray, simulated: FloatArray, least: float) -> tuple[float, float]:
    """Return the interval of the rank correlation over settings drawn anew, and runs of each."""
    generator = np.random.default_rng(0)
    settings, repeats = real.shape
    found = []
    for _ in range(RESAMPLES):
        rows = generator.integers(settings, size=settings)
        draw = generator.integers(repeats, size=(settings, repeats))
        theirs = np.median(np.take_along_axis(real[rows], draw, axis=1), axis=1)
        if np.ptp(theirs) > 0:
            found.append(agreement(theirs, np.median(simulated[rows], axis=1), least))
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(found, [tail, 1 - tail])
    return float(low), float(high)
