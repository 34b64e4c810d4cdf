"""Why tasks waited: the causes of their waits, in a simulated run or a recording.

Every nanosecond from the moment a task can run until it runs has one cause: the rule of the
scheduler that kept it, with its margin, or ``unknown``.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from schedlab import _core
from schedlab.boundary import notebook
from schedlab.boundary.arguments import check_whole
from schedlab.boundary.errors import InputError
from schedlab.measure.trace_text import readable
from schedlab.model import Machine, Scheduler, Workload, check_seed, short_time

if TYPE_CHECKING:
    import altair as alt

__all__ = ["Cause", "Run", "Span", "TaskWaits", "Wait", "Waiting", "why", "why_recorded"]


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause's part of some waiting time.

    Attributes:
        cause: its name, as in ``protected_slice``.
        text: the same for people.
        behind: the kind of task that ran meanwhile, of a quota the group; None where none did.
        wait_ns: how long tasks waited for it.
        share: the part of the waiting time in question, 0 to 1.
        spans: how often.
        margin_ns: by how much the rule decided, on average.
        margin_is_virtual: whether that is virtual time.
    """

    cause: str
    text: str
    behind: str | None
    wait_ns: int
    share: float
    spans: int
    margin_ns: int
    margin_is_virtual: bool

    @property
    def label(self) -> str:
        """The cause with what is behind it."""
        return label(self.cause, self.text, self.behind)


@dataclass(frozen=True, slots=True)
class TaskWaits:
    """The waits of one kind of task, times in nanoseconds.

    Attributes:
        name: the kind's name.
        tasks: how many tasks of the kind waited.
        waits: how often they waited.
        wakeups: of those, from a wake-up on.
        wait_ns: in total.
        unknown_ns: of that, without a cause.
        of: what the percentiles are of: ``wakeups``, or ``waits`` where no task was woken.
        p50_ns: the median.
        percentile_ns: the percentile that was asked for, by nearest rank.
        max_ns: the longest.
        tail_waits: how many are at least as long as that percentile.
        tail: the causes of those, the greatest first.
        causes: the causes of all waits of the kind.
    """

    name: str
    tasks: int
    waits: int
    wakeups: int
    wait_ns: int
    unknown_ns: int
    of: str
    p50_ns: int
    percentile_ns: int
    max_ns: int
    tail_waits: int
    tail: tuple[Cause, ...]
    causes: tuple[Cause, ...]

    @classmethod
    def of_json(cls, value: Mapping[str, Any]) -> Self:
        """Read it from the core's JSON."""
        causes = {key: tuple(Cause(**one) for one in value[key]) for key in ("tail", "causes")}
        return cls(**{**value, **causes})


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a wait with one cause, times in nanoseconds.

    Attributes:
        cause: its name.
        text: the same for people.
        behind: the task that ran meanwhile, of a quota the group; None where none did.
        began_ns: since the run's start.
        length_ns: for how long.
        margin_ns: by how much the rule decided.
        margin_is_virtual: whether that is virtual time.
    """

    cause: str
    text: str
    behind: str | None
    began_ns: int
    length_ns: int
    margin_ns: int
    margin_is_virtual: bool

    @property
    def label(self) -> str:
        """The cause with what is behind it."""
        return label(self.cause, self.text, self.behind)


@dataclass(frozen=True, slots=True)
class Run:
    """A task on a CPU.

    Attributes:
        cpu: the CPU.
        task: the task.
        began_ns: since the run's start.
        length_ns: for how long.
    """

    cpu: int
    task: str
    began_ns: int
    length_ns: int


@dataclass(frozen=True, slots=True)
class Wait:
    """One of the longest waits.

    Attributes:
        task: the task.
        cpu: the CPU on which it ended.
        kind: what it began with: ``woken``, ``new`` or ``preempted``.
        ran: whether the task ran at its end; else the run was over.
        began_ns: since the run's start.
        length_ns: for how long.
        spans: what it waited for, in order.
        around: what ran around it, on every CPU.
    """

    task: str
    cpu: int
    kind: str
    ran: bool
    began_ns: int
    length_ns: int
    spans: tuple[Span, ...]
    around: tuple[Run, ...]

    @classmethod
    def of_json(cls, value: Mapping[str, Any]) -> Self:
        """Read it from the core's JSON."""
        spans = tuple(Span(**one) for one in value["spans"])
        around = tuple(Run(**one) for one in value["around"])
        return cls(**{**value, "spans": spans, "around": around})


