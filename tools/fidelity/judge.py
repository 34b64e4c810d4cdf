"""Each line held against what its replay found.

Every rule is a bound: a number that the replay gives, and the range it has to lie in. A number of
which there is no data lies in no range, so that nothing passes by being empty; a known divergence
is a range that begins above zero, so that it fails when it grows and when it disappears.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from scipy.special import betaincinv

from fidelity.register import Goal, Kind, Line, Register, Tolerance

Report = Mapping[str, Any]
"""What ``schedlab replay --json`` says of a recording."""

Key = tuple[str, str, str]
"""Scenario, release and level."""

Measure = Literal[
    "differing",
    "unverifiable",
    "error",
    "disagreeing",
    "resynchronisations",
    "compared",
    "mean error",
    "largest error",
    "equal beyond the naive rule's",
]

_IN_STATE = ("error", "disagreeing", "mean error", "largest error")
_COUNTED: dict[str, Callable[[Mapping[str, int]], int]] = {
    "compared": lambda part: part["compared"],
    # No share of right predictions is above 1.
    "equal beyond the naive rule's": lambda part: max(
        part["equal"] - part["naive_equal"], int(part["equal"] == part["compared"])
    ),
}
_KEYS = {"mean error": "mean_error", "largest error": "max_error", "error": "max_error_ns"}


BALANCING = frozenset({"newidle", "balance", "push"})
"""Decisions of load balancing."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A number and where it has to lie.

    Attributes:
        measure: which number.
        subject: of which kind of decision or which state.
        low: the least that is allowed.
        high: the most.
    """

    measure: Measure
    subject: str
    low: float
    high: float

    def value(self, report: Report) -> float | None:
        """Return the number, None where nothing was compared."""
        if self.measure == "resynchronisations":
            return float(report["resynchronisations"])
        if self.measure == "unverifiable":
            return _unverifiable(report)
        part = report["state" if self.measure in _IN_STATE else "decisions"].get(self.subject, {})
        compared = int(part.get("compared", 0))
        if compared == 0:
            return None
        if self.measure in _KEYS:
            return float(part[_KEYS[self.measure]])
        if self.measure in _COUNTED:
            return float(_COUNTED[self.measure](part))
        return (compared - int(part["equal"])) / compared

    def failure(self, report: Report) -> str | None:
        """Return what is wrong, None if nothing is."""
        value = self.value(report)
        if value is None:
            return f"{self.subject}: nothing was compared"
        if self.low <= value <= self.high:
            return None
        unit = {
            "error": " ns",
            "compared": "",
            "resynchronisations": "",
            "equal beyond the naive rule's": "",
        }.get(self.measure)
        if unit is None:
            return (
                f"{self.subject}: {value:.3%} {self.measure}, allowed {self.low:.3%} to "
                f"{self.high:.3%}"
            )
        allowed = f"at least {self.low:g}" if math.isinf(self.high) else f"at most {self.high:g}"
        return f"{self.subject} {self.measure}: {value:g}{unit}, allowed {allowed}{unit}"


@dataclass(frozen=True, slots=True)
class Finding:
    """What became of a line or a goal.

    Attributes:
        what: the line or goal.
        report: the replay's numbers, None where there is no recording.
        failures: what is wrong; empty if it holds.
    """

    what: Line | Goal
    report: Report | None
    failures: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether it is as was written down."""
        return not self.failures

    @property
    def diverges(self) -> bool:
        """Whether it is a line about a known divergence, which is no agreement."""
        return isinstance(self.what, Line) and self.what.verdict != "agrees"


@dataclass(frozen=True, slots=True)
class Judgement:
    """What became of all of them."""

    lines: tuple[Finding, ...]
    goals: tuple[Finding, ...]

    @property
    def holds(self) -> bool:
        """Whether every line and goal does."""
        return all(finding.holds for finding in (*self.lines, *self.goals))


def bounds_of_line(line: Line, tolerance: Tolerance) -> tuple[Bound, ...]:
    """Return every bound of a line."""
    return (*_decisions(line, tolerance), *_whole(tolerance))


def bounds_of_goal(goal: Goal, tolerance: Tolerance) -> tuple[Bound, ...]:
    """Return every bound of a goal."""
    counted = [Bound("compared", kind, least, math.inf) for kind, least in goal.least.items()]
    differing = [Bound("differing", kind, 0, _differing(tolerance, kind)) for kind in goal.least]
    beyond = [bound for bound in _above_naive(tolerance) if bound.subject in goal.least]
    return (*counted, *differing, *beyond, *_whole(tolerance))


