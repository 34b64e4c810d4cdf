"""The runs of a tuning: made once, and read from the store when it continues."""

import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from schedlab.boundary.errors import RunError
from schedlab.experiment.execution import Cell, Once
from schedlab.experiment.settings import Setting
from schedlab.experiment.subjects import Described, Measured, Metric, Subject
from schedlab.knobs import find
from schedlab.model import parse_time
from schedlab.store import Store
from schedlab.store.store import NewRun, now
from schedlab.targets.sim import simulate_many
from schedlab.targets.target import Simulated, Target
from schedlab.targets.workers import Workers

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Case:
    """Something that is tuned for.

    Attributes:
        name: its name, unique in its tuning.
        subject: what is run.
        metrics: what counts.
    """

    name: str
    subject: Subject
    metrics: tuple[Metric, ...]

    def cost(self, metric: Metric, value: float) -> float:
        """Return the logarithm of a value, with the sign with which less is better.

        Raises:
            RunError: the value is not above 0, so that there are no ratios.
        """
        if not value > 0 or not math.isfinite(value):
            raise RunError(f"'{self.name}': {metric.name} is {value:g}, and has no ratio")
        return math.log(value) if metric.better == "lower" else -math.log(value)

    def costs(self, values: Mapping[str, float]) -> dict[Metric, float]:
        """Return the cost of each metric of a run.

        Raises:
            RunError: as `cost`.
        """
        return {metric: self.cost(metric, values[metric.name]) for metric in self.metrics}


def _each(work: Sequence[tuple[Cell, int, float]]) -> list[Once]:
    """Run cells, each with its seed and its timeout; that is a worker's chunk."""
    return [cell.once(seed=seed, timeout=timeout) for cell, seed, timeout in work]


