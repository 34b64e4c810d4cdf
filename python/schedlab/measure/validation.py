"""The simulator against the running kernel: the same workloads in both, with the costs frozen.

The measured runs are interleaved (every block runs every workload once, in an order of its own), so
that a machine that grows slower meanwhile does so for all of them. Nothing is fitted to them: costs
come from a calibration that uses other workloads.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from schedlab import programs
from schedlab.boundary.errors import InputError
from schedlab.experiment import stats
from schedlab.experiment.blocks import Experiment, Progress, run_blocks
from schedlab.model import Costs, Machine, Scheduler
from schedlab.model.outcome import Outcome
from schedlab.targets import host
from schedlab.targets.sim import simulate

MESSAGES = (1, 2, 5, 10, 20, 50, 100)
"""Messages from each sender to each receiver, as in the tuning paper's figure 1."""

RESOLUTION = 10
"""Messages from which on rt-tests' hackbench, which prints milliseconds, can be compared."""

BAND = 0.05
"""Half-width of the band within which ours and rt-tests' hackbench count as the same."""


@dataclass(frozen=True, slots=True)
class Settings:
    """One hackbench.

    Attributes:
        loops: messages from each sender to each receiver.
        groups: groups of senders and receivers.
        fds: senders, and as many receivers, in a group.
        datasize: bytes of a message.
        pipe: pipes, not stream sockets.
        threads: threads, not processes.

    >>> Settings(loops=3, groups=5).text
    'hackbench:groups=5,fds=20,loops=3,datasize=100,pipe=0,threads=0'
    >>> Settings(loops=3, groups=5).messages
    6000
    """

    loops: int
    groups: int = 5
    fds: int = 20
    datasize: int = 100
    pipe: bool = False
    threads: bool = False

    @property
    def text(self) -> str:
        """The workload's text."""
        return (
            f"hackbench:groups={self.groups},fds={self.fds},loops={self.loops},"
            f"datasize={self.datasize},pipe={self.pipe:d},threads={self.threads:d}"
        )

    @property
    def messages(self) -> int:
        """All messages that senders send."""
        return self.groups * self.fds**2 * self.loops

    @property
    def workers(self) -> int:
        """Senders and receivers."""
        return self.groups * self.fds * 2


def figure_1(messages: Sequence[int] = MESSAGES) -> list[Settings]:
    """Return the workloads of the paper's figure 1: five groups, more and more messages."""
    return [Settings(loops=loops) for loops in messages]


def wide(loops: int = 20) -> list[Settings]:
    """Return workloads far from figure 1: groups, pipes and sockets, processes and threads, sizes.

    >>> len(wide())
    48
    """
    return [
        Settings(loops=loops, groups=groups, datasize=size, pipe=pipe, threads=threads)
        for groups in (1, 2, 5, 10)
        for size in (1, 100, 4096)
        for pipe in (False, True)
        for threads in (False, True)
    ]


@dataclass(frozen=True, slots=True)
class Point:
    """One workload, simulated and measured, in nanoseconds.

    Attributes:
        settings: the workload.
        simulated_ns: its simulated turnaround.
        constant_cost_ns: what a constant cost per message predicts.
        measured_ns: the median of the measured turnarounds.
        runs_ns: each measured turnaround.
        log_error: ln(simulated / measured).
        constant_cost_log_error: ln(constant cost / measured).
    """

    settings: Settings
    simulated_ns: int
    constant_cost_ns: int
    measured_ns: float
    runs_ns: tuple[int, ...]
    log_error: float
    constant_cost_log_error: float


