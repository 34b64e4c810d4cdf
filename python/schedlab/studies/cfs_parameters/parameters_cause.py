"""Why ``latency`` moves a web server: through wakeup preemption.

A sleeper is placed half of ``latency`` before the others (``place_entity`` of 5.10's
``kernel/sched/fair.c``, GENTLE_FAIR_SLEEPERS), and preempts the current task where it is ahead by
more than ``wakeup_granularity`` (``wakeup_preempt_entity``). Two otherwise unrelated settings
should then do the same, a small latency and a large granularity; and a small granularity should
undo what a small latency does.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

import numpy as np

from schedlab.experiment import stats
from schedlab.experiment.settings import Setting
from schedlab.programs.apache import Apache
from schedlab.studies.cfs_parameters.parameters import DEFAULTS, SHORTEST
from schedlab.studies.cfs_parameters.parameters_simulated import served, throughput
from schedlab.studies.study import Arm, Cell, Claim, Request, Table, judged

CONNECTIONS = 100
SETTINGS: Mapping[str, Mapping[str, str]] = {
    "default": {},
    "latency 1ms": {"latency": "1ms"},
    "wakeup_granularity 12ms": {"wakeup_granularity": "12ms"},
    "latency 1ms, wakeup_granularity 100us": {"latency": "1ms", "wakeup_granularity": "100us"},
}
"""The granularity that is above half of the default latency, and one that is below half of 1 ms."""

_DEFAULT, _SHORT, _COARSE, _FINE = SETTINGS
_LONGER = 5
"""Seconds of the runs that show how much is the making of connections."""

_BLOCKS = 6
"""Pairs at the least: what a verdict with 95 % takes."""

Runs = Mapping[tuple[str, int], stats.FloatArray]
"""Requests a second by setting and seconds of a run."""


@dataclass(frozen=True, slots=True)
class Simulated:
    """What a setting comes to in simulation.

    Attributes:
        requests: a second.
        switches: a request.
    """

    requests: float
    switches: float


def simulated(time: str, *, quick: bool) -> dict[str, Simulated]:
    """Simulate the settings, and return the medians of their runs.

    Args:
        time: that a run lasts.
        quick: fewer runs.
    """
    found = {}
    for name, knobs in SETTINGS.items():
        runs = served(CONNECTIONS, time, knobs, quick=quick)
        switches = [one.switches / one.latencies["answer"].count for one in runs]
        found[name] = Simulated(median(map(throughput, runs)), median(switches))
    return found


def measured(request: Request, target: str) -> Runs:
    """Run Apache under the settings, interleaved; nothing where it is the small version."""
    if request.quick:
        return {}
    assert request.measure is not None
    arms: dict[str, Arm] = {}
    for seconds in (1, _LONGER):
        program = Apache.parse(f"apache:concurrency={CONNECTIONS},time={seconds}s")
        for name in SETTINGS if seconds == 1 else (_DEFAULT, _SHORT):
            knobs = {**DEFAULTS, **SHORTEST, **SETTINGS[name]}
            arms[f"{name} {seconds}"] = (program, Setting(knobs))
    blocks = max(_BLOCKS, request.blocks_of(target, 12, _BLOCKS))
    runs = request.measure("cfs_parameters: wakeup preemption", arms, target, blocks=blocks)
    return {
        (name.rpartition(" ")[0], int(name.rpartition(" ")[2])): np.array(
            [one["requests"] for one in values]
        )
        for name, values in runs.items()
    }


def claim(target: str, runs: Runs) -> Claim:
    """Judge whether it is wake-up preemption that ``latency`` acts by on a real kernel."""
    base = runs[_DEFAULT, 1]
    ratios = {name: stats.paired_ratio(base, runs[name, 1]) for name in SETTINGS}
    same, undone = ratios[_COARSE], ratios[_FINE]
    gain = ratios[_SHORT].value - 1
    return Claim(
        f"{target}: latency acts on Apache through wakeup preemption",
        "not in the report",
        f"{_SHORT} {gain:+.1%}; {_COARSE} {same.value - 1:+.1%} (interval), with the default "
        f"latency; {_FINE} {undone.value - 1:+.1%}; {len(base)} interleaved runs of each",
        judged(
            same.interval.low > 1 and same.value - 1 > gain / 2 and undone.value - 1 < gain / 2,
            against=same.interval.high < 1 or undone.value - 1 > gain,
        ),
        (same.interval.low, same.interval.high),
    )


def table(ours: Mapping[str, Simulated], real: Mapping[str, Runs]) -> Table:
    """Return all settings, simulated and real, against the default."""
    rows: list[tuple[Cell, ...]] = [
        (
            "sim",
            name,
            "",
            one.requests,
            f"{one.requests / ours[_DEFAULT].requests - 1:+.1%}",
            "",
            round(one.switches, 2),
        )
        for name, one in ours.items()
    ]
    for target, runs in real.items():
        for (name, seconds), values in runs.items():
            ratio = stats.paired_ratio(runs[_DEFAULT, seconds], values)
            ends = f"{ratio.interval.low - 1:+.1%} to {ratio.interval.high - 1:+.1%}"
            rows.append(
                (
                    target,
                    name,
                    f"{seconds} s",
                    median(values.tolist()),
                    f"{ratio.value - 1:+.1%}",
                    "" if name == _DEFAULT else ends,
                    None,
                )
            )
    columns = (
        *("where", "setting", "run", "requests/s", "against the default", "95 %"),
        "switches a request",
    )
    title = f"Why latency acts: {CONNECTIONS} connections, with and without wakeup preemption"
    return Table("cause", title, columns, tuple(rows))


def note(target: str, runs: Runs) -> str:
    """Say how much of it is left in runs so long that making connections hardly counts.

    >>> runs = {(name, time): np.array([speed, speed]) for name, time, speed in (
    ...     ("default", 1, 450.0), ("latency 1ms", 1, 500.0), ("default", 5, 650.0),
    ...     ("latency 1ms", 5, 680.0))}
    >>> note("vm:5.10@icount", runs)[-40:]
    'the rest of it is in making connections.'
    """
    gains = [
        stats.paired_ratio(runs[_DEFAULT, seconds], runs[_SHORT, seconds]).value - 1
        for seconds in (1, _LONGER)
    ]
    speeds = [median(runs[_DEFAULT, seconds].tolist()) for seconds in (1, _LONGER)]
    return (
        f"{target}: at {CONNECTIONS} connections {_SHORT} gains {gains[0]:+.1%} in runs of 1 s and "
        f"{gains[1]:+.1%} in runs of {_LONGER} s, where throughput is {speeds[0]:.0f} and "
        f"{speeds[1]:.0f} requests/s: the rest of it is in making connections."
    )
