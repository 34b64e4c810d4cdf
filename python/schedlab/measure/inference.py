"""Workloads from recordings of real systems: what ran there, to be asked what else would have been.

A recording says when each task ran and who woke it. What follows for what the tasks do by
themselves, whatever the scheduler, is a workload; simulated under the recorded settings it does as
recorded, and under others it says what they would have done.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Self

from schedlab import _core
from schedlab.boundary.files import write_text
from schedlab.measure.trace_text import readable
from schedlab.model import Costs, Machine, Scheduler, Workload, check_seed

__all__ = [
    "Behaviour",
    "Inferred",
    "Latency",
    "Tail",
    "TaskBehaviour",
    "infer",
    "simulated",
    "workload_of",
]

Ending = Literal["work", "time"]
"""When an inferred run is over: all tasks have done what they did, or as much time has passed."""


@dataclass(frozen=True, slots=True)
class Latency:
    """Times from wake-ups to the CPU, in nanoseconds.

    Attributes:
        count: how many there are.
        p50_ns: half are no longer.
        p99_ns: 99 % are no longer.
        max_ns: the longest.
    """

    count: int
    p50_ns: int
    p99_ns: int
    max_ns: int

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Self:
        """Read it from the core's JSON."""
        return cls(value["count"], value["p50_ns"], value["p99_ns"], value["max_ns"])


@dataclass(frozen=True, slots=True)
class Tail:
    """The wake-up latencies that are as long as the 99th percentile or longer.

    Attributes:
        waits: how many there are.
        moments: at how many moments, each of one millisecond, they began.
        most: how many began at the moment that has the most of them.
        at_ns: when that moment began, in nanoseconds.
    """

    waits: int
    moments: int
    most: int
    at_ns: int


@dataclass(frozen=True, slots=True)
class TaskBehaviour:
    """What one task got, times in nanoseconds.

    Attributes:
        name: its name in the workload.
        run_ns: on a CPU.
        wait_ns: runnable but not running.
        voluntary: switches because it went to sleep.
        involuntary: switches because it was taken off.
        wakeups: wake-ups.
        latency: from those to the CPU.
    """

    name: str
    run_ns: int
    wait_ns: int
    voluntary: int
    involuntary: int
    wakeups: int
    latency: Latency

    def called(self, name: str) -> "TaskBehaviour":
        """Return the same under another name."""
        return replace(self, name=name)

    def and_(self, other: "TaskBehaviour") -> "TaskBehaviour":
        """Return what both got, with the latencies of the tasks woken more often."""
        return TaskBehaviour(
            name=self.name,
            run_ns=self.run_ns + other.run_ns,
            wait_ns=self.wait_ns + other.wait_ns,
            voluntary=self.voluntary + other.voluntary,
            involuntary=self.involuntary + other.involuntary,
            wakeups=self.wakeups + other.wakeups,
            latency=max(self, other, key=lambda task: task.latency.count).latency,
        )


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How tasks behaved, in a recording or a simulated run; from events, by the same code.

    Attributes:
        elapsed_ns: how long it was looked at.
        voluntary: switches of tasks that went to sleep.
        involuntary: switches of tasks that were taken off.
        latency: wake-up latencies of all tasks.
        tasks: each task's part, by name.
        tail: where the 99th percentile of the latencies comes from; None where it is not known.
    """

    elapsed_ns: int
    voluntary: int
    involuntary: int
    latency: Latency
    tasks: Mapping[str, TaskBehaviour]
    tail: Tail | None = None

    @property
    def switches(self) -> int:
        """Switches away from tasks."""
        return self.voluntary + self.involuntary

    def share(self, name: str) -> float:
        """Return the part of the time in which a task ran, 0 where there is none of the name."""
        task = self.tasks.get(name)
        return task.run_ns / self.elapsed_ns if task is not None and self.elapsed_ns else 0.0

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Self:
        """Read it from the core's JSON."""
        tasks: dict[str, TaskBehaviour] = {}
        for task in value["tasks"]:
            # A task that begins anew makes its children anew: what they got is one task's.
            name = task["name"].partition("[")[0]
            new = TaskBehaviour(
                name=name,
                run_ns=task["run_ns"],
                wait_ns=task["wait_ns"],
                voluntary=task["voluntary"],
                involuntary=task["involuntary"],
                wakeups=task["wakeups"],
                latency=Latency.of(task["latency"]),
            )
            tasks[name] = new if name not in tasks else tasks[name].and_(new)
        return cls(
            elapsed_ns=value["elapsed_ns"],
            voluntary=value["voluntary"],
            involuntary=value["involuntary"],
            latency=Latency.of(value["latency"]),
            tasks=MappingProxyType(tasks),
            tail=None if value.get("tail") is None else Tail(**value["tail"]),
        )


