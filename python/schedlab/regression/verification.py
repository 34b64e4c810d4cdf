"""A regression on real kernels: both releases in guests, and the settings that undo it."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from schedlab.boundary.errors import InputError
from schedlab.experiment.stats import Estimate, paired_ratio
from schedlab.model import Workload
from schedlab.model.outcome import Outcome
from schedlab.regression.regress import Regression
from schedlab.targets import vm
from schedlab.vm import Guest

__all__ = ["Check", "Verdict", "reader", "verify"]

RUNS = 4
"""Seeds that each kernel and setting is run with."""

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


def reader(metric: str) -> Callable[[Outcome], float]:
    """Return what reads a metric from a real run.

    Raises:
        InputError: real runs do not measure it.

    >>> reader("p99:worker")
    Traceback (most recent call last):
    ...
    schedlab.boundary.errors.InputError: --verify with metric 'p99:worker'; allowed: \
turnaround, switches, run:NAME, wait:NAME
    """
    if metric == "turnaround":
        return lambda run: run.turnaround_ns
    if metric == "switches":
        return lambda run: run.switches
    kind, _, name = metric.partition(":")
    if kind not in ("run", "wait") or not name:
        raise InputError(
            f"--verify with metric '{metric}'; allowed: turnaround, switches, run:NAME, wait:NAME"
        )

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
        InputError: real runs do not measure the metric, or a kernel is not to be found.
        RunError: a guest dies, or a run comes to no end.
    """
    read = reader(found.metric)
    seeds = range(seed, seed + runs)
    # On one CPU the guest's clock counts instructions: nothing that this
    # machine does lengthens a run.
    clock = "instructions" if cpus == 1 else "host"
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
    read: Callable[[Outcome], float],
    seeds: Sequence[int],
    knobs: dict[str, str],
) -> list[float]:
    runs = (vm.run(workload, guest, knobs=knobs, seed=seed, delays=True) for seed in seeds)
    return [max(1.0, read(run)) for run in runs]


def verdict(predicted: Estimate, measured: Estimate) -> Verdict:
    """Return whether a measured factor is the predicted one."""
    one, other = predicted.interval, measured.interval
    if one.low <= other.high and other.low <= one.high:
        excludes = one.low > 1 or one.high < 1
        return "inconclusive" if excludes and other.low <= 1 <= other.high else "agrees"
    beyond = (one.low > 1 and other.low > 1) or (one.high < 1 and other.high < 1)
    return "same direction" if beyond else "disagrees"
