"""Which changes between two kernels make the difference, from simulations of hybrids between them.

First each change alone, added to the old kernel and taken back from the new one. The few that
matter then share the total by their Shapley values: the mean of what each adds over all orders in
which the changes can be made, so that what two do together is divided between them.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from schedlab.attribution.remedies import RunLengths, measure, most_hurt, samples
from schedlab.boundary.errors import InputError
from schedlab.experiment.stats import Estimate, bootstrap
from schedlab.knobs.table import table
from schedlab.model import Machine, Scheduler, Workload
from schedlab.regression.changes import Change, Span, feasible

__all__ = ["Contribution", "Regression", "Undo", "regress"]

RUNS = 8
"""Pairs of a seed and a phase of a figure."""

SCREENING = 3
"""Of those, the ones over which every change is tried first."""

MOST = 4
"""Changes that share the total by their Shapley values, at the most."""

_LEAST = 0.01
"""The logarithm of the least factor for which a change is looked at further."""

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one change does to the metric.

    Attributes:
        change: which.
        ratio: its part of the total, the factor by which the metric changes.
        added: the factor where it alone is added to the old kernel, with what it needs.
        reverted: the factor that taking it back from the new kernel undoes.
    """

    change: Change
    ratio: Estimate
    added: float
    reverted: float


@dataclass(frozen=True, slots=True)
class Undo:
    """A setting of the new kernel that brings the metric back.

    Attributes:
        setting: ``knob=value``.
        ratio: the metric under it against the old kernel's, 1 where all is undone.
        cost: the kind of task that waits longer than under the new kernel's defaults, by the most;
            None where none does.
        cost_ns: by how much, a run.
    """

    setting: str
    ratio: Estimate
    cost: str | None
    cost_ns: int


@dataclass(frozen=True, slots=True)
class Regression:
    """What the metric does from one release to another, and why.

    Attributes:
        old: the release before.
        new: the release after.
        metric: what was measured.
        before: its mean under the old release.
        after: its mean under the new one.
        total: the factor by which it changes.
        contributions: of the changes that matter, the greatest first.
        rest: the factor that these do not account for.
        undo: settings of the new kernel that bring it back, the best first.
        switched: how many changes were tried.
        untried: changes that cannot be switched.
    """

    old: str
    new: str
    metric: str
    before: float
    after: float
    total: Estimate
    contributions: tuple[Contribution, ...]
    rest: Estimate
    undo: tuple[Undo, ...]
    switched: int
    untried: tuple[str, ...]


def metric_of(text: str) -> tuple[Callable[[RunLengths], float], float]:
    """Return what reads a metric from a run, and the percentile it needs.

    ``pP:NAME``: a percentile of the waits of a kind of task; ``wait:NAME``, ``run:NAME``: its time
    in total; ``turnaround``; ``switches``.

    Raises:
        InputError: it names none.

    >>> metric_of("p99.9:worker")[1]
    99.9
    """
    if text == "turnaround":
        return (lambda run: run.turnaround_ns), 99.0
    if text == "switches":
        return (lambda run: run.switches), 99.0
    match = re.fullmatch(r"p(\d+(?:\.\d+)?):(.+)", text)
    if match is not None and 0 < float(match[1]) <= 100:
        return _of_task(match[2], "percentile_ns"), float(match[1])
    kind, _, name = text.partition(":")
    if kind in ("wait", "run") and name:
        return _of_task(name, f"{kind}_ns"), 99.0
    raise InputError(
        f"metric '{text}'; allowed: p99:NAME (any percentile), wait:NAME, run:NAME, turnaround, "
        "switches"
    )


def _of_task(name: str, key: str) -> Callable[[RunLengths], float]:
    def read(run: RunLengths) -> float:
        try:
            return run.tasks[name][key]
        except KeyError:
            known = ", ".join(run.tasks)
            raise InputError(f"no task '{name}'; allowed: {known}") from None

    return read


class _Bench:
    """Simulates schedulers on one workload, each once; logarithms of the metric by run."""

    def __init__(
        self, workload: Workload, machine: Machine, metric: str, pairs: list[tuple[int, int]]
    ) -> None:
        self._workload, self._machine, self._pairs = workload, machine, pairs
        self._read, self._percentile = metric_of(metric)
        self._kept: dict[tuple[str, int], list[RunLengths]] = {}

    def runs(self, scheduler: Scheduler, count: int | None = None) -> list[RunLengths]:
        count = len(self._pairs) if count is None else count
        key = (scheduler.json, count)
        if key not in self._kept:
            pairs = self._pairs[:count]
            self._kept[key] = measure(
                self._workload, scheduler, self._machine, pairs, self._percentile
            )
        return self._kept[key]

    def logs(self, scheduler: Scheduler, count: int | None = None) -> FloatArray:
        values = [max(1.0, self._read(run)) for run in self.runs(scheduler, count)]
        logs: FloatArray = np.log(np.asarray(values, dtype=float))
        return logs

    def mean(self, scheduler: Scheduler) -> float:
        return float(np.mean([self._read(run) for run in self.runs(scheduler)]))


