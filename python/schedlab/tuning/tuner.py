"""A tuning from its beginning to its end, or from where it was stopped."""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from schedlab.boundary.errors import InputError, StorageError
from schedlab.experiment import campaign, stats
from schedlab.experiment.execution import Cell
from schedlab.experiment.settings import Setting
from schedlab.experiment.subjects import Described, Subject
from schedlab.model import Machine, Scheduler, Workload, check_seed
from schedlab.model.direction import Better
from schedlab.search import Pinned, ResponseSurface, Search, run_many
from schedlab.search.response_surface import Stage
from schedlab.search.space import FloatArray
from schedlab.store import Store
from schedlab.targets import host
from schedlab.targets.target import Host, Simulated, Target, label, place_label
from schedlab.targets.workers import Workers
from schedlab.tuning.aims import Part, parse_aims
from schedlab.tuning.objective import DEFAULT, Batched, Raced
from schedlab.tuning.parameters import Parameters, Scale, parameters
from schedlab.tuning.result import Gain, Pace, Point, Tuning, shared_direction, summary
from schedlab.tuning.runs import Case, Runs
from schedlab.tuning.searches import DRAWS_NOTHING, By, searches, told_rows, usual

EXECUTIONS = {False: 620, True: 60}
"""Settings that are tried by default: simulated, and for real."""

_SWEEP = 9
"""Settings of a parameter that is moved alone."""


class Stopped(KeyboardInterrupt):
    """Ctrl-C during a tuning; its runs are in the store."""

    def __init__(self, done: int) -> None:
        super().__init__("interrupted")
        self.done = done


def tune(
    workload: Workload | str | Sequence[Workload | str],
    *,
    knobs: Sequence[str] = (),
    policies: Sequence[str] = (),
    slices: str | Sequence[str] = (),
    metrics: Sequence[str] = (),
    keep: Sequence[str] = (),
    by: By | None = None,
    on: Target | str = "sim",
    scheduler: Scheduler | str | None = None,
    machine: Machine | None = None,
    seeds: Sequence[int] = (1,),
    executions: int | None = None,
    scale: Scale = "log",
    progress: Callable[[Pace], None] | None = None,
    workers: Workers | None = None,
) -> Tuning:
    """Search for the setting that serves workloads best: with the least turnaround, or by any aims.

    What it returns rests on the runs that chose the setting, which flatter it: `certify` compares
    it with the present setting in fresh ones.

    Args:
        workload: workloads or their texts.
        knobs: names of knobs, each over its whole range, or ``name=low..high``.
        policies: policies to choose from.
        slices: a range ``low..high``, or slices to choose from.
        metrics: the aims, see `schedlab.tuning.aims`: a metric each, of all workloads or of one
            (``p99 of schbench``); the first metric of each workload otherwise.
        keep: floors, such as ``throughput>=-2%``.
        by: the search, see `schedlab.tuning.searches`; ``pso`` for one aim otherwise, ``nsga2`` for
            several.
        on: ``sim``, ``host``, or a place.
        scheduler: release and other settings to simulate; this kernel's otherwise.
        machine: what to simulate; this machine with calibrated costs otherwise.
        seeds: of as many searches, when simulated.
        executions: settings to try, a search; see `EXECUTIONS`.
        scale: whether ranges are searched in equal ratios (``log``) or steps (``linear``).
        progress: told after each run.
        workers: simulate there, see `schedlab.targets.workers`; the result is the same.

    Raises:
        InputError: something unknown, or that the place has not.
        NotPermittedError: what may not be set there.
        RunError: the workload cannot be run with the present setting.

    >>> tuning = tune("hackbench:groups=5,loops=1", knobs=["latency"], by="golden",
    ...               scheduler="2.6.24", machine=Machine(1, "reference"))
    >>> tuning.effect <= 1, list(tuning.best.values) in ([], ["latency"])
    (True, True)
    """
    given = [workload] if isinstance(workload, Workload | str) else list(workload)
    works = [Workload.parse(one) if isinstance(one, str) else one for one in given]
    target = _place(on, scheduler, machine)
    return tune_subjects(
        [(work.name, Described(work)) for work in works],
        parameters(target, knobs=knobs, policies=policies, slices=slices, scale=scale),
        target,
        by=by,
        metrics=metrics,
        keep=keep,
        seeds=seeds,
        executions=executions,
        progress=progress,
        workers=workers,
    )


