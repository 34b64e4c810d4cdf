"""What the protocol says where the truth is known, beside what is usually done.

Runs are made up: a true effect, noise of a coefficient of variation of 3 % a run, and a machine
that drifts. Each trial is judged twice: by the protocol (pairs in randomised blocks, looks with a
set error rate, `schedlab.experiment.group_sequential`), and by the usual way: all runs of one
setting, then all of the other, and a difference wherever the intervals mean ± 1.96 sigma do not
overlap.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from schedlab.experiment import stats
from schedlab.experiment.group_sequential import Protocol
from schedlab.experiment.stats import FloatArray, Verdict

NOISE = 0.03
"""Standard deviation of a run's logarithm, its coefficient of variation."""

TREND = 0.10
"""Growth of the drifting machine's times over the whole budget, as a logarithm."""

WAVE = 0.05
"""Amplitude of the slow wave on it, as a logarithm."""

PERIOD = 120
"""Runs in which the wave comes round."""

CONSECUTIVE = 20
"""Runs of each setting in the usual way."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A truth.

    Attributes:
        effect: by what factor the treatment changes the time.
        drifts: whether the machine drifts.
    """

    effect: float
    drifts: bool


SCENARIOS = (
    Scenario(1.0, False),
    Scenario(1.0, True),
    Scenario(1.05, False),
    Scenario(1.05, True),
    Scenario(0.95, True),
    Scenario(1.02, True),
)
"""What the table in the documentation shows."""


@dataclass(frozen=True, slots=True)
class Shares:
    """What was said over all trials of a scenario.

    Attributes:
        scenario: the truth.
        trials: made up.
        verdicts: the protocol's, each with its number of trials.
        blocks: blocks it took on average.
        deviations: trials in which consecutive runs differ by mean ± 1.96 standard deviations of
            the runs.
        errors: the same with standard errors of the means.
    """

    scenario: Scenario
    trials: int
    verdicts: dict[Verdict, int]
    blocks: float
    deviations: int
    errors: int

    @property
    def different(self) -> int:
        """Trials in which the protocol claimed a difference."""
        return self.verdicts[Verdict.BETTER] + self.verdicts[Verdict.WORSE]


def simulate(
    scenario: Scenario, *, trials: int = 2000, seed: int = 1, protocol: Protocol | None = None
) -> Shares:
    """Make up trials of a scenario, and judge each both ways.

    Args:
        scenario: the truth.
        trials: how many.
        seed: of all that is made up.
        protocol: the one judged; the default budget otherwise.

    >>> shares = simulate(Scenario(1.2, True), trials=50)
    >>> shares.verdicts[Verdict.WORSE], shares.blocks
    (50, 12.0)
    """
    rules = Protocol() if protocol is None else protocol
    rng = np.random.default_rng(seed)
    logs = _paired(scenario, trials, rules.budget, rng)
    verdicts, blocks = judge_trials(logs, rules)
    deviations, errors = _usual(scenario, trials, rules.budget, rng)
    return Shares(
        scenario=scenario,
        trials=trials,
        verdicts={one: int((verdicts == one.value).sum()) for one in Verdict},
        blocks=float(blocks.mean()),
        deviations=deviations,
        errors=errors,
    )


def judge_trials(
    logs: FloatArray, protocol: Protocol
) -> tuple[NDArray[np.str_], NDArray[np.int64]]:
    """Judge many experiments of one question each.

    `schedlab.experiment.group_sequential.judge_all` judges one so.

    Args:
        logs: log-ratios, a row an experiment, a column a block.
        protocol: its looks are within the columns.

    Returns:
        Each experiment's verdict (of a quantity of which lower is better), and the blocks it took.
    """
    verdicts = np.full(len(logs), Verdict.INCONCLUSIVE.value)
    blocks = np.full(len(logs), protocol.budget)
    rest = np.arange(len(logs))
    for look, alpha in zip(protocol.looks, protocol.alphas, strict=True):
        if not len(rest) or look < stats.minimum_pairs(1 - alpha):
            continue
        ends = np.exp(
            stats.mean_intervals(
                logs[rest, :look], confidence=1 - alpha, resamples=protocol.resamples
            )
        )
        low, high = ends[:, 0], ends[:, 1]
        said = np.full(len(rest), Verdict.INCONCLUSIVE.value)
        said[high < 1] = Verdict.BETTER.value
        said[low > 1] = Verdict.WORSE.value
        same = (low >= 1 / (1 + protocol.band)) & (high <= 1 + protocol.band)
        said[same] = Verdict.SAME.value
        verdicts[rest] = said
        decided = said != Verdict.INCONCLUSIVE.value
        blocks[rest[decided]] = look
        rest = rest[~decided]
    return verdicts, blocks


def markdown(rows: Sequence[Shares]) -> str:
    """Return the table of the documentation."""
    head = (
        "| true effect | machine | better | worse | same | inconclusive | blocks "
        "| ± 1.96 deviations apart | ± 1.96 standard errors apart |\n"
        "|---|---|---|---|---|---|---|---|---|\n"
    )
    lines = []
    for row in rows:
        counts = [row.verdicts[one] for one in Verdict] + [row.deviations, row.errors]
        shares = [f"{count / row.trials:.1%}" for count in counts]
        shares.insert(4, f"{row.blocks:.0f}")
        effect = f"{row.scenario.effect - 1:+.0%}" if row.scenario.effect != 1 else "none"
        machine = "drifts" if row.scenario.drifts else "steady"
        lines.append(f"| {effect} | {machine} | {' | '.join(shares)} |\n")
    return head + "".join(lines)


def _paired(scenario: Scenario, trials: int, blocks: int, rng: np.random.Generator) -> FloatArray:
    """Return log-ratios: two runs a block, in a random order."""
    machine = _machine(scenario, trials, 2 * blocks, 2 * blocks, rng)
    runs = machine + NOISE * rng.standard_normal((trials, 2 * blocks))
    pairs = runs.reshape(trials, blocks, 2)
    first = rng.integers(2, size=(trials, blocks)).astype(bool)
    differences: FloatArray = np.where(first, 1, -1) * (pairs[:, :, 0] - pairs[:, :, 1])
    return differences + float(np.log(scenario.effect))


def _usual(
    scenario: Scenario, trials: int, budget: int, rng: np.random.Generator
) -> tuple[int, int]:
    """Return how many trials differ by intervals of deviations, and of standard errors."""
    machine = _machine(scenario, trials, 2 * CONSECUTIVE, 2 * budget, rng)
    runs = np.exp(machine + NOISE * rng.standard_normal((trials, 2 * CONSECUTIVE)))
    baseline, treatment = runs[:, :CONSECUTIVE], scenario.effect * runs[:, CONSECUTIVE:]
    apart = np.abs(baseline.mean(axis=1) - treatment.mean(axis=1))
    reach = 1.96 * (baseline.std(axis=1, ddof=1) + treatment.std(axis=1, ddof=1))
    errors = reach / np.sqrt(CONSECUTIVE)
    return int((apart > reach).sum()), int((apart > errors).sum())


def _machine(
    scenario: Scenario, trials: int, runs: int, whole: int, rng: np.random.Generator
) -> FloatArray:
    """Return the logarithm of how slow the machine is at each run."""
    if not scenario.drifts:
        return np.zeros((trials, runs))
    time = np.arange(runs)
    phase = rng.random((trials, 1)) * 2 * np.pi
    wave = WAVE * np.sin(2 * np.pi * time / PERIOD + phase)
    return np.asarray(TREND * time / whole + wave, dtype=np.float64)
