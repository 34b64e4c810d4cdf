"""What else runs on a machine: measured by tracepoints, or taken from a recording."""

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from schedlab.boundary.errors import InputError, NotPermittedError
from schedlab.measure.inference import infer
from schedlab.model import Workload
from schedlab.model.background import Background, BackgroundTask, Period, checked
from schedlab.targets import host
from schedlab.vm.guest import Guest

PARTS = 8
"""Into how many equal parts the run times of a task are divided."""

FEWEST = 3
"""Wake-ups that a task must have had."""

MOST_TASKS = 24
"""Tasks that a machine's background has at most, those woken most often."""

MOST_OF_A_CPU = 0.05
"""The part of a CPU beyond which a program is a disturbance rather than what always runs."""

REGULAR = 0.3
"""Intervals whose standard deviation is below this part of their mean are regular."""


def measure(*, quick: bool = False, guest: Guest | None = None) -> tuple[Background | None, str]:
    """Watch what else runs on a machine, for six seconds, or three.

    Args:
        quick: take three seconds.
        guest: a guest that is up, which is watched in place of this machine.

    Returns:
        What was found, and a note: why there is nothing, or what was left out.
    """
    arguments = ["background", "--time", "1500ms" if quick else "3s"]
    try:
        if guest is None:
            said = host.native_program(arguments, timeout=60)
        else:
            command = [guest.inside(host.runner()), *arguments]
            said = host.printed(guest.run(command, timeout=1800))
    except (InputError, NotPermittedError) as error:
        return None, f"background activity was not measured: {error}"
    return background_of(json.loads(said))


def background_of(found: Mapping[str, Any]) -> tuple[Background, str]:
    """Return the background that ``schedlab-native background`` printed, and a note.

    Args:
        found: its two phases; what ran under load is simulated.
    """
    load, idle = found["load"], found["idle"]
    elapsed = load["elapsed_ns"]
    rare = {
        (one["name"], json.dumps(one["policy"]), one["nice"]): idle["elapsed_ns"]
        // len(one["runs_ns"])
        for one in idle["tasks"]
    }
    tasks: list[BackgroundTask] = []
    left_out: list[str] = []
    taken: dict[str, int] = {}
    for one in load["tasks"]:
        if len(one["runs_ns"]) < FEWEST:
            continue
        share = sum(one["runs_ns"]) / elapsed
        if one["class"] == "other" and share > MOST_OF_A_CPU:
            left_out.append(f"{one['name']} ({share:.0%} of a CPU)")
            continue
        if len(tasks) == MOST_TASKS:
            continue
        number = taken[one["name"]] = taken.get(one["name"], 0) + 1
        name = one["name"] if number == 1 else f"{one['name']}#{number}"
        key = (one["name"], json.dumps(one["policy"]), one["nice"])
        tasks.append(_task(name, one, elapsed, rare.get(key, 0)))
    note = ""
    if left_out:
        note = f"left out of the background, as no machine's habit: {', '.join(left_out)}"
    interrupts = {
        name: (one["count"] * 1e9 / elapsed, round(one["total_ns"] / one["count"]))
        for name, one in load["interrupts"].items()
    }
    background = Background(
        tasks=tuple(tasks),
        watched_ns=elapsed,
        paired=load["paired"],
        unpaired=load["unpaired"],
        lost=load["lost"],
        interrupts=interrupts,
    )
    return background, note


def _task(name: str, one: Mapping[str, Any], elapsed: int, idle_interval: int) -> BackgroundTask:
    runs, intervals = one["runs_ns"], one["intervals_ns"]
    mean = round(elapsed / len(runs))
    deviation = round(statistics.pstdev(intervals)) if intervals else 0
    own = round(statistics.fmean(intervals)) if intervals else mean
    # So many fit into the time, one more or one fewer by where that began. A burst leaves most of
    # the time free, and comes as seldom as it was seen.
    fills = abs(elapsed - len(runs) * own) <= own
    period: Period = "normal" if fills and deviation < REGULAR * own else "exponential"
    if period == "normal":
        mean = own
    policy = one["policy"]
    if isinstance(policy, dict):
        [(kind, priority)] = policy.items()
        policy = f"{kind}:{priority}"
    return BackgroundTask(
        name=name,
        kind=one["class"],
        policy=policy,
        nice=one["nice"],
        affinity=tuple(one["affinity"]),
        interval_ns=mean,
        deviation_ns=deviation if period == "normal" else 0,
        period=period,
        runs_ns=parts(runs),
        wakeups=len(runs),
        idle_interval_ns=idle_interval,
    )


def parts(times: Sequence[int]) -> tuple[int, ...]:
    """Return the means of equal parts of sorted times, so that their mean is that of all.

    >>> parts([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16])[:2]
    (2, 4)
    >>> parts([4, 6])
    (4, 6)
    """
    ordered = sorted(times)
    count = min(PARTS, len(ordered))
    means = []
    for part in range(count):
        # A part may begin and end within a time.
        low, high = part * len(ordered) / count, (part + 1) * len(ordered) / count
        total = 0.0
        for place in range(math.floor(low), math.ceil(high)):
            total += ordered[place] * (min(high, place + 1) - max(low, place))
        means.append(max(1, round(total / (high - low))))
    return tuple(means)


def background_from(path: Path | str) -> Workload:
    """Return what ran in a recording, or a workload's file, as background.

    Args:
        path: a recording, as `schedlab.measure.inference.infer` takes it, or a workload's
            ``.json``. What the recorded tasks did is repeated as long as a simulation takes; those
            that ended in the recording do it once.

    Raises:
        InputError: there is no such file, or it holds neither.
    """
    file = Path(path)
    if file.suffix == ".json":
        return checked(Workload.parse(str(file)).json)
    # Background tasks are charged no costs: their CPU time is all that was recorded.
    return checked(infer(file, costs="ideal", ending="time").workload.json)
