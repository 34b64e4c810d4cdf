"""A regression on real kernels: both releases in guests, and the settings that undo it."""

import re
import tempfile
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from schedlab.attribution.waiting import why_recorded
from schedlab.boundary.errors import InputError
from schedlab.experiment.stats import Estimate, paired_ratio
from schedlab.measure.recording import record
from schedlab.model import Workload
from schedlab.model.outcome import Outcome
from schedlab.processes import lease
from schedlab.regression.regress import Regression, metric_of
from schedlab.targets import vm
from schedlab.vm import Guest
from schedlab.vm.command import counts_several

__all__ = ["Check", "Verdict", "reader", "verify"]

RUNS = 4
"""Seeds that each kernel and setting is run with."""

_COMM = 15
"""Bytes of a task's name that the kernel keeps (`TASK_COMM_LEN`)."""

Verdict = Literal["agrees", "same direction", "disagrees", "inconclusive"]


@dataclass(frozen=True, slots=True)
class Check:
    """One predicted factor beside the measured one, both against the old kernel.

    Attributes:
        what: the new kernel, or the setting of it.
        predicted: by simulation.
        measured: in the guests.
        verdict: ``agrees`` where the intervals overlap; ``inconclusive`` where they do and the
            measured one holds 1 as well, which the predicted one excludes; ``same direction``
            where both factors lie on the same side of 1, beyond chance; else ``disagrees``.
    """

    what: str
    predicted: Estimate
    measured: Estimate
    verdict: Verdict


def reader(metric: str) -> Callable[[Workload, Guest, int], float]:
    """Return what runs a workload in a guest, with a seed, and reads a metric.

    Percentiles are those of a recording of the run (level L0); its cost is part of the waits, under
    both kernels alike.

    Raises:
        InputError: it names no metric.

    >>> reader("p99")
    Traceback (most recent call last):
    ...
    schedlab.boundary.errors.InputError: metric 'p99'; allowed: p99:NAME (any percentile), \
wait:NAME, run:NAME, turnaround, switches
    """
    _, percentile = metric_of(metric)
    kind, _, name = metric.partition(":")
    if kind not in ("run", "wait", "turnaround", "switches"):
        return lambda workload, guest, seed: _recorded(workload, guest, seed, name, percentile)
    read = _of_outcome(kind, name)
    return lambda workload, guest, seed: read(vm.run(workload, guest, seed=seed, delays=True))


def _recorded(workload: Workload, guest: Guest, seed: int, name: str, percentile: float) -> float:
    """Return a percentile of a kind of task's waits, of a recording of a run."""
    with tempfile.TemporaryDirectory(prefix="schedlab-") as directory:
        path = Path(directory) / "trace.txt"
        record(path, workload, guest=guest, level="L0", seed=seed)
        task = why_recorded(path, task=name[:_COMM], percentile=percentile, worst=0).task
    if task is None:
        raise InputError(f"no task '{name}' waited in the guest of {guest.kernel.release}")
    return task.percentile_ns


def _of_outcome(kind: str, name: str) -> Callable[[Outcome], float]:
    if kind == "turnaround":
        return lambda run: run.turnaround_ns
    if kind == "switches":
        return lambda run: run.switches

    def read(run: Outcome) -> float:
        tasks = [task for task in run.tasks if re.split(r"[.\[]", task.name)[0] == name]
        if not tasks:
            raise InputError(f"no task '{name}' ran in the guest of {run.release}")
        return sum(task.run_ns if kind == "run" else task.wait_ns for task in tasks)

    return read


def verify(
    found: Regression, workload: Workload, *, cpus: int, seed: int = 1, runs: int = RUNS
) -> tuple[Check, ...]:
    """Run both kernels in guests, and the new one under each setting that undoes the difference.

    Args:
        found: what simulations say.
        workload: what they ran.
        cpus: CPUs of the guests.
        seed: the first of the seeds.
        runs: seeds of each kernel and setting, 2 or more.

    Raises:
        InputError: the metric names no task that ran, or a kernel is not to be found.
        RunError: a guest dies, or a run comes to no end.
    """
    read = reader(found.metric)
    seeds = range(seed, seed + runs)
    # Where the guest's clock counts instructions nothing that this machine does lengthens a run.
    clock = "instructions" if cpus == 1 or counts_several() else "host"
    with Guest.boot(_series(found.old), cpus=cpus, clock=clock) as guest:
        base = _values(workload, guest, read, seeds, {})
    checks = []
    with Guest.boot(_series(found.new), cpus=cpus, clock=clock) as guest:
        predictions: list[tuple[str, Estimate, dict[str, str]]] = [(found.new, found.total, {})]
        for undo in found.undo:
            name, _, value = undo.setting.partition("=")
            predictions.append((f"{found.new} with {undo.setting}", undo.ratio, {name: value}))
        for what, predicted, knobs in predictions:
            measured = paired_ratio(base, _values(workload, guest, read, seeds, knobs))
            checks.append(Check(what, predicted, measured, verdict(predicted, measured)))
    return tuple(checks)


def _series(release: str) -> str:
    """Return the series of a release, of which any kernel that is there will do."""
    return ".".join(release.removeprefix("~").split(".")[:2])


def _values(
    workload: Workload,
    guest: Guest,
    read: Callable[[Workload, Guest, int], float],
    seeds: Sequence[int],
    knobs: dict[str, str],
) -> list[float]:
    def one(seed: int) -> float:
        # Set anew for each run: a guest may have been booted again.
        with vm.guest_knobs.applied(guest, knobs):
            return max(1.0, read(workload, guest, seed))

    with lease.exclusive() if guest.clock == "host" else nullcontext():
        return [one(seed) for seed in seeds]


def verdict(predicted: Estimate, measured: Estimate) -> Verdict:
    """Return whether a measured factor is the predicted one."""
    one, other = predicted.interval, measured.interval
    if one.low <= other.high and other.low <= one.high:
        excludes = one.low > 1 or one.high < 1
        return "inconclusive" if excludes and other.low <= 1 <= other.high else "agrees"
    beyond = (one.low > 1 and other.low > 1) or (one.high < 1 and other.high < 1)
    return "same direction" if beyond else "disagrees"
