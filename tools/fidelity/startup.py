"""Simulated runs that begin as real ones do.

A real task is made by another one, and what it is given then stays with it: CFS puts each new task
a slice late into its queue's virtual time (START_DEBIT, ``kernel/sched/fair.c``, `place_entity`),
less late the more there are. Those that begin with a simulated machine have no parent, and
all have one virtual time. Where tasks wake up again within the sleepers' credit, none of
these differences is ever made up for; which task waits for which depends on them to the end.

So the runner's beginning is simulated, too: tasks are made one after the other, all wait for the
signal of a task above them, and nothing before that counts.
"""

import json
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from schedlab.boundary.errors import RunError
from schedlab.model import Machine, Scheduler, Workload, format_time
from schedlab.model.outcome import Outcome, TaskOutcome
from schedlab.targets.sim import simulate

RUNNER = "schedlab.runner"
_HOST = "schedlab.host"
_READY = "schedlab.ready"
_GATE = "schedlab.gate"
_BEGUN = "schedlab.begun"

_ATTEMPTS = 4
"""Beginnings that are simulated at most until one ends where in a tick's period it is to."""

_ABOVE = {"policy": {"fifo": 99}}

_ORDINARY = {"policy": "other"}
"""What its children have (``SCHED_FLAG_RESET_ON_FORK``)."""

_LOOKS = "50us"
"""What the runner takes, once all tasks wait, to read its counters before it lets them go.

It is simulated where the last of them may go to sleep meanwhile, on another CPU."""

_FAIR = (None, "other", "batch", "idle")

_LOCKS = "5ms"
"""What a task that is not to be fair takes to lock its pages, as the ordinary one that it still is.

So long `mlockall` took the runner's threads in a guest of 6.1. What counts is that this is more
than a sleeper's credit: tasks that wait at the gate have all the same virtual time after it.
"""

_TOUCHED = 12
"""Pages that a process of the runner's touches first at its first access of a file.

So many page faults are between the start and the first read of "copy" on 6.1, of memory that it has
from its parent (code, heap, and the buffer of its accesses). Most copy a page (`do_wp_page`).
"""

_ACCESSES = {"read_file", "write_file", "submit_read", "submit_write"}


def is_begun(workload: Workload) -> bool:
    """Return whether the runner's beginning is simulated.

    Not so where a single task is there from the start and stays alone: it has no other task
    to be ahead of. One that makes others, with a clock of its own, has: the runner's
    dequeue is delayed as that begins, and its first children find it there. Tasks
    of sessions, and such as are asleep, are left alone; and such as meet at
    barriers, which wait for as many as are there from the start, and not for those made later.
    """
    value = json.loads(workload.json)
    first = _first(value["tasks"])
    special = any(
        task.get("session") or task.get("asleep") or _has(task["steps"], {"barrier"})
        for task in first
    )
    several = sum(task["instances"] for task in first) > 1
    return (several or bool(value.get("turnaround_from"))) and not special


