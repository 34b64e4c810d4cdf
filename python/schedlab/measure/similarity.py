"""How alike two runs of the same tasks are: shares, switches and wake-up latencies."""

import math
from dataclasses import dataclass

from schedlab.measure.inference import Behaviour
from schedlab.model import short_time

__all__ = ["ENOUGH_WAITS", "LIMITS", "Figure", "Likeness", "likeness"]


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
        caution: why little follows from it, whether it holds or not; empty otherwise.
    """

    name: str
    subject: str
    real: float
    simulated: float
    difference: float | None
    limit: float
    caution: str = ""

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

    @property
    def trusted(self) -> tuple[str, ...]:
        """The names of the figures that hold: what the workload may be asked for."""
        return tuple(figure.name for figure in self.figures if figure.holds)

    @property
    def doubted(self) -> tuple[str, ...]:
        """The names of the figures that do not hold."""
        return tuple(figure.name for figure in self.figures if not figure.holds)


LIMITS = {"shares": 2.0, "switches": 0.15, "p99 latency": 0.30}
"""Shares within 2 points, switches within 15 %, the 99th percentile of latencies within 30 %."""

CHANCE = 0.025
"""The chance, on each side, with which a figure may be off without anything being wrong."""

ENOUGH_WAITS = math.ceil(math.log(CHANCE) / math.log(0.99))
"""Fewer latencies are, with more than that chance, all below the real 99th percentile."""

ENOUGH_SWITCHES = math.ceil((1.96 / LIMITS["switches"]) ** 2)
"""So many independent switches are within their limit of their mean 95 times in 100 (Poisson)."""


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
        caution = _caution(name, real)
        figures.append(Figure(name, "all tasks", one, other, difference, LIMITS[name], caution))
    return Likeness(tuple(figures))


def _apart(real: float, simulated: float) -> float:
    """Return the difference as a part of what is real."""
    if real == simulated:
        return 0.0
    return abs(simulated - real) / real if real else math.inf


def _caution(name: str, real: Behaviour) -> str:
    """Return why little follows from a figure of a recording; nothing where much does."""
    if name == "switches":
        if real.switches >= ENOUGH_SWITCHES:
            return ""
        return (
            f"the recording has {real.switches} switches; chance alone moves fewer than "
            f"{ENOUGH_SWITCHES} by more than {LIMITS['switches']:.0%}"
        )
    count, tail = real.latency.count, real.tail
    if count < ENOUGH_WAITS:
        return f"the recording has {count} wake-ups, and {ENOUGH_WAITS} determine a 99th percentile"
    if tail is not None and 2 * tail.moments <= tail.waits:
        moments = "one moment" if tail.moments == 1 else f"{tail.moments} moments"
        return (
            f"the {tail.waits} waits on which it stands began at {moments}, "
            f"{tail.most} at {short_time(tail.at_ns)}: the order within such a burst decides"
        )
    return ""