@dataclass(frozen=True, slots=True)
class Waiting:
    """Where the waiting time of a run went.

    Attributes:
        percentile: the percentile that was asked for.
        wait_ns: waiting time of all tasks.
        unknown_ns: the part of it for which no rule accounts.
        tasks: each kind of task, the one that waited longest first.
        selected: the kind that was asked for; else the one that waited longest. Empty where no task
            waited.
        worst: the longest waits of the selected kind.
        events: scheduler events of the run.
        elapsed_ns: how long it took.
        release: the kernel whose rules decided.
        level: how much a recording tells, ``L0`` to ``L1``; None of a simulation.
        notes: what to know before relying on it.
    """

    percentile: float
    wait_ns: int
    unknown_ns: int
    tasks: tuple[TaskWaits, ...]
    selected: str
    worst: tuple[Wait, ...]
    events: int
    elapsed_ns: int
    release: str
    level: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def attributed(self) -> float:
        """The part of the waiting time that has a cause, 0 to 1; 1 where no task waited."""
        return 1 - self.unknown_ns / self.wait_ns if self.wait_ns else 1.0

    @property
    def task(self) -> TaskWaits | None:
        """The waits of the selected kind; None where no task waited."""
        return next((task for task in self.tasks if task.name == self.selected), None)

    @property
    def answer(self) -> str:
        """What came out, in one sentence."""
        task = self.task
        if task is None:
            return "No task waited."
        what = "wake-up latency" if task.of == "wakeups" else "wait"
        causes = [f"{cause.share:.0%} {cause.label}" for cause in _leading(task.tail)]
        because = f": {', '.join(causes)}." if causes else "."
        return (
            f"p{self.percentile:g} {what} of {task.name} is {short_time(task.percentile_ns)}"
            f"{because}"
        )

    def rows(self) -> list[dict[str, Any]]:
        """Return a row a kind of task and cause, of all its waits: for a data frame.

        >>> from schedlab import Machine
        >>> found = why("hogs:tasks=2", scheduler="6.1", machine=Machine(1, "ideal"))
        >>> sorted(found.rows()[0])
        ['behind', 'cause', 'margin_ns', 'share', 'spans', 'task', 'text', 'wait_ns']
        """
        return [
            {
                "task": task.name,
                "cause": cause.cause,
                "text": cause.text,
                "behind": cause.behind,
                "wait_ns": cause.wait_ns,
                "share": cause.share,
                "spans": cause.spans,
                "margin_ns": cause.margin_ns,
            }
            for task in self.tasks
            for cause in task.causes
        ]

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the answer, and each kind of task's causes."""
        rows = [
            (task.name, cause.label, short_time(cause.wait_ns), f"{cause.share:.1%}")
            for task in self.tasks
            for cause in task.causes
        ]
        return notebook.table(self.answer, ("task", "cause", "wait", "share"), rows, self.notes)

    def plot(self) -> "alt.Chart":
        """Draw the waiting time of each kind of task by its causes, as an Altair chart.

        Raises:
            InputError: the extra ``charts`` is not installed.

        >>> from schedlab import Machine
        >>> found = why("hogs:tasks=2", scheduler="6.1", machine=Machine(1, "ideal"))
        >>> found.plot().to_dict()["mark"]["type"]
        'bar'
        """
        alt = notebook.alt
        rows = [{**row, "seconds": row["wait_ns"] / 1e9} for row in self.rows()]
        chart: alt.Chart = (
            alt.Chart(notebook.rows_of(rows))
            .mark_bar()
            .encode(
                x=alt.X("sum(seconds):Q", title="waiting time (s)"),
                y=alt.Y("task:N", title=None, sort=None),
                color=alt.Color("text:N", title=None),
                tooltip=["task:N", "text:N", "behind:N", alt.Tooltip("seconds:Q", format=".4f")],
            )
            .properties(title=self.answer, width=620)
        )
        return chart


def label(cause: str, text: str, behind: str | None) -> str:
    """Return a cause with what is behind it.

    >>> label("quota", "quota used up", "/svc")
    'quota of /svc used up'
    >>> label("protected_slice", "protected slice (RUN_TO_PARITY)", "batch")
    'behind batch: protected slice (RUN_TO_PARITY)'
    """
    if behind is None:
        return text
    return f"quota of {behind} used up" if cause == "quota" else f"behind {behind}: {text}"