def with_runner(
    workload: Workload,
    *,
    duration_ns: int | None,
    begin_ns: int,
    access_ns: int = 0,
    cpus: int = 1,
) -> Workload:
    """Return the workload with the tasks that create its tasks.

    The task that ends a run at its time, or lets real-time tasks run, is a real-time one, whose
    children are ordinary: CFS places them after the queue's virtual time of then, with no
    current task among them. That of tasks that end by themselves is one of them. Threads beside
    processes are made by a process that is made last, and threads alone by one that is there.

    Args:
        workload: what runs.
        duration_ns: how long it runs in place of its own duration, its beginning included; without
            it until all tasks have ended.
        begin_ns: what a process takes from the signal to its first operation.
        access_ns: what its first access of a file takes besides. It is charged at the beginning, as
            a loop cannot do something once.
        cpus: the machine's.
    """
    value: dict[str, Any] = json.loads(workload.json)
    tasks = value["tasks"]
    first = _first(tasks)
    count = sum(task["instances"] for task in first)
    above = workload.duration_ns is not None or any(map(_is_real_time, tasks))
    makes: dict[str, list[Any]] = {"process": [], "thread": []}
    for task in first:
        fork = {"fork": {"task": task["name"], "count": task["instances"]}}
        makes[task["kind"]].append(fork)
        task["instances"] = 0
        begins = begin_ns + (access_ns if _has(task["steps"], _ACCESSES) else 0)
        pays = begins > 0 and task["kind"] == "process"
        work = [{"run": {"fixed": format_time(begins)}}] if pays else []
        # It is made with what its maker has, and what it is to have it asks for itself: on EEVDF
        # kernels its first deadline is that of its maker's slice.
        asks = task.pop("attributes", None)
        locks = value.get("lock_pages") and asks and asks.get("policy") not in _FAIR
        locked = [{"run": {"fixed": _LOCKS}}] if locks else []
        set_up = [*locked, {"set": asks}] if asks else []
        if above and task["kind"] == "process":
            task["attributes"] = _ORDINARY
        task["steps"] = [*set_up, {"post": _READY}, {"acquire": _GATE}, *work, *task["steps"]]
    waits = {"loop": {"count": count, "steps": [{"acquire": _READY}]}}
    # A stopwatch that was never started counts from the start of the simulation.
    looks = [{"run": {"fixed": _LOOKS}}] if cpus > 1 else []
    gate = [waits, *looks, {"stop": _BEGUN}, {"mark": _BEGUN}, {"post_all": [_GATE] * count}]
    value.pop("duration", None)
    if duration_ns is not None:
        value["duration"] = format_time(duration_ns)
    made = makes["process"] or makes["thread"]
    host = _process(_HOST, [*makes["thread"], "join"])
    if all(makes.values()):
        made = [*made, {"fork": {"task": _HOST, "count": 1}}]
        tasks.append(host | {"instances": 0} | ({"attributes": _ORDINARY} if above else {}))
    if above:
        long = [{"sleep": {"fixed": value["duration"]}}] if duration_ns is not None else []
        alone = not makes["process"]
        runner = _process(RUNNER, [*([] if alone else made), *gate, *long])
        value["tasks"] = [runner | {"attributes": _ABOVE}, *([host] if alone else []), *tasks]
    else:
        value["tasks"] = [_process(RUNNER, [*made, *gate, "join"]), *tasks]
        value.setdefault("turnaround_from", _BEGUN)
    return Workload.from_dict(value)


def simulate_begun(
    workload: Workload,
    *,
    scheduler: Scheduler,
    machine: Machine,
    seed: int,
    phase_ns: int,
    trace: Path | None = None,
) -> Outcome:
    """Simulate a run as the runner would begin it.

    Args:
        workload: what runs.
        scheduler: whose rules; with the knob ``autogroup`` set to 1 the runner is in a session.
        machine: on what.
        seed: of the random streams.
        phase_ns: how long after a tick the tasks begin.
        trace: the file to write the run's events to, its beginning included.

    Returns:
        The outcome of the workload's own tasks from the signal on.
    """

    def run(work: Workload, phase_ns: int, to: Path | None = None, origin_ns: int = 0) -> Outcome:
        return simulate(
            in_session(work) if scheduler.knobs.get("autogroup") == "1" else work,
            scheduler=scheduler,
            machine=machine,
            seed=seed,
            phase_ns=phase_ns,
            origin_ns=origin_ns,
            trace=to,
        )

    if not is_begun(workload):
        return run(workload, phase_ns, trace)
    machine = _of_runner(machine, workload)
    begin, access = _begin(machine), _first_access(machine)
    began, phase_ns = beginning(workload, run, begin, phase_ns, scheduler.hz, cpus=machine.cpus)
    start, all_of_it = _begun(workload, began, begin, access, machine.cpus)
    before = {task.name: task for task in run(start, phase_ns).tasks}
    # Timers count from the signal.
    whole = run(all_of_it, phase_ns, trace, began)
    own = [task for task in whole.tasks if task.name not in {RUNNER, _HOST}]
    marked = whole.turnaround_ns < whole.elapsed_ns
    return replace(
        whole,
        turnaround_ns=whole.turnaround_ns - (0 if marked else began),
        elapsed_ns=whole.elapsed_ns - began,
        tasks=tuple(_since(task, before.get(task.name)) for task in own),
    )


def in_session(workload: Workload) -> Workload:
    """Return the workload with all tasks that are in no session or group in the runner's session.

    A kernel with autogroup makes a group of them (`sched_autogroup_fork`,
    ``kernel/sched/autogroup.c``).
    """
    value = json.loads(workload.json)
    for task in value["tasks"]:
        if not task.get("taskgroup"):
            task.setdefault("session", RUNNER)
    return Workload.from_dict(value)


