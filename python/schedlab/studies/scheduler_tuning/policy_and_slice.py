"""Which policy and slice serve a workload on this kernel: tuned in simulation, confirmed for real.

Candidates are what this user may set here. Each is simulated under this kernel's rules; the best is
then run on the kernel itself, in turns with the default, and judged by paired log-ratios. Where the
kernel shows no difference, that is the result.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from schedlab.boundary.errors import RunError
from schedlab.experiment import blocks
from schedlab.measure.doctor import Diagnosis
from schedlab.model import Attributes, Machine, Scheduler, Workload
from schedlab.targets import host
from schedlab.targets.sim import simulate

SLICES = ("100us", "300us", "1ms", "3ms", "10ms", "30ms", "100ms")
"""Slices that are tried, in ratios of about three over the range the kernel allows."""

DEFAULT = Attributes()
"""What a task has that asks for nothing."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A setting and its mean simulated turnaround in nanoseconds."""

    attributes: Attributes
    simulated_ns: int


@dataclass(frozen=True, slots=True)
class Verified:
    """The best candidate against the default.

    Attributes:
        workload: what was run.
        simulated: what was simulated; means are over these.
        scheduler: whose rules were simulated.
        machine: what was simulated.
        candidates: every setting, the fastest first.
        default: the default's simulation.
        best: the fastest candidate.
        comparison: best / default in real runs.
        repeats: real runs of each.
        default_runs_ns: the default's turnarounds.
        best_runs_ns: the best candidate's.
    """

    workload: Workload
    simulated: tuple[str, ...]
    scheduler: Scheduler
    machine: Machine
    candidates: tuple[Candidate, ...]
    default: Candidate
    best: Candidate
    comparison: blocks.Comparison
    repeats: int
    default_runs_ns: tuple[int, ...]
    best_runs_ns: tuple[int, ...]

    @property
    def predicted(self) -> float:
        """The simulated ratio of the best candidate to the default."""
        return self.best.simulated_ns / self.default.simulated_ns


def settable(diagnosis: Diagnosis) -> list[Attributes]:
    """Return the policies and slices that this user may set on this kernel.

    Slices go with the policies whose tasks have one of their own to ask for: other and batch.
    """
    allowed = [one.name for one in diagnosis.policies if one.allowed]
    found = [Attributes(policy) for policy in allowed]
    if diagnosis.slices.allowed:
        for policy in ("other", "batch"):
            if policy in allowed:
                found += [Attributes(policy, slice=one) for one in SLICES]
    return found


def simulate_candidates(
    workloads: Sequence[Workload | str],
    candidates: Iterable[Attributes],
    *,
    scheduler: Scheduler,
    machine: Machine,
) -> list[Candidate]:
    """Simulate each candidate, and return them, the fastest first.

    Of equally fast ones the earlier comes first, so the default wins every tie.

    Args:
        workloads: what the mean is taken over. One run is chaotic, a switch more or less early on
            moving all that follows, so neighbouring workloads tell a setting's effect from luck.
        candidates: settings to try.
        scheduler: the rules.
        machine: what is simulated.
    """
    found = []
    for one in candidates:
        runs = [
            simulate(work, scheduler=scheduler, machine=machine, attributes=one).turnaround_ns
            for work in workloads
        ]
        found.append(Candidate(one, round(fmean(runs))))
    return sorted(found, key=lambda candidate: candidate.simulated_ns)


def verify(
    workload: Workload | str,
    candidates: Iterable[Attributes],
    *,
    scheduler: Scheduler,
    machine: Machine,
    neighbours: Sequence[Workload | str] = (),
    repeats: int = 20,
    seed: int = 0,
    progress: Callable[[blocks.Progress], None] | None = None,
) -> Verified:
    """Tune in simulation, and run the best candidate and the default for real, interleaved.

    Where no candidate beats the default in simulation, the runner-up is run: the result then is
    that the default is as good.

    Args:
        workload: what is run.
        candidates: settings to try, the default not among them or first.
        scheduler: this kernel's rules.
        machine: this machine, with calibrated costs.
        neighbours: workloads to simulate; the one that is run where there are none.
        repeats: real runs of each.
        seed: of the order.
        progress: told after each run.

    Raises:
        RunError: there is no candidate but the default.
    """
    work = Workload.parse(workload) if isinstance(workload, str) else workload
    others = [one for one in candidates if one != DEFAULT]
    if not others:
        raise RunError("this user may set no policy and no slice here: there is nothing to compare")
    simulated = neighbours or [work]
    found = simulate_candidates(simulated, [DEFAULT, *others], scheduler=scheduler, machine=machine)
    default = next(one for one in found if one.attributes == DEFAULT)
    best = next(one for one in found if one.attributes != DEFAULT)
    compared = blocks.run_blocks(
        {
            "default": lambda: host.run(work, attributes=DEFAULT).turnaround_ns,
            "best": lambda: host.run(work, attributes=best.attributes).turnaround_ns,
        },
        repeats,
        warmup=2,
        seed=seed,
        progress=progress,
    )
    return Verified(
        workload=work,
        simulated=tuple(one if isinstance(one, str) else one.name for one in simulated),
        scheduler=scheduler,
        machine=machine,
        candidates=tuple(found),
        default=default,
        best=best,
        comparison=compared.compare("default", "best"),
        repeats=repeats,
        default_runs_ns=tuple(compared.outcomes("default")),
        best_runs_ns=tuple(compared.outcomes("best")),
    )
