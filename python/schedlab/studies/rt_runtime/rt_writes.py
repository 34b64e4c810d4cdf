"""Asynchronous writes beside a real-time task: what a limit gives the writers, and what it costs.

The same workload runs in the simulator and on real kernels, where its writes are a file's that
bypasses the page cache. Writers are measured by what they write, the real-time task by how many of
its jobs, one every 10 ms, it does, and how long the longest takes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from schedlab.experiment import stats
from schedlab.experiment.settings import Setting
from schedlab.experiment.subjects import Conditions, Described, Measured, Metric
from schedlab.model import Machine, Scheduler, Workload
from schedlab.studies import programs
from schedlab.studies.study import Cell, Claim, Request, Table, judged
from schedlab.targets.sim import simulate
from schedlab.targets.target import Target

SHARES = (0.3, 0.6, 1.0)
"""Of the CPU that the FIFO task asks for."""

LIMITS = ("100ms", "300ms", "500ms", "700ms", "950ms")
SERVERS = ("10ms", "50ms", "250ms", "500ms")
"""The fair server's runtime in a second, on kernels that have it."""

_LITTLE = ("100ms", "500ms", "950ms")
_LITTLE_SERVERS = ("50ms", "500ms")
_SECONDS = 2
"""Periods of a second that a real run lasts."""

_FILE = 64 << 20
"""Bytes: fits on the disk of a guest, which is in its memory."""

_SAME = 0.05


@dataclass(frozen=True, slots=True)
class Written:
    """What one run came to.

    Attributes:
        bandwidth: of the writers, MB/s.
        jobs: that the real-time task did, of those that were due.
        longest: of its jobs, in seconds.
    """

    bandwidth: float
    jobs: float
    longest: float


def written(outcome: Mapping[str, Any]) -> Written:
    """Return a run's result from its outcome as plain data.

    >>> latencies = {"write": {"count": 1000}, "job": {"count": 50, "max_ns": 20_000_000}}
    >>> written({"latencies": latencies, "elapsed_ns": 10**9})
    Written(bandwidth=65.536, jobs=0.5, longest=0.02)
    """
    seconds = outcome["elapsed_ns"] / 1e9
    latencies = outcome["latencies"]
    writes = latencies.get("write", {"count": 0})["count"]
    job = latencies.get("job", {"count": 0, "max_ns": 0})
    due = seconds * 1000 / programs.JOB_MS
    return Written(
        writes * programs.WRITTEN / 1e6 / seconds, job["count"] / due, job["max_ns"] / 1e9
    )


def simulated(
    release: str, knobs: Mapping[str, str], share: float, seconds: int, machine: Machine
) -> Written:
    """Simulate writers beside a real-time task of a share of the CPU; 0 means no such task."""
    outcome = simulate(
        programs.writing(seconds, share),
        scheduler=Scheduler(release, knobs=knobs),
        machine=machine,
    )
    found = {
        name: {"count": one.count, "max_ns": one.max_ns} for name, one in outcome.latencies.items()
    }
    return written({"latencies": found, "elapsed_ns": outcome.elapsed_ns})


@dataclass(frozen=True, slots=True)
class Beside(Described):
    """Writers beside a real-time task, measured as `Written` is."""

    metrics: tuple[Metric, ...] = (
        Metric.known("bandwidth", "MB/s"),
        Metric("jobs", "", "higher"),
        Metric("longest", "s", "lower"),
    )

    def measure(self, target: Target, under: Conditions) -> Measured:
        """Run them once."""
        # An explicit call: the data class with slots is not the class that super() would mean.
        measured = Described.measure(self, target, under)
        found = written(measured.outcome)
        values = {"bandwidth": found.bandwidth, "jobs": found.jobs, "longest": found.longest}
        return Measured(values, measured.outcome)


Key = tuple[str, str, float]
"""Knob, its value, and the FIFO task's share."""

Runs = Mapping[Key, Sequence[Mapping[str, float]]]
"""Real runs."""


def settings(throttles: bool, *, little: bool, quick: bool = False) -> list[Key]:
    """Return what is run on a kernel that throttles, or on one with a fair server.

    >>> settings(True, little=True)[:2]
    [('rt_runtime', '100ms', 0.3), ('rt_runtime', '500ms', 0.3)]
    >>> settings(False, little=True, quick=True)
    [('fair_server_runtime', '50ms', 1.0), ('fair_server_runtime', '500ms', 1.0)]
    """
    if quick:
        knob, values = (
            ("rt_runtime", ("100ms", "950ms"))
            if throttles
            else ("fair_server_runtime", _LITTLE_SERVERS)
        )
        return [(knob, value, 1.0) for value in values]
    limits = _LITTLE if little else LIMITS
    if throttles:
        return [("rt_runtime", value, share) for share in SHARES for value in limits]
    servers = _LITTLE_SERVERS if little else SERVERS
    return [
        *(("rt_runtime", value, share) for share in SHARES for value in ("100ms", "950ms")),
        *(("fair_server_runtime", value, share) for share in SHARES for value in servers),
    ]


