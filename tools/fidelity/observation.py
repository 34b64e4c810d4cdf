"""What one run came to, simulated or real, in the few numbers that both are compared by."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from fidelity.startup import RUNNER, simulate_begun
from schedlab import _core
from schedlab.model import Costs, Machine, Scheduler, Workload
from schedlab.model.outcome import Outcome
from schedlab.processes import leftovers

FloatArray = NDArray[np.float64]

Metric = Literal["share", "voluntary", "involuntary", "turnaround", "wait", "p50", "p99"]
"""CPU share of each task; switches because tasks slept, and because they were preempted; the
workload's own time; the time that its tasks waited for a CPU, as a kernel counts it; the median and
the 99th percentile of the time from a wake-up to running."""

METRICS: tuple[Metric, ...] = ("share", "voluntary", "involuntary", "turnaround", "p50", "p99")

UNTOLD = 0.01
"""The part of all waits whose end a kernel may not tell: the 99th percentile of the rest is then no
less than the 98th of all."""

RECORDED: tuple[Metric, ...] = ("p50", "p99")
"""Those that need the events of the run, and so are taken from runs that were recorded."""


@dataclass(frozen=True, slots=True)
class Observation:
    """One run, or the medians of several.

    Attributes:
        shares: each task's part of the CPU time of all tasks, by name.
        values: every other metric that there is data of: counts, and nanoseconds.
        phase_ns: how long after a tick a real run's tasks began; None where that is not known.
        recorded_phase_ns: how long after a tick those of the run began that was recorded beside it.
    """

    shares: Mapping[str, float]
    values: Mapping[str, float]
    phase_ns: int | None = None
    recorded_phase_ns: int | None = None

    @classmethod
    def of(cls, outcome: Outcome) -> Self:
        """Read what an outcome tells."""
        total = sum(task.run_ns for task in outcome.tasks)
        values = {
            "voluntary": sum(task.voluntary for task in outcome.tasks),
            "involuntary": sum(task.involuntary for task in outcome.tasks),
            "turnaround": outcome.turnaround_ns,
            "wait": sum(task.wait_ns for task in outcome.tasks),
        }
        shares = {task.name: task.run_ns / total for task in outcome.tasks} if total else {}
        phase = None if outcome.begun is None else outcome.begun.phase_ns
        return cls(shares, {name: float(value) for name, value in values.items()}, phase)

    @classmethod
    def of_simulated(cls, outcome: Outcome, workload: Workload, costs: Costs) -> Self:
        """Read what a simulated outcome tells, as a real runner would see it.

        That looks at its CPU time from a task's first operation to its last: what a task takes to
        begin and to end is no part of its share.
        """
        described = json.loads(workload.json)
        templates = {task["name"]: task for task in described["tasks"]}
        # What goes on until a duration is over is cut off, and does not end.
        ends = workload.duration_ns is None
        own = []
        for task in outcome.tasks:
            template = templates.get(task.name.partition("[")[0], {})
            kind = template.get("kind", "process")
            beside = costs.times.get(f"exit_{kind}", 0) if ends else 0
            first = "start" if template.get("instances") == 0 else "begin"
            beside += costs.times.get(f"{first}_{kind}", 0)
            own.append(replace(task, run_ns=max(0, task.run_ns - beside)))
        return cls.of(replace(outcome, tasks=tuple(own)))

    @classmethod
    def of_trace(cls, path: Path, end_ns: int | None = None) -> Self:
        """Read what a recording, or a simulation's trace, tells of wake-ups.

        Args:
            path: the file.
            end_ns: when the recorded run's runner ended it, by its kernel's ``CLOCK_MONOTONIC``:
                what still waits then waits no longer for the workload's tasks.
        """
        found = json.loads(_core.wakeup_latency(path, end_ns))
        if found is None or found["untold"] > UNTOLD * (found["count"] + found["untold"]):
            return cls({}, {})
        return cls({}, {"p50": float(found["p50_ns"]), "p99": float(found["p99_ns"])})

    def beside(self, other: Self) -> Self:
        """Return this, with what the other has and this has not."""
        phases = (
            other.phase_ns if self.phase_ns is None else self.phase_ns,
            other.recorded_phase_ns if self.recorded_phase_ns is None else self.recorded_phase_ns,
        )
        return type(self)({**other.shares, **self.shares}, {**other.values, **self.values}, *phases)

    @property
    def recorded(self) -> Self:
        """This, as a run that was recorded."""
        return replace(self, phase_ns=None, recorded_phase_ns=self.phase_ns)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Return what `json` gave."""
        phases = (value.get("phase_ns"), value.get("recorded_phase_ns"))
        return cls(dict(value["shares"]), dict(value["values"]), *phases)

    @property
    def json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def medians(runs: Sequence[Observation]) -> Observation:
    """Return the medians of some runs; a metric that one of them has not is left out.

    >>> medians([Observation({"a": 1.0}, {"turnaround": float(n)}) for n in (3, 9, 4)]).values
    {'turnaround': 4.0}
    """

    def median(parts: Sequence[Mapping[str, float]]) -> dict[str, float]:
        names = [name for name in parts[0] if all(name in part for part in parts)]
        return {name: float(np.median([part[name] for part in parts])) for name in names}

    if not runs:
        return Observation({}, {})
    return Observation(median([run.shares for run in runs]), median([run.values for run in runs]))


