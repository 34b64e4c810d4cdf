"""What a run comes to, simulated or real: one schema for both."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING

from schedlab.boundary import notebook
from schedlab.boundary.errors import reading
from schedlab.model.times import short_time
from schedlab.processes import disturbance
from schedlab.processes.disturbance import Disturbance

if TYPE_CHECKING:
    import altair as alt


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """What one task got, all times in nanoseconds.

    Attributes:
        name: name and instance.
        source: ``events`` or ``counters``, where the numbers came from.
        life_ns: from its start to its end.
        run_ns: CPU time that the kernel charges it for.
        user_ns: of that, in user mode.
        system_ns: of that, in the kernel.
        wait_ns: runnable but not running, as a kernel counts it (``run_delay`` of
            ``/proc/PID/schedstat``): by its run queue's clock, which stands from a wake-up that is
            followed by a switch up to that switch; 0 where it was not measured.
        sleep_ns: asleep; 0 where it was not measured.
        voluntary: switches because it went to sleep.
        involuntary: switches because it was preempted.
        migrations: times its CPU changed.
        wakeups: wake-ups.
        delay_ns: sum of the delays from becoming runnable to running.
        delays: number of those delays.
        max_delay_ns: the longest of them.
    """

    name: str
    source: str
    life_ns: int
    run_ns: int
    user_ns: int
    system_ns: int
    wait_ns: int
    sleep_ns: int
    voluntary: int
    involuntary: int
    migrations: int
    wakeups: int
    delay_ns: int
    delays: int
    max_delay_ns: int


@dataclass(frozen=True, slots=True)
class GroupOutcome:
    """What one group of tasks, or session under autogroup, got, all times in nanoseconds.

    Attributes:
        name: its path, or ``session NAME``.
        tasks: tasks that it and the groups below it had.
        run_ns: their CPU time.
        contended_ns: of that, as long as no group, and not the tasks of none, had run out of tasks.
        share: the part of all tasks' CPU time in that while, 0 to 1.
        periods: periods of its limit that ended.
        throttled_periods: of those, the ones in which it was throttled.
        throttled_ns: over all CPUs, how long it was.
    """

    name: str
    tasks: int
    run_ns: int
    contended_ns: int
    share: float
    periods: int
    throttled_periods: int
    throttled_ns: int


@dataclass(frozen=True, slots=True)
class Latency:
    """What a stopwatch of a workload measured, all times in nanoseconds.

    Attributes:
        count: measurements.
        p50_ns: half of them were at most this.
        p90_ns: nine tenths.
        p99_ns: 99 of 100.
        p999_ns: 999 of 1000.
        max_ns: the longest.
    """

    count: int
    p50_ns: int
    p90_ns: int
    p99_ns: int
    p999_ns: int
    max_ns: int


@dataclass(frozen=True, slots=True)
class Begun:
    """When a real run's tasks were let go, in nanoseconds.

    Attributes:
        monotonic_ns: by ``CLOCK_MONOTONIC``.
        phase_ns: how long after a timer interrupt.
    """

    monotonic_ns: int
    phase_ns: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to, simulated or real, all times in nanoseconds.

    Attributes:
        workload: its name.
        release: the kernel release whose scheduler ran.
        target: where it ran: ``sim``, ``host`` or ``vm``.
        cpus: CPUs of the machine.
        seed: of every random stream.
        turnaround_ns: what the workload calls its time; the whole run where it marks none.
        elapsed_ns: from the first task's start to the last one's end.
        turnaround_jiffies: whole jiffies of the turnaround, rounded up, at the scheduler's HZ.
        cpu_busy_ns: CPU time used, each CPU's in turn; empty where it was not measured.
        switches: context switches, simulated as real: the voluntary and involuntary ones of all
            tasks. A CPU that leaves idling, and a task's end, count nothing.
        messages: messages read in full.
        bytes: bytes read in full.
        tasks: each task's share.
        background: what each task of other work on the machine got, which no other figure counts
            but ``cpu_busy_ns``; empty where the run had none.
        groups: each group's share; simulated runs of workloads with groups have some.
        latencies: what the workload's stopwatches measured, by name.
        accelerator: of a guest: ``kvm``, or ``tcg`` where its instructions were translated.
        knobs: what a guest said of the knobs that were set for the run.
        begun: when its tasks began; None for a simulation.
        disturbance: what others took of the CPU time meanwhile; None for a simulation.
        notes: what a reader has to know before relying on these numbers, one sentence each: rules
            or costs used in place of others, costs that were never measured, a disturbed machine.
    """

    workload: str
    release: str
    target: str
    cpus: int
    seed: int
    turnaround_ns: int
    elapsed_ns: int
    turnaround_jiffies: int
    cpu_busy_ns: tuple[int, ...]
    switches: int
    messages: int
    bytes: int
    tasks: tuple[TaskOutcome, ...] = field(repr=False)
    background: tuple[TaskOutcome, ...] = field(default=(), repr=False)
    groups: tuple[GroupOutcome, ...] = ()
    latencies: Mapping[str, Latency] = field(default_factory=dict, hash=False)
    accelerator: str = ""
    knobs: Mapping[str, str] = field(default_factory=dict, hash=False)
    begun: Begun | None = None
    disturbance: Disturbance | None = None
    notes: tuple[str, ...] = ()

    def with_note(self, text: str) -> "Outcome":
        """Return the outcome with one more note, before the others; itself if the text is empty."""
        return replace(self, notes=(text, *self.notes)) if text else self

    @classmethod
    def from_json(cls, text: str) -> "Outcome":
        """Read an outcome as the core and the native runner write it.

        Raises:
            InputError: it is not an outcome.
        """
        with reading("what a run wrote is no outcome"):
            value = json.loads(text)
            value["cpu_busy_ns"] = tuple(value["cpu_busy_ns"])
            # The core marks background tasks among the others; here they stand apart.
            marked = [(task.pop("background", False), task) for task in value["tasks"]]
            others = [task for background, task in marked if background]
            others += value.get("background", ())
            own = (task for background, task in marked if not background)
            value["tasks"] = tuple(TaskOutcome(**task) for task in own)
            value["background"] = tuple(TaskOutcome(**task) for task in others)
            value["groups"] = tuple(GroupOutcome(**group) for group in value.get("groups", ()))
            value["notes"] = tuple(value.get("notes", ()))
            value["disturbance"] = disturbance.read(value.get("disturbance"))
            value["begun"] = Begun(**value["begun"]) if value.get("begun") else None
            latencies = value.get("latencies", {})
            value["latencies"] = {name: Latency(**one) for name, one in latencies.items()}
            known = {f.name for f in fields(cls)}
            return cls(**{name: v for name, v in value.items() if name in known})

    def __iter__(self) -> Iterator[TaskOutcome]:
        return iter(self.tasks)

    def _kinds(self) -> dict[str, list[TaskOutcome]]:
        """Return equal tasks together, by what their names have in common."""
        found: dict[str, list[TaskOutcome]] = {}
        for task in self.tasks:
            found.setdefault(kind(task.name), []).append(task)
        return found

    def _repr_html_(self) -> str:
        """Return what a notebook shows: a row for each kind of task."""
        rows = [
            (
                name,
                str(len(tasks)),
                short_time(sum(task.run_ns for task in tasks)),
                str(sum(task.voluntary for task in tasks)),
                str(sum(task.involuntary for task in tasks)),
                _mean_delay(tasks),
                short_time(max(task.max_delay_ns for task in tasks)),
            )
            for name, tasks in self._kinds().items()
        ]
        head = ("task", "tasks", "run", "voluntary", "involuntary", "avg delay", "max delay")
        turnaround = f"turnaround {short_time(self.turnaround_ns)}, {self.switches} switches"
        title = f"{self.workload} on {self.target}, {self.release}, {self.cpus} CPUs: {turnaround}"
        return notebook.table(title, head, rows, self.notes)

    def plot(self) -> "alt.Chart":
        """Draw where the time of each kind of task went, as an Altair chart.

        Bars are means over the tasks of a kind: on a CPU, runnable and waiting, asleep.

        Raises:
            InputError: the extra ``charts`` is not installed.

        >>> from schedlab import Machine, simulate
        >>> outcome = simulate("sleepers:tasks=2,loops=3", scheduler="6.12",
        ...                    machine=Machine(cpus=1, costs="ideal"))
        >>> outcome.plot().to_dict()["mark"]["type"]
        'bar'
        """
        alt = notebook.alt
        rows = [
            {"task": name, "state": state, "ms": sum(getattr(task, key) for task in tasks) / each}
            for name, tasks in self._kinds().items()
            for each in [1e6 * len(tasks)]
            for state, key in _STATES.items()
        ]
        colours = alt.Scale(domain=list(_STATES), range=["#0b6fb3", "#c93c20", "#c4cad1"])
        chart: alt.Chart = (
            alt.Chart(notebook.rows_of(rows))
            .mark_bar()
            .encode(
                x=alt.X("ms:Q", title="mean time of a task (ms)"),
                y=alt.Y("task:N", title=None, sort=None),
                color=alt.Color("state:N", title=None, scale=colours),
                order=alt.Order("state:N", sort="descending"),
                tooltip=["task:N", "state:N", alt.Tooltip("ms:Q", format=".3f")],
            )
            .properties(title=f"{self.workload}, {self.release}", width=620)
        )
        return chart


_STATES = {"running": "run_ns", "waiting": "wait_ns", "asleep": "sleep_ns"}
_INSTANCE = re.compile(r"[.\[].*$")


def kind(name: str) -> str:
    """Return what the names of equal tasks have in common.

    >>> kind("sender.g0[3]"), kind("main")
    ('sender', 'main')
    """
    return _INSTANCE.sub("", name) or name


def _mean_delay(tasks: list[TaskOutcome]) -> str:
    count = sum(task.delays for task in tasks)
    return short_time(sum(task.delay_ns for task in tasks) / count) if count else "-"
