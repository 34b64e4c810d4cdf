"""Tune a kernel's knobs for a workload: any search, simulated or on the running kernel."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from schedlab import stats
from schedlab.errors import InputError
from schedlab.experiment import Comparison, run_blocks
from schedlab.experiment import Progress as BlockProgress
from schedlab.knobs import Knob, applied, find
from schedlab.model import Machine, Scheduler, Workload, parse_time
from schedlab.targets import host
from schedlab.targets.sim import simulate_many
from schedlab.tune import (
    Dimension,
    GoldenSection,
    History,
    Objective,
    ParticleSwarm,
    Progress,
    RandomSearch,
    Search,
    Space,
    run_many,
)
from schedlab.tune.space import FloatArray

By = Literal["pso", "golden", "random"]
On = Literal["sim", "host"]

_SWEEP = 9
"""Settings of a knob that is moved alone, in equal ratios over its range."""

GOLDEN_TOLERANCE = 1e-3
"""Golden section ends at this share of the knob's range."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """What a search came to.

    Attributes:
        workload: what was run.
        on: where: ``sim`` or ``host``.
        by: the search.
        scheduler: the settings that were not searched.
        machine: what was simulated; None on the host.
        knobs: the knobs that were searched.
        best: the best settings, by knob, with their units.
        best_ns: the turnaround there.
        default_ns: the turnaround with these knobs at their defaults.
        seeds: of each search; one for golden section, which draws nothing.
        minima_ns: the least turnaround each search met.
        executions: executions of each search; a repeated position is none when simulated.
        executions_to_minimum: executions until each met its minimum.
        moved: by knob, whether moving it alone changed the turnaround; empty on the host, where
            noise hides it.
        histories: every position each search evaluated.
    """

    workload: Workload
    on: On
    by: By
    scheduler: Scheduler
    machine: Machine | None
    knobs: tuple[str, ...]
    best: dict[str, str]
    best_ns: float
    default_ns: float
    seeds: tuple[int, ...]
    minima_ns: tuple[float, ...]
    executions: tuple[int, ...]
    executions_to_minimum: tuple[int, ...]
    moved: dict[str, bool]
    histories: tuple[History, ...]

    @property
    def effect(self) -> float:
        """The best turnaround as a share of the default's."""
        return self.best_ns / self.default_ns if self.default_ns else 1.0

    @property
    def tuned(self) -> Scheduler:
        """The scheduler with the best settings."""
        return self.scheduler.with_knobs(self.best)

    def minimum(self) -> stats.Estimate | None:
        """Return the median of the minima over seeds, None for a single search."""
        return stats.median(self.minima_ns) if len(self.minima_ns) > 1 else None


def tune(
    workload: Workload | str,
    *,
    knobs: Sequence[str],
    by: By = "pso",
    on: On = "sim",
    scheduler: Scheduler | str | None = None,
    machine: Machine | None = None,
    seeds: Sequence[int] = (1,),
    particles: int = 20,
    iterations: int = 30,
    repeats: int = 3,
    progress: Callable[[Progress], None] | None = None,
) -> Tuning:
    """Search for the settings of knobs with the least turnaround.

    Args:
        workload: a workload or its text.
        knobs: the knobs' names; each is searched over its whole range.
        by: ``pso`` with the tuning paper's optimised parameters, ``random`` with as many
            executions, or ``golden``, which searches one knob.
        on: ``sim``, or ``host``, where knobs are set for each run and put back.
        scheduler: release and other settings; this kernel's otherwise. Not for ``host``.
        machine: what to simulate; this machine with calibrated costs otherwise. Not for ``host``.
        seeds: of as many searches.
        particles: in a swarm.
        iterations: moves of a swarm.
        repeats: real runs an execution, of which the median counts; ``host`` only.
        progress: told after each generation.

    Raises:
        InputError: an unknown knob, one the simulator does not act on, or a wrong number.
        NotPermittedError: a knob that may not be set here.

    >>> tuning = tune("hackbench:groups=5,loops=1", knobs=["latency"], by="golden",
    ...               scheduler="2.6.24", machine=Machine(1, "linsched"))
    >>> list(tuning.best)
    ['latency']
    """
    work = Workload.parse(workload) if isinstance(workload, str) else workload
    if on == "host" and not (scheduler is None and machine is None):
        raise InputError("on the host neither a scheduler nor a machine can be chosen")
    here = host.facts()
    if scheduler is None:
        rules = Scheduler(here.release, hz=here.hz)
    else:
        rules = Scheduler(scheduler) if isinstance(scheduler, str) else scheduler
    place = machine
    if on == "sim" and place is None:
        place = Machine(here.cpus, "calibrated")
    cpus = here.cpus if place is None else place.cpus
    table = _searchable(knobs, rules, cpus, on)
    space = Space(tuple(_dimension(knob) for knob in table))
    objective: Objective
    if place is not None and on == "sim":
        objective = _simulated(work, knobs, rules, place)
    else:
        objective = _measured(work, table, rules.release, cpus, repeats)
    chosen = tuple(seeds[:1]) if by == "golden" else tuple(seeds)
    searches = [_search(by, space, seed, particles, iterations) for seed in chosen]
    histories = run_many(searches, objective, remember=on == "sim", progress=progress)
    defaults = np.array([[_present(knob, rules, on) for knob in table]], dtype=np.float64)
    default_ns = float(objective(defaults)[0])
    best = min(histories, key=lambda history: history.minimum)
    position = [int(value) for value in best.minimum_position]
    return Tuning(
        workload=work,
        on=on,
        by=by,
        scheduler=rules,
        machine=place if on == "sim" else None,
        knobs=tuple(knobs),
        best={knob.name: knob.text(value) for knob, value in zip(table, position, strict=True)},
        best_ns=best.minimum,
        default_ns=default_ns,
        seeds=chosen,
        minima_ns=tuple(history.minimum for history in histories),
        executions=tuple(history.executions for history in histories),
        executions_to_minimum=tuple(history.executions_to_minimum for history in histories),
        moved=_moved(space, objective, defaults[0]) if on == "sim" else {},
        histories=tuple(histories),
    )