@dataclass(frozen=True, slots=True)
class Validation:
    """What a comparison came to.

    Attributes:
        scheduler: whose rules were simulated.
        machine: what was simulated.
        message_cost_ns: of the constant-cost model, before it is spread over the CPUs.
        points: each workload.
        fit: the line measured = intercept + slope * simulated.
        median_absolute_error: the median of abs(simulated - measured) / measured.
        constant_cost_fit: the same line for the constant-cost model.
        constant_cost_error: the same error.
        repeats: measured runs of each workload.
    """

    scheduler: Scheduler
    machine: Machine
    message_cost_ns: int
    points: tuple[Point, ...]
    fit: stats.LinearFit
    median_absolute_error: float
    constant_cost_fit: stats.LinearFit
    constant_cost_error: float
    repeats: int


@dataclass(frozen=True, slots=True)
class Equivalence:
    """Our native hackbench beside rt-tests'.

    Attributes:
        same_work: whether tasks, messages and bytes were equal in every run.
        ratio: ours / rt-tests', paired within blocks, over workloads long enough for milliseconds.
        verdict: whether they take the same time, see `schedlab.experiment.stats.judge`.
        band: half-width of the band for that.
        ours_ns: our median turnaround by messages.
        theirs_ns: rt-tests' median turnaround by messages.
    """

    same_work: bool
    ratio: stats.Estimate | None
    verdict: stats.Verdict | None
    band: float
    ours_ns: Mapping[int, float]
    theirs_ns: Mapping[int, float]


Run = Outcome | programs.Hackbench


