"""The runs of every setting, simulated and real, interleaved and kept."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fidelity import run_store
from fidelity.observation import Observation, simulated_recorded
from fidelity.places import Anew, at, rules_at
from fidelity.prediction.register import Register, Setting
from fidelity.run_store import RunStore
from fidelity.time_left import time_left
from schedlab.boundary.errors import RunError, SchedlabError
from schedlab.measure.calibration import Calibration
from schedlab.model import Machine, Workload

Note = Callable[[str], None]

FAILURES = 4
"""Runs that may fail before it is given up."""

Key = tuple[str, str]
"""Workload and setting."""


@dataclass(frozen=True, slots=True)
class Collected:
    """What there is of a place.

    Attributes:
        kernel: its kernel's release.
        clock: what its time goes by.
        real: real runs by workload and setting.
        simulated: simulated ones.
    """

    kernel: str
    clock: str
    real: dict[Key, list[Observation]]
    simulated: dict[Key, list[Observation]]


@dataclass(frozen=True, slots=True)
class Job:
    """A real run that has to be there.

    Attributes:
        name: the workload's name.
        workload: the workload, as it is under the setting.
        setting: the setting.
        block: its block.
        recorded: whether its wake-ups are recorded.
    """

    name: str
    workload: Workload
    setting: Setting
    block: int
    recorded: bool

    @property
    def key(self) -> str:
        """What it is found again by."""
        return run_store.key(
            self.workload,
            f"setting {self.block}",
            setting=self.setting.name,
            recorded=self.recorded,
        )


def jobs(register: Register, place: str) -> list[Job]:
    """Return the runs of a place: block by block, each in an order of its own."""
    generator = np.random.default_rng(0)
    first = [
        Job(name, _with(register.workloads[name].workload, setting), setting, 0, recorded)
        for name in register.at(place)
        for recorded in (register.recorded(place, name),)
        for setting in register.settings(place)
    ]
    return [
        replace(first[index], block=block)
        for block in range(register.repeats(place))
        for index in generator.permutation(len(first))
    ]


def collect(
    register: Register,
    place: str,
    directory: Path,
    note: Note,
    *,
    anew: Anew | None,
) -> Collected | str:
    """Make the runs of a place that are not there yet, and simulate.

    Args:
        register: what was written down.
        place: the place.
        directory: where runs are kept.
        note: told what is being done, with the time left.
        anew: how, if any may be made.

    Returns:
        All of them; or why there are none.
    """
    kept = RunStore(directory, place)
    todo = jobs(register, place)
    missing = [job for job in todo if kept.find(job.key) is None]
    ways = sorted({job.recorded for job in todo})
    try:
        costs = {way: kept.costs(recorded=way, anew=anew) for way in ways}
        if anew is not None:
            _run(place, kept, missing, note)
        note(f"{place}: simulating")
        ours = _simulate(register, place, costs)
    except SchedlabError as error:
        return str(error)
    real: dict[Key, list[Observation]] = {}
    for job in todo:
        run = kept.find(job.key)
        if run is not None:
            real.setdefault((job.name, job.setting.name), []).append(run)
    return Collected(costs[ways[0]].kernel, kept.clock, real, ours)


def _run(place: str, kept: RunStore, missing: Sequence[Job], note: Note) -> None:
    """Make runs; one that fails is left out, and its place is made anew for the others."""
    began = time.monotonic()
    left, failures = list(missing), 0
    while True:
        with at(place) as there:
            note(f"{place}: {there.kernel}, {len(left)} runs to make")
            while left:
                job = left.pop(0)
                try:
                    with there.knobs(job.setting.knobs):
                        made = there.record if job.recorded else there.run
                        run = made(job.workload, seed=job.block + 1)
                except RunError as error:
                    failures += 1
                    note(f"{place} {job.name} {job.setting.name}: {error}")
                    if failures == FAILURES:
                        raise
                    break
                kept.add(job.key, run, there)
                done = len(missing) - len(left)
                rest = time_left(began, done, len(missing))
                note(f"{place} {job.name} {job.setting.name}: {done} of {len(missing)}, {rest}")
            else:
                return


def _simulate(
    register: Register, place: str, costs: Mapping[bool, Calibration]
) -> dict[Key, list[Observation]]:
    runs = register.protocol.simulated
    found: dict[Key, list[Observation]] = {}
    for name in register.at(place):
        measured = costs[register.recorded(place, name)]
        scheduler = rules_at(place, measured.kernel, measured.hz)
        machine = Machine(measured.cpus, measured.costs)
        period = 1_000_000_000 // measured.hz
        for setting in register.settings(place):
            rules = scheduler.with_knobs(setting.knobs) if setting.knobs else scheduler
            found[name, setting.name] = [
                simulated_recorded(
                    _with(register.workloads[name].workload, setting),
                    rules,
                    machine,
                    seed=number + 1,
                    phase_ns=period * (2 * number + 1) // (2 * runs),
                )
                for number in range(runs)
            ]
    return found


def _with(workload: Workload, setting: Setting) -> Workload:
    attributes = setting.attributes
    return workload if attributes is None else workload.with_attributes(attributes)