def measured(request: Request, target: str, *, throttles: bool) -> Runs:
    """Run writers beside the FIFO task under every setting, interleaved, on one CPU."""
    assert request.measure is not None
    keys = settings(throttles, little=request.measures_little, quick=request.quick)
    works: dict[float, Workload] = {
        share: programs.writing(_SECONDS, share, _FILE, cpus=(0,)) for share in SHARES
    }
    arms = {
        f"{knob} {value} {share}": (Beside(works[share]), Setting({knob: value}))
        for knob, value, share in keys
    }
    blocks = request.blocks_of(target, 6, 2 if request.quick else 3)
    runs = request.measure("writes beside a FIFO task", arms, target, blocks=blocks)
    return {key: runs[name] for key, name in zip(keys, arms, strict=True) if name in runs}


def _values(runs: Runs, key: Key, metric: str) -> stats.FloatArray:
    return np.array([run[metric] for run in runs[key]])


def _middle(runs: Runs, key: Key, metric: str) -> float:
    return median(run[metric] for run in runs[key])


def claims(target: str, runs: Runs) -> list[Claim]:
    """Judge what the limit, or the fair server, does on a real kernel, as far as it was run."""
    served = any(knob == "fair_server_runtime" for knob, _, _ in runs)
    # Who judges, of which knob's values beside which task.
    judges: list[tuple[Callable[[str, Runs], Claim], str, tuple[str, ...], float]] = (
        [
            (_unlimited, "rt_runtime", ("100ms", "950ms"), 0.6),
            (_served, "fair_server_runtime", _LITTLE_SERVERS, 1.0),
        ]
        if served
        else [
            (_left, "rt_runtime", ("100ms", "950ms"), 1.0),
            (_costs, "rt_runtime", ("500ms", "950ms"), 0.6),
            (_idle, "rt_runtime", ("500ms", "950ms"), 0.3),
        ]
    )
    return [
        judge(target, runs)
        for judge, knob, values, share in judges
        if all((knob, value, share) in runs for value in values)
    ]


def _ordered(runs: Runs, knob: str, share: float) -> list[str]:
    values = [value for one, value, other in runs if one == knob and other == share]
    return sorted(values, key=lambda value: int(value.removesuffix("ms")))


def _left(target: str, runs: Runs) -> Claim:
    ordered = _ordered(runs, "rt_runtime", 1.0)
    speeds = [_middle(runs, ("rt_runtime", value, 1.0), "bandwidth") for value in ordered]
    least, most = (("rt_runtime", value, 1.0) for value in (ordered[0], ordered[-1]))
    ratio = stats.paired_ratio(_values(runs, most, "bandwidth"), _values(runs, least, "bandwidth"))
    falls = speeds == sorted(speeds, reverse=True)
    return Claim(
        f"{target}: beside a FIFO task that never sleeps real writers get what rt_runtime leaves",
        "not in the report",
        f"{ratio.value:.1f} times as much at {ordered[0]} as at {ordered[-1]}"
        + (", falling throughout" if falls else ""),
        judged(falls and ratio.interval.low > 2, against=ratio.interval.high < 1),
        (ratio.interval.low, ratio.interval.high),
    )


def _costs(target: str, runs: Runs) -> Claim:
    below, above = ("rt_runtime", "500ms", 0.6), ("rt_runtime", "950ms", 0.6)
    ratio = stats.paired_ratio(_values(runs, above, "bandwidth"), _values(runs, below, "bandwidth"))
    jobs = [_middle(runs, key, "jobs") for key in (below, above)]
    longest = [1000 * _middle(runs, key, "longest") for key in (below, above)]
    return Claim(
        f"{target}: a limit below what the FIFO task asks for takes from it and gives to writers",
        "not in the report",
        f"500 ms for a task of 60 %: {ratio.value - 1:+.0%} bandwidth against 950 ms; the task "
        f"does {jobs[0]:.0%} of its jobs in place of {jobs[1]:.0%}, the longest takes "
        f"{longest[0]:.0f} ms in place of {longest[1]:.0f}",
        judged(
            ratio.interval.low > 1 and jobs[0] < jobs[1] - _SAME, against=ratio.interval.high < 1
        ),
        (ratio.interval.low, ratio.interval.high),
    )


