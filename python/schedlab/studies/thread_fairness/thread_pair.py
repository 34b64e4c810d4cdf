"""A program of one thread beside one of m, and the ways in which a target comes to a rule."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from schedlab.boundary.errors import InputError
from schedlab.experiment import stats
from schedlab.experiment.subjects import Conditions, Described, Measured, Metric
from schedlab.model import Workload
from schedlab.model.outcome import Outcome
from schedlab.studies.thread_fairness import greedy
from schedlab.targets import ext, group_weights
from schedlab.targets.target import Target
from schedlab.targets.virtual import Virtual


def pair(threads: int, work_ns: int, together: str = "") -> Workload:
    """Return A, one thread, beside B, which divides the same work among its threads.

    Args:
        threads: of B.
        work_ns: CPU time of each program.
        together: whether A and B are told apart by groups or sessions: ``group``, ``session``, or
            nothing.
    """
    own: Callable[[str], dict[str, Any]] = lambda name: {together: f"/{name}"} if together else {}  # noqa: E731
    groups = {"/A": {"weight": 100}, "/B": {"weight": 100}} if together == "group" else None
    return greedy.workload(
        f"pi beside {threads} threads",
        [
            greedy.process("A", 1, work_ns, **own("A")),
            greedy.process("B", threads, work_ns // threads, **own("B")),
        ],
        groups,
    )


def completion(outcome: Outcome) -> dict[str, float]:
    """Return the seconds that A and B took, B until its last thread had ended."""
    return _ends((task.name, task.life_ns) for task in outcome.tasks)


def _ends(lives: Iterable[tuple[str, int]]) -> dict[str, float]:
    """Return when each program's last thread ends; a thread's name begins with its program's."""
    found = {"A": 0, "B": 0}
    for name, life in lives:
        found[name[0]] = max(found[name[0]], life)
    return {program: life / 1e9 for program, life in found.items()}


@dataclass(frozen=True, slots=True)
class Pair(Described):
    """The two programs as something that is measured."""

    metrics: tuple[Metric, ...] = (Metric("A", "s", "lower"), Metric("B", "s", "lower"))
    controlled: str = ""
    """The rule by which a controller sets weights of control groups meanwhile, in a guest."""

    def definition(self) -> Mapping[str, Any]:
        """Return the workload, and the rule if there is one."""
        rule = {"controlled": self.controlled} if self.controlled else {}
        return {**Described.definition(self), **rule}

    def measure(self, target: Target, under: Conditions) -> Measured:
        """Run them once."""
        # An explicit call: the data class with slots is not the class that super() would mean.
        if not self.controlled:
            measured = Described.measure(self, target, under)
        else:
            if not isinstance(target, Virtual):
                raise InputError("weights of control groups are controlled in guests alone")
            outcome = target.run(
                self.workload,
                **under.for_workload(),
                around=group_weights.around(self.controlled, target.cpus),
            )
            measured = Measured({}, json.loads(json.dumps(asdict(outcome))))
        tasks = measured.outcome["tasks"]
        return Measured(_ends((task["name"], task["life_ns"]) for task in tasks), measured.outcome)


@dataclass(frozen=True, slots=True)
class Way:
    """How a target comes to a rule that its kernel has not.

    Attributes:
        settings: of the run.
        controlled: the rule of the controller of control groups' weights, where it is one.
    """

    settings: Mapping[str, str]
    controlled: str = ""


def means(target: str) -> str:
    """Return what gives a target weights by threads: sched_ext if it has that, else groups.

    >>> means("vm:6.1@icount")
    'cgroup weights'
    """
    takes = target.startswith("vm:7.2") if target != "host" else _ext_here()
    if takes and ext.built() is not None:
        return "sched_ext"
    return "" if target == "host" else "cgroup weights"


def ways(target: str, rules: Mapping[str, str]) -> dict[str, Way]:
    """Return the ways to rules, by name, on a target; none where it has no means."""
    by = means(target)
    if by == "sched_ext":
        return {name: Way({"policy": f"ext:{rule}"}) for name, rule in rules.items()}
    return {name: Way({}, rule) for name, rule in rules.items()} if by else {}


def _ext_here() -> bool:
    return ext.built() is not None and ext.status().possible


def ratio(
    runs: Mapping[str, Sequence[Mapping[str, float]]], many: str, one: str, program: str, seed: int
) -> stats.Estimate:
    """Return by what a program's time changes from one arm to another."""
    values = [np.array([value[program] for value in runs[name]]) for name in (one, many)]
    return stats.paired_ratio(*values, rng=seed)
