"""Costs as a recording sees them: from a wake-up to the switch that follows it.

`schedlab calibrate` measures from without what waking and switching take in all. A recording cuts
that in two at its own two points: a woken task waits from the one (`sched_waking`, where the
wake-up begins) to the other (`sched_switch`, ``kernel/sched/core.c``, `__schedule`, when the next
task has been picked and put in place, and before it has its registers). How much of a switch lies
before that point cannot be told from without; so one task that sleeps again and again on an idle
CPU is recorded, and the costs are divided there. Their sum stays what it was.
"""

from dataclasses import replace

from schedlab.model import Costs, Workload, format_time

TIMES = 100
"""How often the task sleeps that is recorded."""

SPANS = (1, 9)
"""Quarters of the tick's period that it sleeps for: through the one a CPU keeps its tick, for the
other it stops it."""


def sleeper(hz: int, quarters: int) -> Workload:
    """Return a task that sleeps for so many quarters of a tick's period, again and again.

    >>> sleeper(250, 9).name
    'sleeper'
    """
    span = quarters * 250_000_000 // hz
    sleeps = {"loop": {"count": TIMES, "steps": [{"sleep": {"fixed": format_time(span)}}]}}
    task = {"name": "sleeper", "instances": 1, "kind": "process", "steps": [sleeps]}
    return Workload.from_dict({"name": "sleeper", "tasks": [task]})


def as_seen(costs: Costs, short_ns: float, long_ns: float) -> Costs:
    """Return costs that are divided where a recording divides them.

    Args:
        costs: as they were measured from without, while all was recorded.
        short_ns: from the wake-up to the switch on a CPU that has its tick.
        long_ns: the same on one that had stopped it.

    >>> times = {"wakeup": 5000, "schedule": 1000, "switch": 6000, "block": 3000,
    ...          "tick_restart": 2900}
    >>> as_seen(Costs("measured", times), 8400.0, 9100.0).times == {
    ...     "wakeup": 5000, "schedule": 3400, "switch": 3600, "block": 5400, "tick_restart": 700}
    True
    """
    times = dict(costs.times)
    pick = round(short_ns) - times["wakeup"] - times["schedule"]
    # A switch cannot begin before the scheduler's pass, nor end before it is seen.
    pick = min(max(pick, -times["schedule"], -times["block"]), times["switch"])
    times["schedule"] += pick
    times["switch"] -= pick
    # The task that goes to sleep picks the next one.
    times["block"] += pick
    times["tick_restart"] = max(0, round(long_ns - short_ns))
    return replace(costs, times=times)
