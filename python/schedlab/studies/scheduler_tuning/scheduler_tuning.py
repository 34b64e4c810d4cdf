"""Tuning the scheduler for hackbench: particle swarm against golden section.

After "Comparison of application of global and one-dimensional local optimization methods to
operating system scheduler tuning": a swarm searches three knobs of CFS at once, golden section
searches one, the scheduling period, from which two *parameter discovery algorithms* (the paper's
figures 2 and 3) derive the three. What we do otherwise, and why:

* Over many seeds. The paper reports one run of each search; a swarm's result depends on its seed.
* The period of the simulated kernel is that of 2.6.24's source (``__sched_period`` in
  ``kernel/sched_fair.c``), where nr_latency is latency / min_granularity rounded up. The paper's
  equation (3) does not round; so Algorithm 1, whose min granularity soon exceeds its latency, has
  nr_latency = 1 there, and the period it asks for is not the one it gets.
* Algorithm 2 yields a min granularity below the kernel's least one (100 us) for periods under
  20 ms. It is raised to that, and such executions are counted.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from schedlab.experiment import stats
from schedlab.model import Machine, Scheduler, Workload
from schedlab.search import (
    DEFAULT,
    OPTIMIZED,
    Dimension,
    GoldenSection,
    History,
    Parameters,
    ParticleSwarm,
    Progress,
    Space,
    run,
    run_many,
)
from schedlab.search.space import FloatArray
from schedlab.targets.sim import simulate, simulate_many

SOURCE = (
    "Comparison of application of global and one-dimensional local optimization methods to "
    "operating system scheduler tuning"
)
"""The paper whose searches these are."""

KNOBS = ("latency", "min_granularity", "wakeup_granularity")
"""The three knobs, in the order of a position."""

JIFFY = 1_000_000
"""Nanoseconds of a jiffy at the paper's 1000 timer interrupts a second."""

SECOND = 1_000_000_000
LOWEST_GRANULARITY = 100_000
TASKS = 200
"""Tasks of hackbench with 5 groups, the constant in both algorithms."""

TOLERANCE = JIFFY
"""Golden section ends at an interval of one jiffy, the unit of what it minimises."""

SPACE = Space(
    (
        Dimension("latency", LOWEST_GRANULARITY, SECOND, integer=True),
        Dimension("min_granularity", LOWEST_GRANULARITY, SECOND, integer=True),
        Dimension("wakeup_granularity", 0, SECOND, integer=True),
    )
)
"""The ranges of section V, in nanoseconds."""


def periods_1(tasks: int) -> Space:
    """Return periods for Algorithm 1: up to its greatest wakeup granularity, from 20 ms on."""
    return Space((Dimension("period", 20_000_000, (tasks + 1) * SECOND, integer=True),))


PERIODS_1 = periods_1(TASKS)
"""Periods for Algorithm 1: from its least min granularity to its greatest wakeup granularity."""

PERIODS_2 = Space((Dimension("period", LOWEST_GRANULARITY, 2 * SECOND, integer=True),))
"""Periods for Algorithm 2: from the least latency to the greatest wakeup granularity."""

Settings = tuple[int, int, int]
"""Latency, min granularity and wakeup granularity in nanoseconds."""


def discover_1(period: int, tasks: int = TASKS) -> Settings:
    """Return the settings of Parameter Discovery Algorithm 1 (figure 2): tasks > nr_latency.

    Args:
        period: wanted, nanoseconds.
        tasks: of the workload.

    >>> discover_1(20_000_000), discover_1(201 * SECOND)
    ((19900000, 100000, 0), (19900000, 1000000000, 1000000000))
    """
    longest = tasks * SECOND
    wakeup = max(0, period - longest)
    return 19_900_000, min(period, longest) // tasks, wakeup


