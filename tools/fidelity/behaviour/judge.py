"""Each line held against what ran and what was simulated."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from fidelity.behaviour.collect import Collected
from fidelity.behaviour.register import Line, Register
from fidelity.noise import Noise
from fidelity.observation import Metric, Observation, distance, distances, medians
from fidelity.tolerance import Allowed

RESAMPLES = 1_000


@dataclass(frozen=True, slots=True)
class Finding:
    """What became of a line.

    Attributes:
        line: the line.
        value: how far simulated and real medians are apart; None where there is no data.
        interval: that of medians of runs drawn anew, 95 times in 100.
        allowed: how far apart they may be.
        real: the real median of the metric, None for shares and without data.
        simulated: the simulated one.
        failure: what is wrong; empty if the line holds.
    """

    line: Line
    value: float | None
    interval: tuple[float, float] | None
    allowed: Allowed
    real: float | None
    simulated: float | None
    failure: str

    @property
    def holds(self) -> bool:
        """Whether it is as was written down."""
        return not self.failure

    @property
    def diverges(self) -> bool:
        """Whether the line is about a known divergence, which is no agreement."""
        return self.line.size is not None


def judge(
    register: Register, collected: Mapping[str, Collected | str], noise: Noise
) -> list[Finding]:
    """Hold every line against the runs of its place.

    Args:
        register: what was written down.
        collected: the runs by place, or why there are none.
        noise: the kernels' own intervals.
    """
    findings = []
    for line in register.lines:
        there = collected.get(line.place, "nothing was run")
        own = noise.get((line.place, line.workload), {}).get(line.metric, 0.0)
        if isinstance(there, str):
            findings.append(find(line, own, [], [], reason=there))
        else:
            real, simulated = (
                runs.get(line.workload, []) for runs in (there.real, there.simulated)
            )
            short = len(real) < register.protocol.repeats
            reason = f"{len(real)} of {register.protocol.repeats} real runs" if short else ""
            findings.append(find(line, own, real, simulated, reason=reason))
    return findings


def find(
    line: Line,
    noise: float,
    real: Sequence[Observation],
    simulated: Sequence[Observation],
    *,
    reason: str = "",
    draws: int = RESAMPLES,
) -> Finding:
    """Hold a line against its runs.

    Args:
        line: the line.
        noise: the kernel's own interval, which its tolerance is at least.
        real: real runs.
        simulated: simulated runs.
        reason: why there is no data, where that is known already.
        draws: sets of runs that are drawn for the interval.
    """
    allowed = Allowed.by(line.size, line.limit, noise)
    middle, ours = medians(real), medians(simulated)
    value = distance(line.metric, ours, middle)
    return Finding(
        line=line,
        value=value,
        interval=None if value is None else _interval(line.metric, real, simulated, draws),
        allowed=allowed,
        real=middle.values.get(line.metric),
        simulated=ours.values.get(line.metric),
        failure=reason or allowed.failure(value, partial(shown, line.metric)),
    )


def shown(metric: Metric, value: float) -> str:
    """Say how far something is apart: shares in percentage points, all others in per cent."""
    return f"{100 * value:.2f} points" if metric == "share" else f"{100 * value:.1f} %"


def _interval(
    metric: Metric,
    real: Sequence[Observation],
    simulated: Sequence[Observation],
    draws: int,
) -> tuple[float, float] | None:
    found = distances(metric, simulated, real, draws=(draws, 0))
    if found is None:
        return None
    low, high = np.quantile(found, [0.025, 0.975])
    return float(low), float(high)