def _of_runner(machine: Machine, workload: Workload) -> Machine:
    """Return the machine with what making a process takes the runner.

    A task that makes processes copies three or four pages at each birth that it and the child share
    since (`do_wp_page`), and those of a hundred children need ever new slabs. The runner has few
    children, its first, and little memory: bare forks (`kernel_clone`, with the page of the stack,
    copied as the call returns), and one more page, in which it notes the child.

    There is one price for all: where tasks make processes themselves it is that of tasks.
    """
    tasks = json.loads(workload.json)["tasks"]
    bare = machine.costs.bare_fork
    if not bare or any(task["kind"] == "process" and not task["instances"] for task in tasks):
        return machine
    times = dict(machine.costs.times)
    times["fork_process"] = min(times["fork_process"], bare + _copied_page(machine))
    costs = replace(machine.costs, times=times)
    others = machine.background or "none"
    return Machine(machine.cpus, costs, machine.topology, machine.speed, others)


def _copied_page(machine: Machine) -> int:
    """Return what a fresh page takes that is filled with what another process has there."""
    times = machine.costs.times
    return times.get("page", 0) + 4 * times.get("copy_per_kib", 0)


def _begin(machine: Machine) -> int:
    """Return what a process takes from the signal to its first operation.

    Less what computing for so long costs besides: a step, and reading clocks.
    """
    times = machine.costs.times
    besides = times.get("operation", 0) + times.get("compute", 0)
    return max(0, times.get("begin_process", 0) - besides)


def _first_access(machine: Machine) -> int:
    """Return what a process takes for memory that it touches first as it first accesses a file."""
    return _TOUCHED * _copied_page(machine)


def beginning(
    workload: Workload,
    run: Callable[[Workload, int], Outcome],
    begin_ns: int,
    phase_ns: int,
    hz: int,
    *,
    cpus: int = 1,
) -> tuple[int, int]:
    """Return how long the runner's beginning takes, and how long after a tick that begins.

    It takes the same time whatever follows, but for the ticks within it, which come elsewhere with
    where it begins.

    Args:
        workload: what runs after it.
        run: simulates a workload that begins so long after a tick.
        begin_ns: what a process takes from the signal to its first operation.
        phase_ns: how long after a tick the signal is to come.
        hz: timer interrupts a second.
        cpus: the machine's.

    Raises:
        RunError: longer than the workload's duration.
    """
    duration = workload.duration_ns
    whole = with_runner(workload, duration_ns=duration, begin_ns=begin_ns, cpus=cpus)

    def took(phase_ns: int) -> int:
        found = run(whole, phase_ns).latencies.get(_BEGUN)
        if found is None:
            raise RunError(f"'{workload.name}' has not begun after its duration")
        # Where nothing but work takes time the beginning takes none, and no run is as short.
        return max(found.max_ns, 1)

    period = 1_000_000_000 // hz
    phase = phase_ns
    for _ in range(_ATTEMPTS):
        began = took(phase)
        if (phase + began - phase_ns) % period == 0:
            break
        # Ticks within it come elsewhere now, and take time themselves.
        phase = (phase_ns - began) % period
    else:
        began = took(phase)
    return began, phase


def _begun(
    workload: Workload, began: int, begin_ns: int, access_ns: int, cpus: int
) -> tuple[Workload, Workload]:
    """Return the runner's beginning alone, and with the workload's whole run after it."""
    duration = workload.duration_ns
    whole = None if duration is None else duration + began
    start, all_of_it = (
        with_runner(workload, duration_ns=length, begin_ns=begin_ns, access_ns=access_ns, cpus=cpus)
        for length in (began, whole)
    )
    return start, all_of_it


def _since(task: TaskOutcome, before: TaskOutcome | None) -> TaskOutcome:
    """Return what a task got since it had got that. The longest delay stays the longest of all."""
    if before is None:
        # Another task made it later.
        return task
    kept = {"name", "source", "max_delay_ns"}
    names = [part.name for part in fields(TaskOutcome) if part.name not in kept]
    return replace(task, **{name: getattr(task, name) - getattr(before, name) for name in names})


def _is_real_time(task: dict[str, Any]) -> bool:
    policy = (task.get("attributes") or {}).get("policy")
    return isinstance(policy, dict) and not {"fifo", "rr"}.isdisjoint(policy)


def _has(steps: Any, kinds: set[str]) -> bool:
    """Return whether a step, or one within it, is of such a kind."""
    if isinstance(steps, dict):
        return not kinds.isdisjoint(steps) or any(_has(step, kinds) for step in steps.values())
    return isinstance(steps, list) and any(_has(step, kinds) for step in steps)


def _first(tasks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [task for task in tasks if task["instances"]]


def _process(name: str, steps: list[Any]) -> dict[str, Any]:
    return {"name": name, "instances": 1, "kind": "process", "steps": steps}