@dataclass(frozen=True, slots=True)
class Inferred:
    """A workload that was inferred from a recording.

    Attributes:
        text: the workload as a file has it (rt-app's JSON with our keys).
        counts: what it was inferred from: tasks, steps, wake-ups by cause, what is not known.
        ending: when its run is over.
        scheduler: how the recorded kernel was set; None where the recording does not say it.
        cpus: CPUs of the recorded machine; None where the recording does not say it.
        level: how much was recorded (``switches``, ``L0``, ``L0k``, ``L1``); None where
            the recording does not say it.
        phase_ns: how long after a timer tick the recording begins.
        behaviour: how the tasks behaved in the recording.
        limits: what the recording cannot show, where another program made it.
    """

    text: str
    counts: Mapping[str, int]
    ending: Ending
    scheduler: Scheduler | None
    cpus: int | None
    phase_ns: int
    behaviour: Behaviour
    level: str | None = None
    limits: tuple[str, ...] = ()

    @property
    def workload(self) -> Workload:
        """The workload, to be run."""
        return workload_of(self.text)

    def save(self, path: Path) -> None:
        """Write the workload's file, whole or not at all."""
        write_text(path, self.text)


def infer(
    trace: Path,
    *,
    costs: Costs | str = "ideal",
    name: str | None = None,
    start: str | None = None,
    end: str | None = None,
    ending: Ending | None = None,
) -> Inferred:
    """Infer a workload from a recording.

    Args:
        trace: a recording (``schedlab record``, ``perf sched record``, ``trace-cmd record``), the
            text of ``perf script`` or ``trace-cmd report``, or a Perfetto trace; gzipped or not.
        costs: what the simulator will charge for by itself, which is taken off the recorded CPU
            time: run the workload with the same.
        name: what the workload will be called; the file's name without one.
        start: from when on, since the recording's beginning, as ``1.5s``.
        end: until when.
        ending: when a run of it is over; ``work`` if the recorded command ended, ``time`` if not.

    Raises:
        InputError: the recording is broken, or says nothing.
    """
    given = costs if isinstance(costs, Costs) else Costs.load(costs)
    called = trace.name.partition(".")[0] if name is None else name
    costed = json.dumps(given.described())
    with readable(trace) as path:
        text, summary = _core.infer(path, called, costed, start, end, ending)
    found = json.loads(summary)
    recorded = found["recorded"]
    scheduler = None
    if recorded is not None:
        scheduler = Scheduler(recorded["release"], hz=recorded["hz"], knobs=recorded["knobs"])
    return Inferred(
        text=text,
        counts=MappingProxyType(found["counts"]),
        ending=found["ending"],
        scheduler=scheduler,
        cpus=None if recorded is None else recorded["cpus"],
        phase_ns=found["phase_ns"],
        behaviour=Behaviour.of(found["behaved"]),
        level=None if recorded is None else recorded["level"],
        limits=tuple(found["limits"]),
    )


def workload_of(text: str) -> Workload:
    """Return the workload that a file's text describes.

    Raises:
        InputError: it is none.
    """
    checked, _ = _core.read_workload(text, "")
    return Workload(json.loads(checked)["name"], checked)


def simulated(
    workload: Workload,
    scheduler: Scheduler,
    machine: Machine,
    *,
    seed: int = 1,
    phase_ns: int = 0,
) -> Behaviour:
    """Simulate a run, begun so long after a timer tick, and return how its tasks behave.

    Raises:
        InputError: the machine or the scheduler cannot be.
        RunError: the run comes to no end.
    """
    check_seed(seed)
    text = _core.behaviour(workload.json, scheduler.json, machine.json, seed, phase=phase_ns)
    return Behaviour.of(json.loads(text))