def regress(
    workload: Workload | str,
    *,
    old: str,
    new: str,
    machine: Machine,
    metric: str = "turnaround",
    hz: int = 250,
    seed: int = 1,
    runs: int = RUNS,
    knobs: Mapping[str, object] | None = None,
) -> Regression:
    """Simulate two kernels and the hybrids between them, and divide the difference among changes.

    Args:
        workload: a workload, or its text.
        old: the release before.
        new: the release after.
        machine: what to simulate it on.
        metric: as `metric_of`.
        hz: timer interrupts a second.
        seed: the first of the seeds.
        runs: pairs of a seed and a phase, 2 or more.
        knobs: values of knobs under both kernels, by name.

    Raises:
        InputError: something given is wrong.
        RunError: a run comes to no end.
    """
    work = Workload.parse(workload) if isinstance(workload, str) else workload
    span = Span(old, new, hz=hz, cpus=machine.cpus, knobs=knobs)
    bench = _Bench(work, machine, metric, samples(seed, runs, hz))
    base, last = bench.logs(span.old), bench.logs(span.new)
    effects = _one_at_a_time(span, bench, min(SCREENING, runs))
    chosen = sorted(
        (name for name, pair in effects.items() if max(map(abs, pair)) >= _LEAST),
        key=lambda name: -max(map(abs, effects[name])),
    )[:MOST]
    shares = _shapley(span, bench, chosen)
    total = last - base
    rest = total - sum(shares.values(), np.zeros(len(total)))
    by_name = {change.name: change for change in span.changes}
    contributions = [
        Contribution(by_name[name], _factor(share), *map(math.exp, effects[name]))
        for name, share in shares.items()
    ]
    contributions.sort(key=lambda one: -abs(math.log(one.ratio.value)))
    return Regression(
        old=span.old.release,
        new=span.new.release,
        metric=metric,
        before=bench.mean(span.old),
        after=bench.mean(span.new),
        total=_factor(total),
        contributions=tuple(contributions),
        rest=_factor(rest),
        undo=_undo(span, bench, machine, min(SCREENING, runs)),
        switched=len(span.changes),
        untried=tuple(span.facts),
    )


def _factor(logs: FloatArray) -> Estimate:
    mean = bootstrap(logs, lambda sample: np.asarray(sample.mean(axis=-1)), resamples=2_000)
    low, high = math.exp(mean.interval.low), math.exp(mean.interval.high)
    return Estimate(
        math.exp(mean.value), type(mean.interval)(low, high, mean.interval.confidence), mean.size
    )


def _one_at_a_time(span: Span, bench: _Bench, count: int) -> dict[str, tuple[float, float]]:
    """Return each change's effect as it is added, beyond what it needs, and as it is taken back."""
    last = bench.logs(span.new, count)
    found = {}
    for change in span.changes:
        added = reverted = 0.0
        closure = span.closed([change.name])
        try:
            needed = bench.logs(span.with_changes(closure - {change.name}), count)
            added = float(np.mean(bench.logs(span.with_changes(closure), count) - needed))
        except InputError:
            pass  # it comes with others alone
        dependents = span.dependents(change.name)
        try:
            without = bench.logs(span.without(dependents), count)
            others = dependents - {change.name}
            beside = bench.logs(span.without(others), count) if others else last
            reverted = float(np.mean(beside - without))
        except InputError:
            pass
        found[change.name] = (added, reverted)
    return found


def _shapley(span: Span, bench: _Bench, names: Sequence[str]) -> dict[str, FloatArray]:
    """Return what each change adds on average over the orders in which they can be made, by run.

    The other changes are made with the first that needs them, else not at all.
    """
    sets = set(feasible(span, names))
    worth = {one: bench.logs(span.with_changes(span.closed(one))) for one in sets}
    sums = {name: np.zeros(len(worth[frozenset()])) for name in names}
    orders = 0
    for order in permutations(names):
        steps = [frozenset(order[:length]) for length in range(len(order) + 1)]
        if not all(step in sets for step in steps):
            continue
        orders += 1
        for name, before, after in zip(order, steps, steps[1:], strict=False):
            sums[name] += worth[after] - worth[before]
    return {name: value / orders for name, value in sums.items()} if orders else {}


def _settings(scheduler: Scheduler, cpus: int) -> list[str]:
    """Return settings that may bring a metric back: features switched, slices longer or shorter."""
    found = []
    for knob in table(scheduler.knobs_release, cpus):
        if not knob.exists or not knob.simulated or knob.default is None:
            continue
        if knob.is_feature:
            found.append(f"{knob.name}={1 - knob.default}")
        elif knob.name in ("base_slice", "latency", "min_granularity", "wakeup_granularity"):
            values = {min(knob.high, max(knob.low, round(knob.default * by))) for by in (0.25, 4)}
            found += [f"{knob.name}={knob.text(v)}" for v in sorted(values - {knob.default})]
    return found


def _undo(span: Span, bench: _Bench, machine: Machine, count: int) -> tuple[Undo, ...]:
    """Return the settings of the new kernel that bring the metric nearest to the old kernel's."""
    base, last = bench.logs(span.old, count), bench.logs(span.new, count)
    gap = abs(float(np.mean(last - base)))
    if gap < _LEAST:
        return ()
    tried: dict[str, float] = {}
    for setting in _settings(span.new, machine.cpus):
        name, _, value = setting.partition("=")
        try:
            logs = bench.logs(span.new.with_knobs({name: value}), count)
        except InputError:
            continue  # not one that the simulator acts on
        tried[setting] = abs(float(np.mean(logs - base)))
    nearest = sorted((left, setting) for setting, left in tried.items() if left < 0.7 * gap)[:3]
    return tuple(_undone(span, bench, setting) for _, setting in nearest)


def _undone(span: Span, bench: _Bench, setting: str) -> Undo:
    name, _, value = setting.partition("=")
    scheduler = span.new.with_knobs({name: value})
    cost, cost_ns = most_hurt(bench.runs(span.new), bench.runs(scheduler))
    ratio = _factor(bench.logs(scheduler) - bench.logs(span.old))
    return Undo(setting, ratio, cost, cost_ns)