def _idle(target: str, runs: Runs) -> Claim:
    below, above = ("rt_runtime", "500ms", 0.3), ("rt_runtime", "950ms", 0.3)
    ratio = stats.paired_ratio(_values(runs, above, "bandwidth"), _values(runs, below, "bandwidth"))
    ends = (ratio.interval.low, ratio.interval.high)
    same = ends[0] > 1 / (1 + _SAME) and ends[1] < 1 + _SAME
    return Claim(
        f"{target}: a limit above what the FIFO task asks for does nothing",
        "not in the report",
        f"500 ms for a task of 30 %: {ratio.value - 1:+.1%} bandwidth against 950 ms",
        judged(same, against=ends[0] > 1 + _SAME or ends[1] < 1 / (1 + _SAME)),
        ends,
    )


def _unlimited(target: str, runs: Runs) -> Claim:
    keys = [("rt_runtime", value, 0.6) for value in ("100ms", "950ms")]
    jobs = [_middle(runs, key, "jobs") for key in keys]
    ratio = stats.paired_ratio(*(_values(runs, key, "bandwidth") for key in reversed(keys)))
    ends = (ratio.interval.low, ratio.interval.high)
    same = ends[0] > 1 / (1 + _SAME) and ends[1] < 1 + _SAME
    return Claim(
        f"{target}: rt_runtime does not throttle",
        "not in the report",
        f"a FIFO task of 60 % does {jobs[0]:.0%} of its jobs at 100 ms and {jobs[1]:.0%} at "
        f"950 ms; writers have {ratio.value - 1:+.1%} bandwidth",
        judged(same and min(jobs) > 1 - _SAME, against=max(jobs) < 1 - _SAME),
        ends,
    )


def _served(target: str, runs: Runs) -> Claim:
    ordered = _ordered(runs, "fair_server_runtime", 1.0)
    speeds = [_middle(runs, ("fair_server_runtime", value, 1.0), "bandwidth") for value in ordered]
    least, most = (("fair_server_runtime", value, 1.0) for value in (ordered[0], ordered[-1]))
    ratio = stats.paired_ratio(_values(runs, least, "bandwidth"), _values(runs, most, "bandwidth"))
    return Claim(
        f"{target}: beside a FIFO task that never sleeps the fair server's runtime decides",
        "not in the report",
        f"{ratio.value:.1f} times as much at {ordered[-1]} as at {ordered[0]}; the task's jobs: "
        f"{_middle(runs, least, 'jobs'):.0%} and {_middle(runs, most, 'jobs'):.0%}",
        judged(
            speeds == sorted(speeds) and ratio.interval.low > 2, against=ratio.interval.high < 1
        ),
        (ratio.interval.low, ratio.interval.high),
    )


def drawn(
    target: str, runs: Runs, named: Callable[[float], str], knob: str = "rt_runtime"
) -> list[dict[str, object]]:
    """Return the rows of a figure of real runs under a knob's values: medians, standard errors.

    Args:
        target: where they ran.
        runs: all of them.
        named: gives a share's line its name.
        knob: whose values are drawn.
    """
    return [
        {
            "value": float(value.removesuffix("ms")),
            "speed": _middle(runs, (one, value, share), "bandwidth"),
            "low": _middle(runs, (one, value, share), "bandwidth") - error,
            "high": _middle(runs, (one, value, share), "bandwidth") + error,
            "jobs": 100 * _middle(runs, (one, value, share), "jobs"),
            "who": named(share),
            "panel": target,
        }
        for one, value, share in runs
        if one == knob
        for error in [_error(runs, (one, value, share))]
    ]


def _error(runs: Runs, key: Key) -> float:
    """Return the standard error of the mean bandwidth."""
    speeds = _values(runs, key, "bandwidth")
    return float(speeds.std(ddof=1)) / len(speeds) ** 0.5 if len(speeds) > 1 else 0.0


def table(found: Mapping[str, Runs]) -> tuple[Table, ...]:
    """Return what each task got on real kernels."""
    rows: list[tuple[Cell, ...]] = []
    for target, runs in found.items():
        for key, values in runs.items():
            speeds = _values(runs, key, "bandwidth")
            error = _error(runs, key)
            rows.append(
                (
                    target,
                    key[0],
                    key[1],
                    key[2],
                    len(values),
                    median(speeds),
                    error,
                    _middle(runs, key, "jobs"),
                    1000 * _middle(runs, key, "longest"),
                )
            )
    columns = (
        *("target", "knob", "value", "FIFO task's share", "runs", "median MB/s"),
        *("standard error", "jobs done", "longest job (ms)"),
    )
    title = "Real writers beside a FIFO task: what they write, and what its jobs come to"
    return (Table("writes_beside", title, columns, tuple(rows)),) if rows else ()