def measure(
    settings: Sequence[Settings],
    *,
    repeats: int = 5,
    warmup: int = 1,
    seed: int = 0,
    beside: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> Experiment[Run]:
    """Run workloads on this kernel, interleaved.

    Args:
        settings: the workloads.
        repeats: runs of each.
        warmup: further runs of each, before and dropped.
        seed: of the order.
        beside: run rt-tests' hackbench with the same settings in each block too.
        progress: told after each run.

    Raises:
        InputError: no workload, or fewer than one repeat.
    """
    if not settings or repeats < 1:
        raise InputError("at least one workload and one repeat are needed")
    arms: dict[str, Callable[[], Run]] = {one.text: _native(one) for one in settings}
    if beside:
        arms |= {_theirs(one): _rt_tests(one) for one in settings}
    return run_blocks(arms, repeats, warmup=warmup, seed=seed, progress=progress)


def validate(
    settings: Sequence[Settings],
    experiment: Experiment[Run],
    *,
    machine: Machine,
    scheduler: Scheduler | None = None,
) -> Validation:
    """Simulate measured workloads and compare.

    Args:
        settings: the workloads, at least two.
        experiment: their measured runs, from `measure`.
        machine: what to simulate.
        scheduler: the rules to simulate; this kernel's otherwise.

    Raises:
        InputError: fewer than two workloads, or what the simulator refuses.
    """
    if len(settings) < 2:
        raise InputError("a comparison needs at least two workloads")
    here = host.facts()
    rules = here.rules if scheduler is None else scheduler
    points = []
    for one in settings:
        runs = tuple(int(value) for value in experiment.values(one.text, turnaround))
        measured = float(np.median(runs))
        simulated = simulate(one.text, scheduler=rules, machine=machine).turnaround_ns
        constant = constant_cost(one, machine)
        if simulated <= 0 or constant <= 0:
            raise InputError(f"{machine} cost nothing: a comparison needs calibrated costs")
        points.append(
            Point(
                settings=one,
                simulated_ns=simulated,
                constant_cost_ns=constant,
                measured_ns=measured,
                runs_ns=runs,
                log_error=float(stats.log_ratio([simulated], [measured])[0]),
                constant_cost_log_error=float(stats.log_ratio([constant], [measured])[0]),
            )
        )
    measured_all = [point.measured_ns for point in points]
    simulated_all = [point.simulated_ns for point in points]
    constant_all = [point.constant_cost_ns for point in points]
    return Validation(
        scheduler=rules,
        machine=machine,
        message_cost_ns=message_cost(settings[0], machine.costs),
        points=tuple(points),
        fit=stats.linear_fit(simulated_all, measured_all),
        median_absolute_error=stats.median_absolute_relative_error(simulated_all, measured_all),
        constant_cost_fit=stats.linear_fit(constant_all, measured_all),
        constant_cost_error=stats.median_absolute_relative_error(constant_all, measured_all),
        repeats=len(experiment.blocks),
    )


def message_cost(settings: Settings, costs: Costs) -> int:
    """Return what one message costs in the constant-cost model, in nanoseconds.

    One write, one read, their two system calls, copying in and out, and one switch.

    >>> costs = Costs.from_times("mine", {"socket_write": "2us", "socket_read": "1us"})
    >>> message_cost(Settings(loops=1), costs)
    3000
    """
    kind = "pipe" if settings.pipe else "socket"
    times = costs.times
    per_kib = 2 * times["copy_per_kib"] + (0 if settings.pipe else times["skb_per_kib"])
    copying = round(settings.datasize * per_kib / 1024)
    ends = times[f"{kind}_write"] + times[f"{kind}_read"]
    return ends + 2 * times["system_call"] + copying + times["switch"]


def constant_cost(settings: Settings, machine: Machine) -> int:
    """Return the turnaround if every message cost the same, spread evenly over the CPUs."""
    return settings.messages * message_cost(settings, machine.costs) // machine.cpus


def equivalence(
    settings: Sequence[Settings], experiment: Experiment[Run], *, band: float = BAND
) -> Equivalence:
    """Compare our native hackbench with rt-tests' in the same blocks.

    Args:
        settings: the workloads.
        experiment: measured with ``beside``.
        band: half-width of the band within which they count as the same.
    """
    same_work = True
    ours: list[float] = []
    theirs: list[float] = []
    for one in settings:
        pairs = zip(experiment.outcomes(one.text), experiment.outcomes(_theirs(one)), strict=True)
        same_work &= all(_same_work(one, our, their) for our, their in pairs)
        if one.loops >= RESOLUTION:
            ours += experiment.values(one.text, turnaround).tolist()
            theirs += experiment.values(_theirs(one), turnaround).tolist()
    usable = len(ours) >= 2 and min(theirs) > 0
    ratio = stats.paired_ratio(theirs, ours) if usable else None
    return Equivalence(
        same_work=same_work,
        ratio=ratio,
        verdict=None if ratio is None else stats.judge(ratio, band=band),
        band=band,
        ours_ns=_medians(settings, experiment, lambda one: one.text),
        theirs_ns=_medians(settings, experiment, _theirs),
    )


def turnaround(outcome: Run) -> float:
    """Return the turnaround of a run of ours or of rt-tests', in nanoseconds."""
    if isinstance(outcome, programs.Hackbench):
        return outcome.seconds * 1e9
    return float(outcome.turnaround_ns)


def _same_work(settings: Settings, ours: Run, theirs: Run) -> bool:
    if not isinstance(ours, Outcome) or not isinstance(theirs, programs.Hackbench):
        return False
    # Beside what senders send, each worker tells main with one byte that it is ready.
    workers = len(ours.tasks) - 1
    done = (workers, ours.messages - workers, ours.bytes - workers)
    return done == (theirs.tasks, theirs.messages, theirs.bytes) and workers == settings.workers


def _medians(
    settings: Sequence[Settings], experiment: Experiment[Run], arm: Callable[[Settings], str]
) -> dict[int, float]:
    medians = {one.loops: np.median(experiment.values(arm(one), turnaround)) for one in settings}
    return {loops: float(median) for loops, median in medians.items()}


def _theirs(settings: Settings) -> str:
    return f"rt-tests {settings.text}"


def _native(settings: Settings) -> Callable[[], Run]:
    return lambda: host.run(settings.text)


def _rt_tests(settings: Settings) -> Callable[[], Run]:
    return lambda: programs.hackbench(
        groups=settings.groups,
        fds=settings.fds,
        loops=settings.loops,
        datasize=settings.datasize,
        pipe=settings.pipe,
        threads=settings.threads,
    )
