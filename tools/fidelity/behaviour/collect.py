"""The runs that the lines are about, simulated and real, interleaved and kept."""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fidelity import run_store
from fidelity.behaviour.register import Register
from fidelity.observation import RECORDED, Observation, simulations
from fidelity.places import Anew, Place, at, rules_at
from fidelity.run_store import RunStore
from fidelity.time_left import time_left
from schedlab.boundary.errors import SchedlabError
from schedlab.measure.calibration import Calibration
from schedlab.model import Machine, Workload

Note = Callable[[str], None]

_ROUSE = 0.02
"""Seconds within which a run begins at chance, several times from tick to tick."""


@dataclass(frozen=True, slots=True)
class Collected:
    """What there is of a place.

    Attributes:
        kernel: its kernel's release.
        clock: what its time goes by.
        costs: what its operations cost, left alone.
        noise: A/A runs by workload.
        real: real runs by workload, that are judged.
        simulated: simulated runs by workload.
    """

    kernel: str
    clock: str
    costs: Calibration
    noise: dict[str, list[Observation]]
    real: dict[str, list[Observation]]
    simulated: dict[str, list[Observation]]


@dataclass(frozen=True, slots=True)
class Job:
    """A real run that has to be there.

    Attributes:
        name: the workload's name.
        workload: the workload.
        block: its block, A/A or judged.
        seed: of its random streams.
        recorded: whether its wake-ups are recorded.
    """

    name: str
    workload: Workload
    block: str
    seed: int
    recorded: bool

    @property
    def key(self) -> str:
        """What it is found again by."""
        return run_store.key(self.workload, self.block, recorded=self.recorded)


def jobs(
    register: Register, place: str, *, noise: int, judged: int, fixed: Collection[str] = ()
) -> list[Job]:
    """Return the runs of a place in their order: block by block, each in an order of its own.

    Args:
        register: what was written down.
        place: the place.
        noise: A/A blocks; they come first.
        judged: blocks that are judged.
        fixed: workloads whose A/A intervals there are; they have no further A/A runs.
    """
    recorded = {
        line.workload for line in register.lines if line.place == place and line.metric in RECORDED
    }
    names = register.at(place)
    work = {name: register.workloads[name].workload for name in names}
    generator = np.random.default_rng(0)
    found = []
    blocks = [(f"noise {n}", n) for n in range(noise)] + [(f"judged {n}", n) for n in range(judged)]
    for block, number in blocks:
        for index in generator.permutation(len(names)):
            name = names[index]
            if block.startswith("noise") and name in fixed:
                continue
            ways = (False, True) if name in recorded else (False,)
            found += [Job(name, work[name], block, number + 1, way) for way in ways]
    return found


def fix(
    register: Register,
    place: str,
    directory: Path,
    note: Note,
    *,
    fixed: Collection[str] = (),
) -> dict[str, list[Observation]] | str:
    """Make the A/A runs of a place that are not there yet, and nothing that is judged.

    Args:
        register: what was written down.
        place: the place.
        directory: where runs are kept.
        note: told what is being done, with the time left.
        fixed: workloads whose A/A intervals there are.

    Returns:
        All A/A runs by workload; or why there are none.
    """
    kept = RunStore(directory, place)
    todo = jobs(register, place, noise=register.protocol.noise, judged=0, fixed=fixed)
    try:
        with at(place) as there:
            _run(there, kept, [job for job in todo if kept.find(job.key) is None], note)
    except SchedlabError as error:
        return str(error)
    return _runs(kept, todo)


def collect(
    register: Register,
    place: str,
    directory: Path,
    note: Note,
    *,
    fixed: Collection[str] = (),
    anew: Anew | None,
) -> Collected | str:
    """Make the runs of a place that are not there yet, and simulate.

    Args:
        register: what was written down.
        place: the place.
        directory: where runs are kept.
        note: told what is being done, with the time left.
        fixed: workloads whose A/A intervals there are.
        anew: how, if any may be made.

    Returns:
        All of them; or why there are none.
    """
    kept = RunStore(directory, place)
    protocol = register.protocol
    todo = jobs(register, place, noise=protocol.noise, judged=protocol.repeats, fixed=fixed)
    missing = [job for job in todo if kept.find(job.key) is None]
    try:
        alone = kept.costs(recorded=False, anew=anew)
        recorded = kept.costs(recorded=True, anew=anew)
        if anew is not None:
            with at(place) as there:
                _run(there, kept, missing, note)
    except SchedlabError as error:
        return str(error)
    scheduler = rules_at(place, alone.kernel, alone.hz)
    # What else runs was measured once, with nothing recorded.
    others = alone.costs.background or "none"
    machines = [Machine(alone.cpus, costs.costs, background=others) for costs in (alone, recorded)]
    note(f"{place}: simulating")
    work = {name: register.workloads[name].workload for name in register.at(place)}
    real = _runs(kept, [job for job in todo if job.block.startswith("judged")])
    return Collected(
        kernel=alone.kernel,
        clock=kept.clock,
        costs=alone,
        noise=_runs(kept, [job for job in todo if job.block.startswith("noise")]),
        real=real,
        simulated={
            name: simulations(
                workload,
                scheduler,
                (machines[0], machines[1]),
                protocol.simulated,
                real.get(name, ()),
            )
            for name, workload in work.items()
        },
    )


def _run(there: Place, kept: RunStore, missing: Sequence[Job], note: Note) -> None:
    note(f"{there.name}: {there.kernel}, {len(missing)} runs to make")
    generator = np.random.default_rng()
    began = time.monotonic()
    for done, job in enumerate(missing, start=1):
        there.pause(float(generator.uniform(0.5 * _ROUSE, 1.5 * _ROUSE)))
        left = time_left(began, done, len(missing))
        try:
            kept.add(job.key, _one(there, job), there)
        except SchedlabError as error:
            # A kernel whose recordings have holes can still be held to all that needs none.
            if not job.recorded:
                raise
            left = f"{left}; not recorded: {error}"
        note(f"{there.name} {job.block} {job.name}: {done} of {len(missing)}, {left}")


def _one(there: Place, job: Job) -> Observation:
    if job.recorded:
        return there.record(job.workload, seed=job.seed)
    return there.run(job.workload, seed=job.seed)


def _runs(kept: RunStore, todo: Sequence[Job]) -> dict[str, list[Observation]]:
    """Return what is there by workload, what was recorded of a block beside what was not."""
    found: dict[tuple[str, str], Observation] = {}
    for job in todo:
        run = kept.find(job.key)
        if run is not None:
            beside = found.get((job.name, job.block))
            found[job.name, job.block] = run if beside is None else beside.beside(run)
    runs: dict[str, list[Observation]] = {}
    for (name, _), run in found.items():
        runs.setdefault(name, []).append(run)
    return runs