def _decisions(line: Line, tolerance: Tolerance) -> Iterator[Bound]:
    for kind in line.kinds:
        low, high = line.sizes.get(kind, (0.0, _differing(tolerance, kind)))
        yield Bound("differing", kind, low, high)
    yield from _above_naive(tolerance)


def _above_naive(tolerance: Tolerance) -> Iterator[Bound]:
    for kind in tolerance.above_naive:
        yield Bound("equal beyond the naive rule's", kind, 1, math.inf)


def _differing(tolerance: Tolerance, kind: Kind) -> float:
    return tolerance.differing_of.get(kind, tolerance.differing)


def _whole(tolerance: Tolerance) -> Iterator[Bound]:
    for state, most in tolerance.errors_ns.items():
        yield Bound("error", state, 0, most)
    for state, share in tolerance.disagreeing.items():
        yield Bound("disagreeing", state, 0, share)
    for state, (mean, largest) in tolerance.errors.items():
        yield Bound("mean error", state, 0, mean)
        yield Bound("largest error", state, 0, largest)
    yield Bound("unverifiable", "decisions", 0, tolerance.unverifiable)
    yield Bound("resynchronisations", "our state:", 0, tolerance.resynchronisations)


def _unverifiable(report: Report) -> float | None:
    """Return the share of all decisions that the recording leaves open.

    Balancing does not count: what it looks at changes under its eyes, and chance may keep it from
    looking, so that much of it is open. How much stands beside its own decisions.
    """
    scores = [score for kind, score in report["decisions"].items() if kind not in BALANCING]
    left_open = sum(int(score.get("unverifiable", 0)) for score in scores)
    every = left_open + sum(int(score.get("compared", 0)) for score in scores)
    return left_open / every if every else None


def judge(
    register: Register, reports: Mapping[Key, Report], reasons: Mapping[Key, str] | None = None
) -> Judgement:
    """Hold every line and goal against the replays.

    Args:
        register: what was written down.
        reports: what was found, by scenario, release and level.
        reasons: why some reports are missing.
    """
    lines = []
    for line in register.lines:
        key = (line.scenario, line.release, line.level)
        report = reports.get(key)
        bounds = bounds_of_line(line, register.tolerances[line.tolerance])
        reason = (reasons or {}).get(key, "it was not recorded")
        lines.append(_find(line, report, bounds, reason))
    goals = []
    for goal in register.goals:
        parts = [reports.get((name, goal.release, goal.level)) for name in goal.scenarios]
        there = [part for part in parts if part is not None]
        bounds = bounds_of_goal(goal, register.tolerances[goal.tolerance])
        whole = add_up(there) if len(there) == len(parts) else None
        goals.append(_find(goal, whole, bounds, "not all of its scenarios were recorded"))
    return Judgement(tuple(lines), tuple(goals))


def _find(
    what: Line | Goal, report: Report | None, bounds: Sequence[Bound], reason: str
) -> Finding:
    if report is None:
        return Finding(what, None, (reason,))
    failures = [failure for bound in bounds if (failure := bound.failure(report)) is not None]
    # What is empty is told once.
    return Finding(what, report, tuple(dict.fromkeys(failures)))


def add_up(reports: Sequence[Report]) -> Report:
    """Return several replays' numbers as one's: counts added, largest errors and mean ones."""
    total: dict[str, Any] = {"decisions": {}, "state": {}, "resynchronisations": 0}
    for report in reports:
        total["resynchronisations"] += report["resynchronisations"]
        for part in ("decisions", "state"):
            for name, numbers in report[part].items():
                whole = total[part].setdefault(name, dict.fromkeys(numbers, 0))
                counted = whole["compared"] + numbers["compared"]
                for key, number in numbers.items():
                    if key == "mean_error":
                        sums = whole[key] * whole["compared"] + number * numbers["compared"]
                        whole[key] = sums / counted if counted else 0.0
                for key, number in numbers.items():
                    if key in ("max_error_ns", "max_error"):
                        whole[key] = max(whole[key], number)
                    elif key != "mean_error":
                        whole[key] += number
    return total


def upper_bound(differing: int, compared: int, confidence: float = 0.95) -> float:
    """Return the share of differing decisions that is not exceeded with so much confidence.

    One-sided, after Clopper and Pearson (Biometrika 26:404, 1934).

    >>> f"{upper_bound(0, 20_000):.5%}"  # 1 - 0.05 ** (1 / 20000)
    '0.01498%'
    """
    if differing >= compared:
        return 1.0
    return float(betaincinv(differing + 1, compared - differing, confidence))
