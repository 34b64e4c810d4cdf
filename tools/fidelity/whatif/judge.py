"""Each line held against what was really done and what was predicted of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from fidelity.tolerance import Allowed
from fidelity.whatif.collect import Collected, Pair
from fidelity.whatif.noise import Noise
from fidelity.whatif.register import Line, Metric, Register
from schedlab.measure.similarity import Figure, likeness


@dataclass(frozen=True, slots=True)
class Finding:
    """What became of a line.

    Attributes:
        line: the line.
        figure: both numbers and how far they are apart; None where there is no data.
        allowed: how far apart they may be.
        failure: what is wrong; empty if the line holds.
    """

    line: Line
    figure: Figure | None
    allowed: Allowed
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
    """Hold every line against what there is of its place.

    Args:
        register: what was written down.
        collected: what there is, by place.
        noise: the A/A intervals.
    """
    findings = []
    for line in register.lines:
        there = collected.get(line.place, "nothing was recorded")
        pair: Pair | str = "nothing was recorded"
        if isinstance(there, str):
            pair = there
        else:
            pair = there.pairs.get((line.workload, line.change), pair)
        known = noise.get((line.place, line.workload, line.change), {})
        findings.append(find(line, pair, known.get(line.metric, 0.0)))
    return findings


def find(line: Line, pair: Pair | str, noise: float) -> Finding:
    """Hold a line against a pair, or against why there is none.

    Args:
        line: the line.
        pair: what was really done and what was predicted.
        noise: the kernel's own A/A interval, which is the tolerance where it is more than stated.
    """
    allowed = Allowed.by(line.size, line.limit, noise)
    if isinstance(pair, str):
        return Finding(line, None, allowed, pair)
    figures = likeness(pair.real, pair.predicted).figures
    figure = next(figure for figure in figures if figure.name == line.metric)
    failure = allowed.failure(figure.difference, partial(shown, line.metric))
    return Finding(line, figure, allowed, failure)


def shown(metric: Metric, value: float) -> str:
    """Say how far something is apart: shares in percentage points, all others in per cent."""
    return f"{value:.2f} points" if metric == "shares" else f"{100 * value:.1f} %"