def verify(
    tuning: Tuning,
    *,
    repeats: int = 20,
    seed: int = 0,
    progress: Callable[[BlockProgress], None] | None = None,
) -> Comparison:
    """Compare the tuned settings with the present ones on the running kernel, interleaved.

    Args:
        tuning: what was found.
        repeats: runs of each.
        seed: of the order.
        progress: told after each run.

    Raises:
        InputError: this kernel has not these knobs.
        NotPermittedError: they may not be set here.
    """
    here = host.facts()
    with applied(tuning.best, here.release, here.cpus):
        pass  # refuse before anything is run
    experiment = run_blocks(
        {
            "default": lambda: host.run(tuning.workload).turnaround_ns,
            "tuned": lambda: host.run(tuning.workload, knobs=tuning.best).turnaround_ns,
        },
        repeats,
        warmup=1,
        seed=seed,
        progress=progress,
    )
    return experiment.compare("default", "tuned")


def _searchable(names: Sequence[str], rules: Scheduler, cpus: int, on: On) -> list[Knob]:
    if not names:
        raise InputError("no knobs to search over: name at least one")
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"knob '{name}' is named more than once")
    table = [find(name, rules.release, cpus) for name in names]
    for knob in table:
        if on == "sim" and not knob.simulated:
            raise InputError(f"the simulator does not act on knob '{knob.name}' yet")
    return table


def _dimension(knob: Knob) -> Dimension:
    return Dimension(knob.name, knob.low, knob.high, integer=True)


def _search(by: By, space: Space, seed: int, particles: int, iterations: int) -> Search:
    if by == "pso":
        return ParticleSwarm(space, particles=particles, iterations=iterations, rng=seed)
    if by == "random":
        evaluations = particles * (iterations + 1)
        return RandomSearch(space, evaluations=evaluations, batch=particles, rng=seed)
    if len(space.dimensions) != 1:
        raise InputError(
            f"golden section searches one knob, not {len(space.dimensions)}: "
            f"{', '.join(space.names)}"
        )
    dimension = space.dimensions[0]
    tolerance = max(1.0, GOLDEN_TOLERANCE * (dimension.high - dimension.low))
    return GoldenSection(space, tolerance=tolerance)


def _simulated(
    workload: Workload, knobs: Sequence[str], rules: Scheduler, machine: Machine
) -> Objective:
    def objective(positions: FloatArray) -> FloatArray:
        rows = np.rint(positions).astype(np.int64)
        found = simulate_many(workload, knobs, rows, scheduler=rules, machine=machine)
        return found.astype(np.float64)

    return objective


def _measured(
    workload: Workload, table: Sequence[Knob], release: str, cpus: int, repeats: int
) -> Objective:
    if repeats < 1:
        raise InputError(f"repeats is {repeats}; allowed: at least 1")

    def measure(position: FloatArray) -> float:
        values = [int(value) for value in position]
        settings = {knob.name: knob.text(value) for knob, value in zip(table, values, strict=True)}
        with applied(settings, release, cpus):
            runs = [host.run(workload).turnaround_ns for _ in range(repeats)]
        return float(np.median(runs))

    return lambda positions: np.array([measure(position) for position in positions])


def _present(knob: Knob, rules: Scheduler, on: On) -> int:
    """Return a knob's value where it is not searched: what is set, else the default."""
    text = rules.knobs.get(knob.name) if on == "sim" else None
    if text is not None:
        return parse_time(text) if knob.kind == "time" else int(text)
    assert knob.default is not None
    return knob.default


def _moved(space: Space, objective: Objective, defaults: FloatArray) -> dict[str, bool]:
    """Say of each knob whether moving it alone over its range changes the objective."""
    moved = {}
    for index, dimension in enumerate(space.dimensions):
        low = max(dimension.low, min(dimension.high / 1e4, 100_000.0))
        ratios = np.geomspace(max(low, 1.0), dimension.high, _SWEEP)
        values = np.unique(np.concatenate([[dimension.low], ratios]))
        positions = np.tile(defaults, (len(values), 1))
        positions[:, index] = values
        found = objective(space.allowed(positions))
        moved[dimension.name] = bool(np.ptp(found) > 0)
    return moved