def tune_subjects(
    subjects: Sequence[tuple[str, Subject]],
    searched: Parameters,
    target: Target,
    *,
    by: By | None = None,
    metrics: Sequence[str] = (),
    keep: Sequence[str] = (),
    seeds: Sequence[int] = (1,),
    executions: int | None = None,
    repeats: int = 1,
    band: float = 0.01,
    timeout: float = 60.0,
    store: Store | None = None,
    command: Sequence[str] = (),
    afresh: bool = False,
    progress: Callable[[Pace], None] | None = None,
    workers: Workers | None = None,
) -> Tuning:
    """Search for the setting that serves workloads, programs or commands best, all together.

    Args:
        subjects: what is run, each with a name.
        searched: what is searched.
        target: where.
        by: the search; ``pso`` for one aim otherwise, ``nsga2`` for several.
        metrics: the aims, as for `tune`; each subject's first metric otherwise.
        keep: floors, as for `tune`.
        seeds: of as many searches when simulated; for real there is one.
        executions: settings to try, a search.
        repeats: seeds a simulated setting is run with, or blocks in which real ones are screened.
        band: half-width of what counts as the same.
        timeout: seconds a run may take.
        store: where runs are kept, and taken from; None for nowhere.
        command: the words that asked for it.
        afresh: run everything again, whatever is stored.
        progress: told after each run.
        workers: simulate there, see `schedlab.targets.workers`; the result is the same.

    Raises:
        InputError: something that cannot be searched or run.
        NotPermittedError: what may not be set there.
        RunError: a case cannot be run with the present setting.
        StorageError: the disk is full.
        Stopped: on KeyboardInterrupt.
    """
    judged_by = parse_aims(subjects, metrics, keep)
    cases = [Case(name, subject, judged_by.metrics_of(name)) for name, subject in subjects]
    several = len(judged_by.aims)
    by = usual(several) if by is None else by
    budget = EXECUTIONS[target.real] if executions is None else executions
    chosen = tuple(seeds[:1]) if by in DRAWS_NOTHING or target.real else tuple(seeds)
    if not chosen:
        raise InputError("no seed is given: at least one is needed")
    if repeats < 1:
        raise InputError(f"repeats is {repeats}; allowed: at least 1")
    for seed in chosen:
        check_seed(seed)
    made = [
        one
        for seed in chosen
        for one in searches(
            by,
            searched.space,
            seed=seed,
            executions=budget,
            real=target.real,
            aims=several,
            limits=len(judged_by.floors),
        )
    ]
    data = {
        "cases": [
            Cell(case.name, case.subject, DEFAULT, target).definition()
            | {"name": case.name, "metric": asdict(metric)}
            for case in cases
            for metric in case.metrics
        ],
        **(judged_by.as_data() if several > 1 or judged_by.floors else {}),
        "parameters": searched.as_data(),
        "by": by,
        "seeds": list(chosen),
        "executions": budget,
        "repeats": repeats,
        "band": band,
        "timeout": timeout,
    }
    title = f"{'; '.join(case.name for case in cases)} on {place_label(target)}"
    identity = "" if store is None else store.begin("tune", title, data, command, afresh=afresh)
    better = shared_direction(part.metric.better for aim in judged_by.aims for part in aim.parts)
    clock = _Clock(progress, budget * len(made), len(cases) * repeats, better)
    runs = Runs(
        target,
        timeout=timeout,
        seed=chosen[0],
        store=store,
        experiment=identity,
        told=clock.run,
        workers=workers,
    )
    clock.runs = runs
    try:
        if target.real:
            objective: Batched | Raced = Raced(cases, judged_by, runs, repeats=repeats, band=band)
        else:
            objective = Batched(cases, judged_by, runs, repeats=repeats)
        found = _search(objective, searched, made, clock, runs, rows=told_rows(by, several))
    except KeyboardInterrupt as interrupt:
        if store is not None:
            store.finish(identity, "interrupted")
        raise Stopped(runs.done) from interrupt
    except StorageError:
        raise  # nothing more can be written
    except BaseException:
        if store is not None:
            store.finish(identity, "failed")
        raise
    tuning = Tuning(
        id=identity,
        by=by,
        target=target.name,
        release=label(target),
        cpus=target.cpus,
        parameters=searched,
        aims=judged_by,
        seeds=chosen,
        runs=runs.done,
        stored=runs.stored,
        fresh_seed=(chosen[0] + max(repeats, len(chosen))) % 2**64,
        notes=(
            *(target.scheduler.notes if isinstance(target, Simulated) else ()),
            *(campaign.made_again(identity, store) if store is not None else ()),
        ),
        **found,
    )
    if store is not None:
        store.finish(identity, "done", summary(tuning))
    return tuning