def discover_2(period: int, tasks: int = TASKS) -> Settings:
    """Return the settings of Parameter Discovery Algorithm 2 (figure 3): tasks <= nr_latency.

    Args:
        period: wanted, nanoseconds.
        tasks: of the workload.

    The min granularity may lie under the kernel's range; see `clamp`.

    >>> discover_2(10_000_000), discover_2(2 * SECOND)
    ((10000000, 50000, 0), (1000000000, 100000, 1000000000))
    """
    wakeup = max(0, period - SECOND)
    latency = min(period, SECOND)
    granularity = latency // tasks if latency < 20_000_000 else LOWEST_GRANULARITY
    return latency, granularity, wakeup


def clamp(settings: Settings) -> Settings:
    """Return the nearest settings within the knobs' ranges.

    >>> clamp((10_000_000, 50_000, 0))
    (10000000, 100000, 0)
    """
    latency, granularity, wakeup = (int(value) for value in SPACE.allowed([settings])[0])
    return latency, granularity, wakeup


class Turnaround:
    """The objective: hackbench's simulated turnaround in whole jiffies, rounded up.

    It remembers nanoseconds beside, for reports.

    Args:
        workload: what is run.
        scheduler: the release and what the searches do not set; 1000 timer interrupts a second.
        machine: where it is simulated.
    """

    def __init__(self, workload: Workload, scheduler: Scheduler, machine: Machine) -> None:
        self.workload = workload
        self.scheduler = scheduler
        self.machine = machine
        self._nanoseconds: dict[bytes, int] = {}

    def __call__(self, positions: FloatArray) -> FloatArray:
        """Return the turnaround at each row of settings."""
        rows = np.rint(positions).astype(np.int64)
        found = simulate_many(
            self.workload, KNOBS, rows, scheduler=self.scheduler, machine=self.machine
        )
        for row, nanoseconds in zip(rows, found.tolist(), strict=True):
            self._nanoseconds[row.tobytes()] = nanoseconds
        return -(-found // JIFFY).astype(np.float64)

    def least_possible(self) -> int:
        """Return a number of jiffies that no settings can undercut.

        Of hackbench on CPUs whose callbacks take a jiffy: while its clock runs every message is
        written once and read once, and one write opens the latch. Anything else, a task that finds
        no message and sleeps, comes on top. Before, every task but the first says once that it is
        ready.
        """
        outcome = simulate(self.workload, scheduler=self.scheduler, machine=self.machine)
        ready = len(outcome.tasks) - 1
        return -(-(2 * (outcome.messages - ready) + 1) // self.machine.cpus)

    def nanoseconds(self, position: FloatArray | Settings) -> int:
        """Return the turnaround at one position, as measured or measured now."""
        row = np.rint(np.asarray(position, dtype=np.float64)).astype(np.int64)
        if row.tobytes() not in self._nanoseconds:
            self(row[np.newaxis].astype(np.float64))
        return self._nanoseconds[row.tobytes()]


@dataclass(frozen=True, slots=True)
class SearchRun:
    """One search from one seed.

    Attributes:
        minimum_jiffies: R*, the least turnaround it met.
        minimum_ns: the same in nanoseconds.
        settings: where it met that first.
        executions: executions in all; a repeated position is none.
        executions_to_minimum: executions until it met the minimum.
        executions_to_golden_minimum: executions until it did as well as golden section; None if it
            never did.
        generation_of_minimum: I*, the generation that met the minimum, the first being 1.
        clamped: executions whose settings were moved into the knobs' ranges.
        visited: the settings of every execution, in order, as far as the run was looked at.
    """

    minimum_jiffies: int
    minimum_ns: int
    settings: Settings
    executions: int
    executions_to_minimum: int
    executions_to_golden_minimum: int | None
    generation_of_minimum: int
    clamped: int
    visited: tuple[Settings, ...]


@dataclass(frozen=True, slots=True)
class Sweep:
    """One knob moved alone, the others at their defaults.

    Attributes:
        knob: its name.
        values: settings in nanoseconds.
        turnarounds: the turnaround at each, in nanoseconds.
    """

    knob: str
    values: tuple[int, ...]
    turnarounds: tuple[int, ...]

    @property
    def moves(self) -> bool:
        """Whether any two settings differ by a jiffy."""
        jiffies = {-(-value // JIFFY) for value in self.turnarounds}
        return len(jiffies) > 1


@dataclass(frozen=True, slots=True)
class Study:
    """The whole comparison.

    Attributes:
        workload: what was run.
        scheduler: the release under which it was.
        machine: the machine it was simulated on.
        default_ns: the turnaround with every knob at its default.
        golden_minimum_jiffies: what both golden section searches attain.
        particles: in a swarm.
        iterations: moves of a swarm.
        random_share: the share of settings drawn at random, the swarms' first positions, that
            attain the least turnaround any search met.
        runs: by search: one run a seed for the swarms, one for golden section, which draws nothing.
        sweeps: each knob alone.
    """

    workload: Workload
    scheduler: Scheduler
    machine: Machine
    default_ns: int
    golden_minimum_jiffies: int
    particles: int
    iterations: int
    random_share: stats.Estimate
    runs: dict[str, tuple[SearchRun, ...]]
    sweeps: tuple[Sweep, ...]

    def median(self, search: str, attribute: str) -> stats.Estimate | None:
        """Return the median over seeds, with its interval; None where no run has the number.

        A run that never did as well as golden section counts as one that needed all its executions
        and one more, so that the median stays honest.
        """
        values = [
            value if (value := getattr(one, attribute)) is not None else one.executions + 1
            for one in self.runs[search]
        ]
        if all(getattr(one, attribute) is None for one in self.runs[search]):
            return None
        if len(values) == 1:
            only = float(values[0])
            return stats.Estimate(only, stats.Interval(only, only, 1.0), 1)
        return stats.median(values)


SWARMS: dict[str, Parameters] = {"pso_optimized": OPTIMIZED, "pso_default": DEFAULT}
GOLDEN = ("golden_section_1", "golden_section_2")

PAPER: dict[str, dict[str, int | None]] = {
    "pso_optimized": {"minimum": 3028, "to_minimum": 61, "to_golden": 31},
    "pso_default": {"minimum": 3028, "to_minimum": 78, "to_golden": None},
    "golden_section_1": {"minimum": 5939, "to_minimum": 8, "to_golden": 8},
    "golden_section_2": {"minimum": 5939, "to_minimum": 9, "to_golden": 9},
}
"""The paper's figures 4 and 5 and section VI: jiffies and executions, one run each."""


def study(
    *,
    seeds: Sequence[int] = range(200),
    workload: str = "hackbench:groups=5,loops=1",
    machine: Machine | None = None,
    tasks: int = TASKS,
    particles: int = 20,
    iterations: int = 30,
    to_the_end: bool = True,
    progress: Callable[[str, Progress], None] | None = None,
) -> Study:
    """Compare the searches.

    Args:
        seeds: of the swarms; each seed is one run of each.
        workload: what is run, hackbench with 5 groups for the algorithms' 200 tasks.
        machine: without it one CPU on which every callback takes a jiffy, as the paper's simulator.
        tasks: of the workload, which both algorithms go by.
        particles: in a swarm.
        iterations: moves of a swarm.
        to_the_end: whether a swarm continues once it met a turnaround that nothing can undercut
            (`Turnaround.least_possible`). What is left out changes none of its figures but its
            executions in all.
        progress: told the search's name and where it stands, after each generation.

    Raises:
        InputError: what the simulator refuses.
        ValueError: no seeds.
    """
    if not seeds:
        raise ValueError("there are no seeds: at least one is needed")
    place = Machine(1, "linsched") if machine is None else machine
    objective = Turnaround(Workload.parse(workload), Scheduler("2.6.24", hz=1000), place)
    ways: dict[str, tuple[Space, Callable[[int], Settings]]] = {
        GOLDEN[0]: (periods_1(tasks), partial(discover_1, tasks=tasks)),
        GOLDEN[1]: (PERIODS_2, partial(discover_2, tasks=tasks)),
    }
    golden = {name: golden_section(objective, *how) for name, how in ways.items()}
    # Both attain the larger of their two minima, so every search has a number of executions to it.
    target = max(int(history.minimum) for history, _ in golden.values())
    enough = -np.inf if to_the_end else float(objective.least_possible())
    runs: dict[str, tuple[SearchRun, ...]] = {
        name: (_summary(objective, history, target, ways[name][1], clamped),)
        for name, (history, clamped) in golden.items()
    }
    for name, parameters in SWARMS.items():
        swarms = [
            ParticleSwarm(SPACE, parameters, particles=particles, iterations=iterations, rng=seed)
            for seed in seeds
        ]
        told = None if progress is None else _named(progress, name)
        histories = run_many(swarms, objective, remember=True, enough=enough, progress=told)
        runs[name] = tuple(_summary(objective, history, target) for history in histories)
        drawn = np.concatenate([history.values[:particles] for history in histories])
    least = min(one.minimum_jiffies for each in runs.values() for one in each)
    return Study(
        workload=objective.workload,
        scheduler=objective.scheduler,
        machine=place,
        default_ns=_default(objective),
        golden_minimum_jiffies=target,
        particles=particles,
        iterations=iterations,
        random_share=stats.proportion(int((drawn <= least).sum()), len(drawn)),
        runs={name: runs[name] for name in [*SWARMS, *GOLDEN]},
        sweeps=tuple(sweep(objective, knob) for knob in KNOBS),
    )


def golden_section(
    objective: Turnaround, periods: Space, discover: Callable[[int], Settings]
) -> tuple[History, int]:
    """Search the period with golden section, and count the executions that had to be clamped.

    Args:
        objective: what is minimised.
        periods: the interval.
        discover: a parameter discovery algorithm.
    """
    clamped = 0

    def at(positions: FloatArray) -> FloatArray:
        nonlocal clamped
        wanted = [discover(int(period)) for period in positions[:, 0]]
        settings = [clamp(one) for one in wanted]
        clamped += sum(one != other for one, other in zip(wanted, settings, strict=True))
        return objective(np.array(settings, dtype=np.float64))

    history = run(GoldenSection(periods, tolerance=TOLERANCE), at, remember=True)
    return history, clamped


def sweep(objective: Turnaround, knob: str, count: int = 13) -> Sweep:
    """Move one knob alone over its range, in equal ratios, the others at their defaults.

    Args:
        objective: what is measured.
        knob: the knob's name.
        count: settings to try.
    """
    dimension = SPACE.dimensions[KNOBS.index(knob)]
    start = max(dimension.low, LOWEST_GRANULARITY)
    values = np.rint(np.geomspace(start, dimension.high, count)).astype(np.int64)
    if dimension.low == 0:
        values = np.concatenate([[0], values])
    found = simulate_many(
        objective.workload,
        [knob],
        values[:, np.newaxis],
        scheduler=objective.scheduler,
        machine=objective.machine,
    )
    return Sweep(knob, tuple(values.tolist()), tuple(found.tolist()))


def _default(objective: Turnaround) -> int:
    found = simulate_many(
        objective.workload,
        [],
        np.empty((1, 0), dtype=np.int64),
        scheduler=objective.scheduler,
        machine=objective.machine,
    )
    return int(found[0])


def _summary(
    objective: Turnaround,
    history: History,
    target: int,
    discover: Callable[[int], Settings] | None = None,
    clamped: int = 0,
) -> SearchRun:
    def settings_at(position: FloatArray) -> Settings:
        if discover is not None:
            return clamp(discover(int(position[0])))
        latency, granularity, wakeup = (int(value) for value in position)
        return latency, granularity, wakeup

    settings = settings_at(history.minimum_position)
    return SearchRun(
        minimum_jiffies=int(history.minimum),
        minimum_ns=objective.nanoseconds(settings),
        settings=settings,
        executions=history.executions,
        executions_to_minimum=history.executions_to_minimum,
        executions_to_golden_minimum=history.executions_to(target),
        generation_of_minimum=history.generation_of_minimum,
        clamped=clamped,
        visited=tuple(map(settings_at, history.positions[history.executed])),
    )


def _named(tell: Callable[[str, Progress], None], name: str) -> Callable[[Progress], None]:
    return lambda progress: tell(name, progress)
