"""How alike two runs of the same tasks are: shares, switches and wake-up latencies."""

import math
from dataclasses import dataclass

from schedlab.inference import Behaviour

__all__ = ["LIMITS", "Figure", "Likeness", "likeness"]


@dataclass(frozen=True, slots=True)
class Figure:
    """One thing that is compared.

    Attributes:
        name: ``shares``, ``switches`` or ``p99 latency``.
        subject: which task, for shares the one that is furthest off.
        real: in the recording; a share, a number, or nanoseconds.
        simulated: in the simulation.
        difference: for shares in points of 100; otherwise a part of what is real. None where there
            is nothing to compare.
        limit: how much may differ.
    """

    name: str
    subject: str
    real: float
    simulated: float
    difference: float | None
    limit: float

    @property
    def holds(self) -> bool:
        """Whether it is within its limit; what is empty is not."""
        return self.difference is not None and self.difference <= self.limit


@dataclass(frozen=True, slots=True)
class Likeness:
    """All of them."""

    figures: tuple[Figure, ...]

    @property
    def holds(self) -> bool:
        """Whether all do."""
        return all(figure.holds for figure in self.figures)


LIMITS = {"shares": 2.0, "switches": 0.15, "p99 latency": 0.30}
"""Shares within 2 points, switches within 15 %, the 99th percentile of latencies within 30 %."""


def likeness(real: Behaviour, simulated: Behaviour) -> Likeness:
    """Compare a recording with a simulation of the workload that was inferred from it.

    A task's share is its part of one CPU's time. Tasks are known by their names.
    """
    shares = {
        name: (real.share(name), simulated.share(name))
        for name in dict.fromkeys([*real.tasks, *simulated.tasks])
    }
    figures = []
    if shares and real.elapsed_ns and simulated.elapsed_ns:
        worst = max(shares, key=lambda name: abs(shares[name][0] - shares[name][1]))
        one, other = shares[worst]
        figures.append(
            Figure("shares", worst, one, other, 100 * abs(one - other), LIMITS["shares"])
        )
    else:
        figures.append(Figure("shares", "", 0, 0, None, LIMITS["shares"]))
    for name, one, other, there in (
        ("switches", real.switches, simulated.switches, real.switches),
        ("p99 latency", real.latency.p99_ns, simulated.latency.p99_ns, real.latency.count),
    ):
        difference = _apart(one, other) if there else None
        figures.append(Figure(name, "all tasks", one, other, difference, LIMITS[name]))
    return Likeness(tuple(figures))


def _apart(real: float, simulated: float) -> float:
    """Return the difference as a part of what is real."""
    if real == simulated:
        return 0.0
    return abs(simulated - real) / real if real else math.inf
