"""What would change a wait: the knobs, features and attributes that act on its causes, simulated.

Each change is made alone and simulated over the same seeds and phases as the run without it. What
is predicted is the factor by which the percentile of the waits changes, with its interval.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from schedlab import _core
from schedlab.attribution.waiting import Cause, Waiting
from schedlab.boundary.arguments import check_whole
from schedlab.boundary.errors import InputError
from schedlab.experiment.stats import Estimate, paired_ratio
from schedlab.knobs.table import Knob, table
from schedlab.model import Machine, Scheduler, Workload, format_time

__all__ = [
    "Effect",
    "Remedy",
    "RunLengths",
    "measure",
    "most_hurt",
    "predict",
    "remedies",
    "samples",
]

RUNS = 8
"""Pairs of a seed and a phase of a prediction."""

_LEAST_SHARE = 0.05
"""Causes of less than this part of the waiting time get no change of their own."""

_TURNS = ("protected_slice", "slice_left", "awaiting_tick", "later_deadline", "later_vruntime")
_FAIR = (*_TURNS, "wakeup_granularity", "not_eligible", "buddy", "batch", "wakeup_preemption_off")
_PLACES = ("cpu_selection", "newidle", "balance", "awaiting_balance")


@dataclass(frozen=True, slots=True)
class Remedy:
    """One change of the scheduler or of the workload.

    Attributes:
        name: what is changed, as in ``feature.RUN_TO_PARITY=0``.
        scheduler: the scheduler with it.
        workload: the workload with it.
    """

    name: str
    scheduler: Scheduler
    workload: Workload


@dataclass(frozen=True, slots=True)
class RunLengths:
    """What one simulated run came to, times in nanoseconds.

    Attributes:
        turnaround_ns: what the workload calls its time.
        switches: context switches.
        tasks: by kind of task: ``tasks``, ``run_ns``, ``wait_ns``, ``wakeups``, and of its waits
            (from wake-ups, where it has any) ``percentile_ns`` and ``mean_ns``.
    """

    turnaround_ns: int
    switches: int
    tasks: dict[str, dict[str, int]]


@dataclass(frozen=True, slots=True)
class Effect:
    """What a change is predicted to do.

    Attributes:
        name: what is changed.
        ratio: the factor by which the percentile changes, with its interval.
        turnaround: the factor by which the turnaround changes.
        hurt: the kind of other task whose waiting time grows most; None where none grows.
        hurt_ns: by how much that is, a run.
    """

    name: str
    ratio: Estimate
    turnaround: Estimate
    hurt: str | None
    hurt_ns: int

    @property
    def helps(self) -> bool:
        """Whether the percentile becomes less, by more than chance."""
        return self.ratio.interval.high < 1


def samples(seed: int, runs: int, hz: int) -> list[tuple[int, int]]:
    """Return seeds, and phases spread evenly over a tick by the golden ratio.

    >>> samples(1, 2, 250)
    [(1, 0), (2, 2472135)]
    """
    check_whole(runs, "runs", "2 or more", least=2)
    tick = 1_000_000_000 // hz
    return [(seed + run, int(run * 0.6180339887498949 % 1 * tick)) for run in range(runs)]


def measure(
    workload: Workload,
    scheduler: Scheduler,
    machine: Machine,
    runs: Sequence[tuple[int, int]],
    percentile: float = 99,
) -> list[RunLengths]:
    """Simulate a run for each seed and phase, on all CPUs.

    Raises:
        InputError: the machine or the scheduler cannot be.
        RunError: a run comes to no end.
    """
    text = _core.wait_lengths(workload.json, scheduler.json, machine.json, list(runs), percentile)
    return [
        RunLengths(one["turnaround_ns"], one["switches"], one["tasks"]) for one in json.loads(text)
    ]


def remedies(
    waiting: Waiting,
    workload: Workload,
    scheduler: Scheduler,
    machine: Machine,
    *,
    name: str | None = None,
) -> list[Remedy]:
    """Return the changes that act on the leading causes of the selected task's longest waits.

    Args:
        waiting: what the waits' causes are.
        workload: what ran.
        scheduler: under which it ran.
        machine: on which.
        name: what the workload calls the task, where that is another name than the waits'.
    """
    task = waiting.task
    if task is None:
        return []
    called = task.name if name is None else name
    knobs = {knob.name: knob for knob in table(scheduler.knobs_release, machine.cpus)}
    found: dict[str, Remedy] = {}
    for cause in task.tail:
        if cause.share < _LEAST_SHARE:
            continue
        for change, make in _changes(cause, called, scheduler, knobs):
            if change in found:
                continue
            try:
                changed = make(scheduler, workload)
            except InputError:
                continue  # not on this kernel, or nothing of the workload has the name
            if changed is not None:
                found[change] = Remedy(change, *changed)
    return list(found.values())


def predict(
    remedy_list: Sequence[Remedy],
    task: str,
    workload: Workload,
    scheduler: Scheduler,
    machine: Machine,
    *,
    percentile: float = 99,
    seed: int = 1,
    runs: int = RUNS,
) -> list[Effect]:
    """Simulate each change over seeds and phases, and return their effects, the best first.

    Args:
        remedy_list: the changes.
        task: the kind of task whose percentile counts.
        workload: what ran.
        scheduler: under which.
        machine: on which.
        percentile: of its waits.
        seed: the first of the seeds.
        runs: how many pairs of a seed and a phase.

    Raises:
        InputError: the workload has no such task.
    """
    pairs = samples(seed, runs, scheduler.hz)
    before = measure(workload, scheduler, machine, pairs, percentile)
    if any(task not in run.tasks for run in before):
        raise InputError(f"no task '{task}'; allowed: {', '.join(before[0].tasks)}")
    effects = []
    for remedy in remedy_list:
        try:
            after = measure(remedy.workload, remedy.scheduler, machine, pairs, percentile)
        except InputError:
            continue  # the simulator does not act on it
        effects.append(_effect(remedy.name, task, before, after))
    return sorted(effects, key=lambda effect: effect.ratio.value)


def _effect(
    name: str, task: str, before: Sequence[RunLengths], after: Sequence[RunLengths]
) -> Effect:
    hurt, hurt_ns = most_hurt(before, after, but=task)
    return Effect(
        name=name,
        ratio=_ratio(_percentiles(before, task), _percentiles(after, task)),
        turnaround=_ratio(
            [run.turnaround_ns for run in before], [run.turnaround_ns for run in after]
        ),
        hurt=hurt,
        hurt_ns=hurt_ns,
    )


def most_hurt(
    before: Sequence[RunLengths], after: Sequence[RunLengths], *, but: str | None = None
) -> tuple[str | None, int]:
    """Return the kind of task whose waiting time grows most, and by how many nanoseconds a run.

    Args:
        before: runs without a change.
        after: the same with it.
        but: a kind that does not count.
    """
    grown = {
        kind: _waits(after, kind) - _waits(before, kind) for kind in before[0].tasks if kind != but
    }
    most = max(grown, key=lambda kind: grown[kind], default=None)
    return (most, round(grown[most])) if most is not None and grown[most] >= 1 else (None, 0)


def _waits(runs: Sequence[RunLengths], kind: str) -> float:
    return sum(run.tasks[kind]["wait_ns"] for run in runs if kind in run.tasks) / len(runs)


def _percentiles(runs: Sequence[RunLengths], kind: str) -> list[int]:
    return [run.tasks[kind]["percentile_ns"] for run in runs]


def _ratio(before: Sequence[int], after: Sequence[int]) -> Estimate:
    # A wait of no time at all counts as one of a nanosecond.
    low = [max(1, value) for value in before]
    return paired_ratio(low, [max(1, value) for value in after], resamples=2_000)


Changed = tuple[Scheduler, Workload] | None
Change = tuple[str, Callable[[Scheduler, Workload], Changed]]


SCALES: tuple[tuple[tuple[str, ...], str, float], ...] = (
    (_TURNS, "base_slice", 0.5),
    (_TURNS, "latency", 0.5),
    (_TURNS, "min_granularity", 0.5),
    (("wakeup_granularity", "later_vruntime"), "wakeup_granularity", 0.25),
    (("realtime_above", "realtime_peer"), "rt_runtime", 0.5),
    (("realtime_above", "realtime_peer"), "fair_server_runtime", 2),
    (("fair_server",), "fair_server_runtime", 0.5),
    (_PLACES, "migration_cost", 0),
)
"""Knobs by the causes that they act on, with the factor by which they are changed."""

FEATURES: tuple[tuple[tuple[str, ...], str], ...] = (
    (("protected_slice",), "RUN_TO_PARITY"),
    (("awaiting_tick",), "HRTICK"),
    (("buddy",), "NEXT_BUDDY"),
    (("buddy",), "LAST_BUDDY"),
    (("wakeup_preemption_off",), "WAKEUP_PREEMPTION"),
    (_PLACES, "SIS_UTIL"),
)
"""Features by the causes that they act on; each is switched."""


def _changes(
    cause: Cause, task: str, scheduler: Scheduler, knobs: dict[str, Knob]
) -> Iterator[Change]:
    """Return the changes that act on one cause."""
    kind = cause.cause
    for causes, name, factor in SCALES:
        if kind in causes:
            yield from _scaled(name, factor, scheduler, knobs)
    for causes, name in FEATURES:
        if kind in causes:
            yield from _feature(name, scheduler, knobs)
    if kind in ("awaiting_tick", "lazy_rescheduling") and scheduler.hz < 1000:
        yield "hz=1000", lambda rules, work: (_with_hz(rules, 1000), work)
    if kind == "realtime_throttled":
        yield "rt_runtime=unlimited", _knob("rt_runtime", "unlimited")
    if kind in _FAIR:
        yield from _attributes(cause, task, slices=scheduler.has_slices)
    if cause.behind is not None and kind.startswith("realtime_"):
        yield f"policy of {cause.behind}: other", _attribute(cause.behind, "policy", "other")
    if cause.behind is not None and kind == "quota":
        yield f"quota of {cause.behind}: twice", _quota(cause.behind, 2)
        yield f"quota of {cause.behind}: none", _quota(cause.behind, None)


def _attributes(cause: Cause, task: str, *, slices: bool) -> Iterator[Change]:
    """Return changes of the waiting task, and of the task before it."""
    for text in ("500us", "100us") if slices else ():
        yield f"slice of {task}: {text}", _attribute(task, "slice", text)
    yield f"nice of {task}: -5", _attribute(task, "nice", -5)
    yield f"policy of {task}: fifo:1", _attribute(task, "policy", {"fifo": 1})
    if cause.behind is not None and cause.behind != task:
        yield f"policy of {cause.behind}: batch", _attribute(cause.behind, "policy", "batch")
        yield f"nice of {cause.behind}: 5", _attribute(cause.behind, "nice", 5)


def _scaled(
    name: str, factor: float, scheduler: Scheduler, knobs: dict[str, Knob]
) -> Iterator[Change]:
    knob = knobs.get(name)
    if knob is None or not knob.exists or knob.default is None or not knob.simulated:
        return
    present = _present(knob, scheduler)
    value = min(max(round(present * factor), knob.low), knob.high)
    if value != present:
        text = knob.text(value)
        yield f"{name}={text}", _knob(name, text)


def _present(knob: Knob, scheduler: Scheduler) -> int:
    text = scheduler.knobs.get(knob.name)
    if text is None:
        return knob.default or 0
    return int(_core.parse_time(text)) if knob.kind == "time" else int(text)


def _feature(name: str, scheduler: Scheduler, knobs: dict[str, Knob]) -> Iterator[Change]:
    knob = knobs.get(f"feature.{name}")
    if knob is None or not knob.exists or not knob.simulated:
        return
    text = "0" if _on(knob, scheduler) else "1"
    yield f"{knob.name}={text}", _knob(knob.name, text)


def _on(knob: Knob, scheduler: Scheduler) -> bool:
    text = scheduler.knobs.get(knob.name)
    return bool(knob.default) if text is None else text in ("1", "true", "True", "on")


def _knob(name: str, text: str) -> Callable[[Scheduler, Workload], Changed]:
    return lambda rules, work: (rules.with_knobs({name: text}), work)


def _with_hz(rules: Scheduler, hz: int) -> Scheduler:
    return Scheduler(
        rules.release, hz=hz, knobs=rules.knobs, weights=rules.weights, rules=rules.rules
    )


def _attribute(kind: str, name: str, value: object) -> Callable[[Scheduler, Workload], Changed]:
    def change(rules: Scheduler, work: Workload) -> Changed:
        parts = json.loads(work.json)
        found = [task for task in parts["tasks"] if _kind(task["name"]) == kind]
        for task in found:
            task["attributes"] = {**(task.get("attributes") or {}), name: value}
        return (rules, _workload(work, parts)) if found else None

    return change


def _quota(group: str, factor: float | None) -> Callable[[Scheduler, Workload], Changed]:
    def change(rules: Scheduler, work: Workload) -> Changed:
        parts = json.loads(work.json)
        limits = (parts.get("groups") or {}).get(group, {})
        if limits.get("max") is None:
            return None
        if factor is None:
            limits["max"] = None
        else:
            quota = int(_core.parse_time(limits["max"]["quota"]))
            limits["max"]["quota"] = format_time(round(quota * factor))
        return rules, _workload(work, parts)

    return change


def _kind(name: str) -> str:
    return name.replace("[", ".").partition(".")[0] or name


def _workload(work: Workload, parts: dict[str, Any]) -> Workload:
    _, checked = _core.check_workload(json.dumps(parts))
    return Workload(work.name, checked)
