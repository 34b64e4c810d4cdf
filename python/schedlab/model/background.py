"""What else runs on a machine beside a workload: kernel threads, daemons, other people's work.

A costs file keeps it as a small set of tasks that sleep and compute for random times; simulations
with these costs run them beside every workload.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from schedlab import _core
from schedlab.boundary.errors import InputError, reading
from schedlab.model.nouns import Attributes, Workload
from schedlab.model.times import format_time, parse_time

STATISTICS = 1_000_000_000
"""How often a CPU's statistics of memory are counted (``sysctl_stat_interval``), in nanoseconds."""

VERSION = 1
"""The version of the table ``[background]`` of a costs file."""

Period = Literal["exponential", "normal"]
"""How times from wake-up to wake-up are distributed."""


@dataclass(frozen=True, slots=True)
class BackgroundTask:
    """Threads of one class, policy, nice level and choice of CPUs, as one task.

    Attributes:
        name: ``kworker/0``, ``rcu_preempt``; of programs the name of the task.
        kind: the kernel thread's name without its CPU, ``other`` for programs.
        policy: as `schedlab.model.Attributes` has it.
        nice: its nice level.
        affinity: the CPUs it may run on; any where there are none.
        interval_ns: from wake-up to wake-up, the mean.
        deviation_ns: its standard deviation, where the intervals are ``normal``.
        period: how the intervals are distributed.
        runs_ns: the CPU time of a wake-up: means of equal parts of all that were measured, shortest
            first. Each cycle of so many wake-ups has each of them once.
        wakeups: how many were measured.
        idle_interval_ns: the mean interval on the machine without load; 0 where it did not run.
        deferrable: whether its timers wait while its CPU idles; no costs file says so.
    """

    name: str
    kind: str
    policy: str
    nice: int
    affinity: tuple[int, ...]
    interval_ns: int
    deviation_ns: int
    period: Period
    runs_ns: tuple[int, ...]
    wakeups: int
    idle_interval_ns: int
    deferrable: bool = False

    @property
    def share(self) -> float:
        """The part of one CPU that it takes, 0 to 1.

        >>> rare = BackgroundTask("a", "a", "other", 0, (), 1_000_000, 0, "exponential",
        ...                       (10_000, 30_000), 9, 0)
        >>> rare.share
        0.02
        """
        return sum(self.runs_ns) / len(self.runs_ns) / max(self.interval_ns, 1)

    def described(self) -> dict[str, object]:
        """Return the task as the core reads it: it sleeps, runs, and so on.

        A program may be called as a task of the workload is that it runs beside.

        >>> BackgroundTask("main", "other", "other", 0, (), 1_000_000, 0, "exponential", (9_000,),
        ...                9, 0).described()["name"]
        'other/main'
        """
        attributes = json.loads(Attributes(self.policy, self.nice, None, self.affinity).json)
        mean = sum(self.runs_ns) / len(self.runs_ns)
        sleep = format_time(max(1, round(self.interval_ns - mean)))
        asleep: dict[str, object] = {"sleep": {"exponential": {"mean": sleep}}}
        first = asleep
        if self.period == "normal":
            deviation = format_time(self.deviation_ns)
            asleep = {"sleep": {"normal": {"mean": sleep, "deviation": deviation}}}
            # Its periods have nothing to do with when a run begins.
            first = {"sleep": {"uniform": {"low": "0ns", "high": format_time(self.interval_ns)}}}
        rounds = [
            step
            for place in _scattered(len(self.runs_ns))
            for step in ({"run": {"fixed": format_time(self.runs_ns[place])}}, asleep)
        ]
        return {
            "name": f"other/{self.name}" if self.kind == "other" else self.name,
            "instances": 1,
            "attributes": attributes,
            "asleep": True,
            "background": True,
            "deferrable": self.deferrable,
            "steps": [first, {"forever": rounds}],
        }


def _divided(task: BackgroundTask) -> list[BackgroundTask]:
    """Return the parts of a task that have timers of their own.

    Of what a CPU's kworker does, counting memory's statistics (`vmstat_update`, ``mm/vmstat.c``)
    has a period of its own, and deferrable timers.

    >>> kworker = BackgroundTask("kworker/0", "kworker", "other", 0, (0,), 400_000_000, 0,
    ...                          "exponential", (9_000,), 15, 0)
    >>> [(part.name, part.interval_ns, part.deferrable) for part in _divided(kworker)]
    [('kworker/0:vmstat', 1000000000, True), ('kworker/0', 666666667, False)]
    """
    if task.kind != "kworker" or task.policy != "other" or len(task.affinity) != 1:
        return [task]
    period = max(task.interval_ns, STATISTICS)
    name = f"{task.name}:vmstat"
    parts = [
        replace(
            task,
            name=name,
            interval_ns=period,
            deviation_ns=0,
            period="normal",
            deferrable=True,
        )
    ]
    others = 1 / task.interval_ns - 1 / period
    if others > 0:
        parts.append(replace(task, interval_ns=round(1 / others)))
    return parts