class Runs:
    """Makes runs of cases under settings, in one place.

    The n-th run of a case under a setting has the number n in the store. A search that is given the
    same values asks for the same runs, so a tuning that continues finds its earlier runs.

    Args:
        target: where.
        timeout: seconds a run may take.
        seed: of simulations; their n-th run has seed + n.
        store: where runs are kept; None for nowhere.
        experiment: in the store.
        told: called after each run.
        workers: simulate there; here otherwise.
    """

    def __init__(
        self,
        target: Target,
        *,
        timeout: float = 60.0,
        seed: int = 1,
        store: Store | None = None,
        experiment: str = "",
        told: Callable[[], None] | None = None,
        workers: Workers | None = None,
    ) -> None:
        self.target = target
        self.done = 0
        self.stored = 0
        self.seconds = 0.0
        self.values: dict[str, list[Mapping[str, float]]] = {}
        self._timeout = timeout
        self._seed = seed
        self._store = store
        self._experiment = experiment
        self._told = told
        self._workers = workers
        self._made: dict[tuple[str, int], Once] = {}
        self._count: Counter[str] = Counter()
        self._known = store.values(experiment) if store is not None else {}
        self._note_other_boots()
        self._failed = store.failures(experiment) if store is not None else {}

    def _note_other_boots(self) -> None:
        """Warn of runs from another boot of a host: a search compares more than pairs in blocks."""
        if self._store is None or not self.target.real:
            return  # simulations are alike everywhere
        here = self.target.facts().get("boot")
        if here is None:
            return  # a guest is booted anew each time
        boots = self._store.boots(self._experiment).values()
        if elsewhere := sum(boot not in (None, here) for boot in boots):
            _log.warning(
                "runs of this search from another boot, or another host: %d; the same may take "
                "longer or shorter there: --afresh searches anew; certification compares within a "
                "boot",
                elsewhere,
            )

    def of(self, case: str, setting: Setting) -> list[Mapping[str, float]]:
        """Return the metrics of the runs of a case under a setting.

        Args:
            case: its name.
            setting: how it was run.
        """
        return self.values.get(f"{case} | {setting}", [])

    @property
    def executed(self) -> int:
        """Runs that were made now, not taken from the store."""
        return self.done - self.stored

    def one(
        self, case: Case, setting: Setting, *, dispensable: bool = False
    ) -> Mapping[str, float]:
        """Run a case once, and return its metrics.

        Args:
            case: what is run.
            setting: how.
            dispensable: whether the search goes on without the setting. It went on without one
                whose failure is stored, and does so again; a failure that ended the search was
                chance, or has been mended, and the run is made again.

        Raises:
            InputError, NotPermittedError: it cannot be run at all.
            RunError: it failed, or came to no metric; the store keeps why.
            StorageError: its result could not be stored.
        """
        cell = Cell(case.name, case.subject, setting, self.target)
        number = self._count[cell.name]
        self._count[cell.name] += 1
        failed = dispensable and (cell.name, number) in self._failed
        if failed and (cell.name, number) not in self._known:
            raise RunError(self._failed[cell.name, number])
        known = self._known.get((cell.name, number))
        names = [metric.name for metric in case.metrics]
        if known is not None and all(name in known for name in names):
            self.stored += 1
            return self._note(cell.name, {name: known[name] for name in names})
        seed = (self._seed + number) % 2**64

        def failing(why: str) -> None:
            if self._store is not None:
                self._store.fail(self._experiment, cell.name, number, why)

        once = self._made.pop((cell.name, number), None) or cell.persistently(
            failing, seed=seed, timeout=self._timeout
        )
        measured = once.measured.values
        try:
            if missing := [name for name in names if name not in measured]:
                raise RunError(f"'{case.name}' came to no {missing[0]}")
            case.costs(measured)
        except RunError as error:
            failing(str(error))
            raise
        self.seconds += once.seconds
        self._keep([cell.made(once, arm=cell.name, block=number)])
        return self._note(cell.name, {name: measured[name] for name in names})

    def batch(
        self, case: Case, wanted: Sequence[Setting], number: int
    ) -> list[Mapping[str, float]]:
        """Simulate the run of one number of a case under many settings, on all CPUs or by workers.

        Raises:
            RunError: a run comes to no end.
            StorageError: its result could not be stored.
        """
        target = self.target
        if not (
            isinstance(target, Simulated)
            and isinstance(case.subject, Described)
            and [metric.name for metric in case.metrics] == ["turnaround"]
        ):
            if self._workers is not None and not target.real:
                self._ahead(case, wanted, self._workers)
            return [self.one(case, setting) for setting in wanted]
        found: dict[Setting, Mapping[str, float]] = {}
        groups: dict[tuple[str, ...], list[Setting]] = {}
        for setting in dict.fromkeys(wanted):
            cell = Cell(case.name, case.subject, setting, target)
            known = self._known.get((cell.name, number))
            if known is not None:
                self.stored += 1
                found[setting] = self._note(cell.name, {"turnaround": known["turnaround"]})
                continue
            task = [setting.values.get(name, "") for name in ("policy", "slice", "nice")]
            groups.setdefault((*task, *setting.knobs), []).append(setting)
        for members in groups.values():
            found.update(self._simulated(case, target, members, number))
        return [found[setting] for setting in wanted]

    def _ahead(self, case: Case, wanted: Sequence[Setting], workers: Workers) -> None:
        """Let workers simulate the next run of a case under each setting that the store has not."""
        cells = [
            cell
            for cell in (
                Cell(case.name, case.subject, setting, self.target)
                for setting in dict.fromkeys(wanted)
            )
            if (cell.name, self._count[cell.name]) not in self._known
        ]
        if not cells:
            return
        work = [
            (cell, (self._seed + self._count[cell.name]) % 2**64, self._timeout) for cell in cells
        ]
        parts = workers.spread(_each, len(work), lambda start, end: work[start:end], _each)
        made = [once for part in parts for once in part]
        for cell, once in zip(cells, made, strict=True):
            self._made[cell.name, self._count[cell.name]] = once

    def _simulated(
        self, case: Case, target: Simulated, members: list[Setting], number: int
    ) -> dict[Setting, Mapping[str, float]]:
        assert isinstance(case.subject, Described)
        names = list(members[0].knobs)
        table = [find(name, target.scheduler.knobs_release, target.cpus) for name in names]
        rows = [
            [
                parse_time(setting.knobs[knob.name])
                if knob.kind == "time"
                else int(setting.knobs[knob.name])
                for knob in table
            ]
            for setting in members
        ]
        attributes = members[0].attributes
        work = case.subject.workload
        seed = (self._seed + number) % 2**64
        begun, clock = now(), time.perf_counter()
        turnarounds = simulate_many(
            work if attributes is None else work.with_attributes(attributes),
            names,
            np.array(rows, dtype=np.int64).reshape(len(members), len(names)),
            scheduler=target.scheduler,
            machine=target.machine,
            seed=seed,
            workers=self._workers,
        )
        seconds = (time.perf_counter() - clock) / len(members)
        self.seconds += seconds * len(members)
        new: list[NewRun] = []
        found: dict[Setting, Mapping[str, float]] = {}
        for setting, nanoseconds in zip(members, turnarounds.tolist(), strict=True):
            cell = Cell(case.name, case.subject, setting, target)
            measured = Measured({"turnaround": nanoseconds / 1e9}, {"turnaround_ns": nanoseconds})
            once = Once(seed, begun, seconds, None, measured)
            new.append(cell.made(once, arm=cell.name, block=number))
            found[setting] = self._note(cell.name, {"turnaround": nanoseconds / 1e9})
        self._keep(new)
        return found

    def _keep(self, runs: list[NewRun]) -> None:
        if self._store is not None:
            self._store.add_all(self._experiment, runs)

    def _note(self, arm: str, values: Mapping[str, float]) -> Mapping[str, float]:
        self.values.setdefault(arm, []).append(values)
        self.done += 1
        if self._told is not None:
            self._told()
        return values