class _Clock:
    """Tells how far a tuning is, and how long the rest will take."""

    def __init__(
        self,
        progress: Callable[[Pace], None] | None,
        executions: int,
        runs_each: int,
        better: Better | None,
    ) -> None:
        self._better = better
        self.runs: Runs | None = None
        self.objective: Batched | Raced | None = None
        self._progress = progress
        self._executions = executions
        self._each = float(runs_each)
        self._evaluated = 0
        self._under_way = 0
        self._began = time.perf_counter()

    def proposed(self, count: int) -> None:
        """Note that a generation begins."""
        self._under_way = count

    def evaluated(self, count: int) -> None:
        """Note that a generation is done; what it took says what the rest will."""
        self._evaluated += count
        self._under_way = 0
        if self.runs is not None:
            self._each = max(self.runs.done / self._evaluated, 1e-3)

    def run(self) -> None:
        if self._progress is None or self.runs is None:
            return
        done, begun = self.runs.done, self._evaluated + self._under_way
        # A generation in which candidates are compared again and again says so before it is done.
        each = max(self._each, done / begun if begun else 0.0)
        most = round(self._executions * each)
        if done >= most and isinstance(self.objective, Raced):
            # A duel goes on until it is settled.
            most = self.objective.duel_end
        most = max(done, most)
        executed = self.runs.executed
        passed = time.perf_counter() - self._began
        self._progress(
            Pace(
                done,
                most,
                passed / executed * (most - done) if executed else None,
                1.0 if self.objective is None else self.objective.effect,
                self._better,
            )
        )


def _search(
    objective: Batched | Raced,
    searched: Parameters,
    made: Sequence[Search],
    clock: _Clock,
    runs: Runs,
    *,
    rows: bool,
) -> dict[str, Any]:
    """Run the searches, and return what they found.

    Args:
        objective: says what settings are worth.
        searched: what positions decode to.
        made: the searches.
        clock: takes how far they are.
        runs: what was run.
        rows: whether they take what each setting is worth for each aim, as a row.
    """
    clock.objective = objective

    def worth(positions: FloatArray) -> FloatArray:
        clock.proposed(len(positions))
        values = np.array(objective.rows([searched.setting(position) for position in positions]))
        clock.evaluated(len(positions))
        return values if rows else values[:, 0]

    histories = run_many(made, worth, remember=True)
    best, looks = objective.incumbent, objective.looks

    def gains(setting: Setting) -> tuple[Gain, ...]:
        return tuple(_gain(part, setting, runs) for part in looks.aims.parts)

    def point(setting: Setting) -> Point:
        worth, *row = looks.row(setting)
        return Point(setting, worth, tuple(row[: len(looks.aims.aims)]), gains(setting))

    return {
        "best": best,
        "effect": objective.effect,
        "gains": gains(best),
        "front": tuple(map(point, looks.front() if len(looks.aims.aims) > 1 else [best])),
        "runner_up": best if best != DEFAULT else looks.runner_up(),
        "minima": tuple(history.minimum for history in histories),
        "executions": tuple(history.executions for history in histories),
        "executions_to_minimum": tuple(one.executions_to_minimum for one in histories),
        "moved": {} if runs.target.real else _moved(searched, objective),
        "stages": tuple(stage for search in made for stage in _stages(search)),
        "histories": tuple(histories),
    }


def _gain(part: Part, best: Setting, runs: Runs) -> Gain:
    metric = part.metric
    default, tuned = (
        stats.centre([one[metric.name] for one in runs.of(part.workload, setting)])
        for setting in (DEFAULT, best)
    )
    change = tuned / default - 1
    return Gain(part.workload, metric.name, metric.unit, metric.better, default, tuned, change)


def _stages(search: Search) -> list[Stage]:
    inner = search.search if isinstance(search, Pinned) else search
    return inner.stages if isinstance(inner, ResponseSurface) else []


def _moved(searched: Parameters, objective: Batched | Raced) -> dict[str, bool]:
    """Say of each parameter whether moving it alone over its range changes anything."""
    moved = {}
    for one in searched.searched:
        dimension = one.dimension
        width = dimension.high - dimension.low
        steps = min(_SWEEP, int(width) + 1) if dimension.integer else _SWEEP
        coordinates = [dimension.low + width * step / (steps - 1) for step in range(steps)]
        settings = [Setting({one.name: one.text(coordinate)}) for coordinate in coordinates]
        rows = objective.rows(settings)
        moved[one.name] = any(row != rows[0] for row in rows)
    return moved


def _place(on: Target | str, scheduler: Scheduler | str | None, machine: Machine | None) -> Target:
    if on != "sim" and not (scheduler is None and machine is None):
        raise InputError("only where it is simulated can a scheduler or a machine be chosen")
    if not isinstance(on, str):
        return on
    if on == "host":
        return Host()
    if on != "sim":
        raise InputError(f"on is '{on}'; allowed: sim, host, or a place")
    here = host.facts()
    if scheduler is None:
        rules = here.rules
    else:
        rules = Scheduler(scheduler) if isinstance(scheduler, str) else scheduler
    return Simulated(rules, Machine(here.cpus) if machine is None else machine)