def _leading(causes: tuple[Cause, ...]) -> list[Cause]:
    """Return the causes that a sentence names: the greatest, down to a twentieth."""
    return [cause for cause in causes[:4] if cause.share >= 0.05]


def _waiting(text: str, release: str, task: str | None) -> Waiting:
    value = json.loads(text)
    tasks = tuple(TaskWaits.of_json(one) for one in value["tasks"])
    first = tasks[0].name if tasks else ""
    return Waiting(
        percentile=value["percentile"],
        wait_ns=value["wait_ns"],
        unknown_ns=value["unknown_ns"],
        tasks=tasks,
        selected=task or first,
        worst=tuple(Wait.of_json(one) for one in value["worst"]),
        events=value["events"],
        elapsed_ns=value["elapsed_ns"],
        release=value.get("release", release),
        level=value.get("level"),
        notes=tuple(value.get("notes", ())),
    )


def _check(percentile: float, worst: int) -> None:
    if not 0 < percentile <= 100:
        raise InputError(f"percentile is {percentile:g}; allowed: above 0 and up to 100")
    check_whole(worst, "worst", "0 or more", least=0)


def why(
    workload: Workload | str,
    *,
    scheduler: Scheduler | str,
    machine: Machine,
    task: str | None = None,
    percentile: float = 99,
    worst: int = 10,
    seed: int = 1,
    phase_ns: int = 0,
    origin_ns: int = 0,
) -> Waiting:
    """Simulate a run and attribute its tasks' waiting time to causes.

    Args:
        workload: as `schedlab.simulate`.
        scheduler: a scheduler or a kernel release.
        machine: what to simulate it on.
        task: a task, or the name that several have in common, whose longest waits are wanted; the
            kind that waited longest without it.
        percentile: the percentile of wake-up latencies whose causes are wanted, above 0 to 100.
        worst: how many of the longest waits to return.
        seed: of every random stream.
        phase_ns: how long after a timer tick the run begins.
        origin_ns: when the tasks' timers begin to count.

    Raises:
        InputError: something given is wrong, or no such task waited.
        RunError: the run comes to no end.

    >>> from schedlab import Machine
    >>> found = why("hogs:tasks=2,time=50ms", scheduler="6.1", machine=Machine(1, "ideal"))
    >>> found.attributed, found.task.causes[0].behind
    (1.0, 'hog')
    """
    work = Workload.parse(workload) if isinstance(workload, str) else workload
    rules = Scheduler(scheduler) if isinstance(scheduler, str) else scheduler
    _check(percentile, worst)
    text = _core.attribute_run(
        work.json,
        rules.json,
        machine.json,
        check_seed(seed),
        phase=check_whole(phase_ns, "phase_ns", "0 or more", least=0),
        origin=check_whole(origin_ns, "origin_ns", "0 or more", least=0),
        task=task,
        percentile=percentile,
        worst=worst,
    )
    return _waiting(text, rules.label, task)


def why_recorded(
    trace: Path,
    *,
    snapshot: Path | None = None,
    kernel: str | None = None,
    level: str | None = None,
    task: str | None = None,
    percentile: float = 99,
    worst: int = 10,
) -> Waiting:
    """Replay a recording and attribute its tasks' waiting time to causes.

    Args:
        trace: a recording (``schedlab record``, ``perf sched record``, ``trace-cmd record``), the
            text of ``perf script`` or ``trace-cmd report``, or a Perfetto trace.
        snapshot: a copy of the recorded kernel's ``sched/debug``.
        kernel: the recorded kernel, where the recording does not say it.
        level: read only so much of it: ``L0``, ``L0k`` or ``L1``.
        task: as `why`.
        percentile: as `why`.
        worst: as `why`.

    Raises:
        InputError: the recording is broken or cannot be replayed, or no such task waited.
    """
    _check(percentile, worst)
    with readable(trace) as path:
        text = _core.attribute_recording(
            path,
            snapshot=snapshot,
            release=kernel,
            level=level,
            task=task,
            percentile=percentile,
            worst=worst,
        )
    return _waiting(text, "", task)