def _scattered(count: int) -> list[int]:
    """Return the numbers below ``count`` so that neighbours are far from each other.

    >>> _scattered(8)
    [0, 4, 2, 6, 1, 5, 3, 7]
    """
    bits = max(count - 1, 0).bit_length()
    mirrored = (int(f"{number:0{bits}b}"[::-1], 2) for number in range(2**bits)) if bits else [0]
    return [number for number in mirrored if number < count]


@dataclass(frozen=True, slots=True)
class Background:
    """What was measured of a machine's other work.

    Attributes:
        tasks: what is simulated, the most frequent first.
        watched_ns: how long the machine was watched under load, and as long without.
        paired: switches of which the one before on the same CPU was seen, too.
        unpaired: switches away from a task of which it was not seen that it came; what such a task
            ran meanwhile is in no figure.
        lost: events that did not fit into the trace's buffers.
        interrupts: of each interrupt, software interrupt and timer under load how many a second
            there were, and their mean time in nanoseconds. Not simulated.
    """

    tasks: tuple[BackgroundTask, ...]
    watched_ns: int = 0
    paired: int = 0
    unpaired: int = 0
    lost: int = 0
    interrupts: Mapping[str, tuple[float, int]] = field(default_factory=dict)

    @property
    def workload(self) -> Workload | None:
        """The tasks as a workload; None where there are none.

        Raises:
            InputError: one of them cannot be.
        """
        if not self.tasks:
            return None
        tasks = [part.described() for task in self.tasks for part in _divided(task)]
        value = {"name": "background", "tasks": tasks}
        return checked(json.dumps(value))


def checked(text: str) -> Workload:
    """Return the background that a workload's JSON describes.

    Raises:
        InputError: it cannot run as written.
    """
    value = json.loads(_core.background(text))
    return Workload(value["name"], json.dumps(value))


def read(table: Mapping[str, Any]) -> Background:
    """Read a costs file's table ``[background]``.

    Raises:
        InputError: it is of another version, or not what 'schedlab calibrate' writes.
    """
    version = table.get("version")
    if version != VERSION:
        raise InputError(f"background.version is {version!r}; allowed: {VERSION}")
    with reading("its table [background] is not what 'schedlab calibrate' writes"):
        found = Background(
            tasks=tuple(_task(one) for one in table.get("tasks", ())),
            watched_ns=parse_time(table["watched"]),
            paired=table["paired"],
            unpaired=table["unpaired"],
            lost=table["lost"],
            interrupts={
                name: (one["per_second"], parse_time(one["mean"]))
                for name, one in table.get("interrupts", {}).items()
            },
        )
    try:
        _ = found.workload
    except InputError as error:
        raise InputError(f"background: {error}") from None
    return found


def _task(one: Mapping[str, Any]) -> BackgroundTask:
    period: Period = one["period"]
    if period not in ("exponential", "normal"):
        raise InputError(
            f"background: period of '{one['name']}' is {period!r}; allowed: exponential, normal"
        )
    runs = tuple(parse_time(text) for text in one["runs"])
    if not runs:
        raise InputError(f"background: runs of '{one['name']}' is empty; a time at least is needed")
    return BackgroundTask(
        name=one["name"],
        kind=one["kind"],
        policy=one["policy"],
        nice=one["nice"],
        affinity=tuple(one["affinity"]),
        interval_ns=parse_time(one["interval"]),
        deviation_ns=parse_time(one["deviation"]),
        period=period,
        runs_ns=runs,
        wakeups=one["wakeups"],
        idle_interval_ns=parse_time(one["idle_interval"]),
    )


def lines(found: Background) -> list[str]:
    """Return the lines of a costs file's table ``[background]``."""
    written = [
        "",
        "# Other work of the machine, simulated beside every workload.",
        "[background]",
        f"version = {VERSION}",
        f"watched = {_text(format_time(found.watched_ns))}",
        f"paired = {found.paired}",
        f"unpaired = {found.unpaired}",
        f"lost = {found.lost}",
    ]
    for task in found.tasks:
        written += ["", "[[background.tasks]]"]
        written += [f"{name} = {_text(getattr(task, name))}" for name in ("name", "kind", "policy")]
        written += [
            f"nice = {task.nice}",
            f"affinity = {list(task.affinity)}",
            f"period = {_text(task.period)}",
            f"interval = {_text(format_time(task.interval_ns))}",
            f"deviation = {_text(format_time(task.deviation_ns))}",
            f"idle_interval = {_text(format_time(task.idle_interval_ns))}",
            f"runs = {_texts([format_time(run) for run in task.runs_ns])}",
            f"wakeups = {task.wakeups}",
        ]
    for name, (rate, mean) in found.interrupts.items():
        written += [
            "",
            f"[background.interrupts.{_text(name)}]",
            f"per_second = {rate:.1f}",
            f"mean = {_text(format_time(mean))}",
        ]
    return written


def _text(text: str) -> str:
    return json.dumps(text.replace("\x7f", " "), ensure_ascii=False)


def _texts(texts: Sequence[str]) -> str:
    return f"[{', '.join(map(_text, texts))}]"
