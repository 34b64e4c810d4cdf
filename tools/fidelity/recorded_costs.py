"""Costs as a recording sees them: from a wake-up to the switch that follows it.

`schedlab calibrate` measures from without what waking and switching take in all. A recording cuts
that in two at its own two points: a woken task waits from the one (`sched_waking`, where the
wake-up begins) to the other (`sched_switch`, ``kernel/sched/core.c``, `__schedule`, when the next
task has been picked and put in place, and before it has its registers). How much of a switch, of a
timer's interrupt and of the end of an idle period lies before that point cannot be told from
without; so a task is recorded that is woken again and again, and the costs are divided there. Their
sum stays what it was.
"""

from dataclasses import dataclass, replace

from schedlab.model import Costs, Workload, format_time

TIMES = 100
"""How often a task is woken that is recorded."""


@dataclass(frozen=True, slots=True)
class Waits:
    """Median times from a wake-up to the switch, in nanoseconds.

    Attributes:
        call: of a task that the current task wakes, and that preempts it.
        timer: of one that a timer wakes, and that preempts the current task.
        idle: of one that a timer wakes on an idle CPU that has its tick.
        tickless: of one on a CPU that had stopped it.
    """

    call: float
    timer: float
    idle: float
    tickless: float


def woken(hz: int) -> dict[str, Workload]:
    """Return the workloads whose waits are recorded, by the names of `Waits`.

    A task is woken about every quarter of a tick's period, through which a CPU keeps its tick, or
    after nine, for which it stops it. Where it preempts, the other one is SCHED_IDLE, which a
    wake-up of any other task preempts (`wakeup_preempt_fair`). All are on one CPU.

    >>> list(woken(250))
    ['call', 'timer', 'idle', 'tickless']
    """
    quarter = 250_000_000 // hz
    sleeps, later = _lasting("sleep", quarter), _lasting("sleep", 9 * quarter)
    computes = _task("computes", [_lasting("run", 2 * TIMES * quarter)], "idle")
    wakes = _task("wakes", _times([_lasting("run", quarter), {"post": "turn"}]), "idle")
    found = {
        "call": [_task("woken", _times([{"acquire": "turn"}])), wakes],
        "timer": [_task("woken", _times([sleeps])), computes],
        "idle": [_task("woken", _times([sleeps]))],
        "tickless": [_task("woken", _times([later]))],
    }
    return {
        name: Workload.from_dict({"name": name, "tasks": tasks}) for name, tasks in found.items()
    }


def _lasting(what: str, time: int) -> dict[str, object]:
    return {what: {"fixed": format_time(time)}}


def _times(steps: list[object]) -> list[object]:
    return [{"loop": {"count": TIMES, "steps": steps}}]


def _task(name: str, steps: list[object], policy: str = "other") -> dict[str, object]:
    attributes = {"affinity": [0], "policy": policy}
    task = {"name": name, "instances": 1, "kind": "process", "steps": steps}
    return {**task, "attributes": attributes}


def as_seen(costs: Costs, waits: Waits) -> Costs:
    """Return costs that are divided where a recording divides them.

    Args:
        costs: as they were measured from without, while all was recorded.
        waits: what was recorded.

    >>> times = {"wakeup": 5000, "schedule": 1000, "switch": 6000, "block": 3000,
    ...          "timer_taken": 4000}
    >>> seen = as_seen(Costs("measured", times), Waits(8400.0, 9000.0, 11000.0, 11700.0)).times
    >>> [seen[name] for name in ("wakeup", "schedule", "switch", "block", "timer_taken")]
    [5000, 3400, 3600, 5400, 4000]
    >>> [seen[name] for name in ("timer_switch", "idle_switch", "tick_restart")]
    [600, 2000, 700]

    On some kernels an idle CPU, which has no task to put back, switches sooner than one whose task
    is preempted: here by 1.7 us of the pass.

    >>> times = as_seen(Costs("measured", times), Waits(8400.0, 9000.0, 7300.0, 8000.0)).times
    >>> [times[name] for name in ("schedule", "timer_switch", "put_prev", "tick_restart")]
    [3400, 600, 1700, 700]
    """
    times = dict(costs.times)
    pick = round(waits.call) - times["wakeup"] - times["schedule"]
    # A switch cannot begin before the scheduler's pass, nor end before it is seen.
    pick = min(max(pick, -times["schedule"], -times["block"]), times["switch"])
    times["schedule"] += pick
    times["switch"] -= pick
    # The task that goes to sleep picks the next one.
    times["block"] += pick
    seen = times["wakeup"] + times["schedule"]
    # The interrupt of a timer ends alike where it ends an idle period.
    times["timer_switch"] = max(0, round(waits.timer) - seen)
    beyond = round(waits.idle) - seen - times["timer_switch"]
    times["idle_switch"] = max(0, beyond)
    times["put_prev"] = min(max(0, -beyond), times["schedule"])
    times["tick_restart"] = max(0, round(waits.tickless) - round(waits.idle))
    return replace(costs, times=times)