def simulated(
    workload: Workload,
    scheduler: Scheduler,
    machine: Machine,
    recorded: Machine,
    *,
    seed: int,
    phase_ns: int,
    recorded_phase_ns: int | None = None,
) -> Observation:
    """Simulate a run: once as it is, and once as it is while it is recorded.

    Args:
        workload: what runs.
        scheduler: whose rules.
        machine: with the costs of a machine that is left alone.
        recorded: with those of one that is recorded.
        seed: of the random streams.
        phase_ns: how long after a tick it begins.
        recorded_phase_ns: how long after a tick the recorded one does, if not as long.
    """
    outcome = simulate_begun(
        workload,
        scheduler=scheduler,
        machine=machine,
        seed=seed,
        phase_ns=phase_ns,
    )
    return Observation.of_simulated(outcome, workload, machine.costs).beside(
        simulated_recorded(
            workload,
            scheduler,
            recorded,
            seed=seed,
            phase_ns=phase_ns if recorded_phase_ns is None else recorded_phase_ns,
        )
    )


def simulations(
    workload: Workload,
    scheduler: Scheduler,
    machines: tuple[Machine, Machine],
    repeats: int,
    real: Sequence[Observation] = (),
) -> list[Observation]:
    """Simulate runs that begin where in a tick's period real ones did, each with its own seed.

    Args:
        workload: what runs.
        scheduler: whose rules.
        machines: with the costs of a machine that is left alone, and of one that is recorded.
        repeats: how many runs; each real one's phase is that of as many.
        real: real runs; where a phase is not known the simulated ones divide the period evenly.
    """
    period = 1_000_000_000 // scheduler.hz
    evenly = [period * (2 * number + 1) // (2 * repeats) for number in range(repeats)]

    def at(number: int, known: Sequence[int | None]) -> int:
        own = known[number % len(known)] if known else None
        return evenly[number] if own is None else own

    return [
        simulated(
            workload,
            scheduler,
            *machines,
            seed=number + 1,
            phase_ns=at(number, [run.phase_ns for run in real]),
            recorded_phase_ns=at(number, [run.recorded_phase_ns for run in real]),
        )
        for number in range(repeats)
    ]


def simulated_recorded(
    workload: Workload,
    scheduler: Scheduler,
    machine: Machine,
    *,
    seed: int,
    phase_ns: int,
) -> Observation:
    """Simulate a run that is recorded, as the runner begins it, and read everything from that.

    Args:
        workload: what runs.
        scheduler: whose rules.
        machine: with the costs of a machine that is recorded.
        seed: of the random streams.
        phase_ns: how long after a tick it begins.
    """
    with leftovers.directory("trace") as directory:
        trace = directory / "trace.txt"
        outcome = simulate_begun(
            workload,
            scheduler=scheduler,
            machine=machine,
            seed=seed,
            phase_ns=phase_ns,
            trace=trace,
        )
        found = Observation.of_simulated(outcome, workload, machine.costs)
        _leave_out_others(trace, [task.name for task in outcome.background])
        return found.beside(Observation.of_trace(trace))


def _leave_out_others(trace: Path, background: Sequence[str]) -> None:
    """Take wake-ups of background tasks, and of and by the runner, out of a simulation's trace.

    Of a recording only the workload's tasks count, and what the runner wakes is the start signal.
    """
    woken = tuple(f"sched_waking: comm={name} pid=" for name in background)

    def counts(line: str) -> bool:
        return "sched_waking" not in line or not (
            RUNNER in line or any(text in line for text in woken)
        )

    lines = trace.read_text(encoding="utf-8").splitlines(keepends=True)
    trace.write_text("".join(filter(counts, lines)), encoding="utf-8")


def distance(metric: Metric, simulated: Observation, real: Observation) -> float | None:
    """Return how far a simulated run is from a real one; None where one of them has no data.

    Of shares it is the greatest difference of any task's, of everything else the relative one. A
    count is related to a tenth of all switches where it is less than that: whether a task is
    preempted once or thrice in a thousand switches is nothing that a user would tune.

    >>> one, other = (Observation({"a": x, "b": 1 - x}, {"p50": 100 * x}) for x in (0.5, 0.4))
    >>> round(distance("share", one, other), 3), round(distance("p50", one, other), 3)
    (0.1, 0.25)
    """
    found = distances(metric, [simulated], [real], draws=None)
    return None if found is None else float(found[0])


def distances(
    metric: Metric,
    simulated: Sequence[Observation],
    real: Sequence[Observation],
    *,
    draws: tuple[int, int] | None,
    seed: int = 0,
) -> FloatArray | None:
    """Return how far the medians of simulated runs are from those of real ones, see `distance`.

    Args:
        metric: of what.
        simulated: simulated runs.
        real: real runs.
        draws: how many times sets of both are drawn with replacement, and how many runs a set has,
            0 for as many as there are; without it both are taken once, as they are.
        seed: of the drawing.
    """
    generator = np.random.default_rng(seed)
    ours, theirs = _table(metric, simulated), _table(metric, real)
    if ours is None or theirs is None or ours[0] != theirs[0]:
        return None
    middles = []
    for _, table in (ours, theirs):
        if draws is None:
            middles.append(np.median(table, axis=0, keepdims=True))
        else:
            times, size = draws
            chosen = generator.integers(len(table), size=(times, size or len(table)))
            middles.append(np.median(table[chosen], axis=1))
    one, other = middles
    if metric == "share":
        apart: FloatArray = np.abs(one - other).max(axis=1)
        return apart
    scale = other[:, 0]
    if metric in _COUNTS:
        scale = np.maximum(scale, FEW * other[:, 1:].sum(axis=1))
    if (scale <= 0).any():
        return None
    relative: FloatArray = np.abs(one[:, 0] - other[:, 0]) / scale
    return relative


def _table(metric: Metric, runs: Sequence[Observation]) -> tuple[list[str], FloatArray] | None:
    """Return a row of numbers a run, and their names; None where a run has no data."""
    if metric == "share":
        names = sorted(runs[0].shares) if runs else []
        parts: Sequence[Mapping[str, float]] = [run.shares for run in runs]
        if any(sorted(part) != names for part in parts):
            return None
    else:
        names = [metric, *_COUNTS] if metric in _COUNTS else [metric]
        parts = [run.values for run in runs]
    if not names or not all(name in part for part in parts for name in names) or not runs:
        return None
    return names, np.array([[part[name] for name in names] for part in parts])


_COUNTS: tuple[Metric, ...] = ("voluntary", "involuntary")

FEW = 0.1
"""The part of all switches below which a count of one kind is small."""
