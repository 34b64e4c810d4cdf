"""Held-out workloads run at a place, in blocks, and simulated; real runs are kept."""

import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from fidelity import run_store
from fidelity.held_out.draw import Drawn, draw, of_other_kinds
from fidelity.held_out.plan import Plan
from fidelity.observation import Observation, simulations
from fidelity.places import Anew, Place, at, rules_at
from fidelity.run_store import RunStore
from fidelity.time_left import time_left
from schedlab.boundary.errors import SchedlabError
from schedlab.model import Machine

Note = Callable[[str], None]

_ROUSE = 0.02
"""Seconds within which a run begins at chance, several times from tick to tick."""


@dataclass(slots=True)
class Predicted:
    """A workload's runs.

    Attributes:
        drawn: the workload.
        real: its real runs, each with what was recorded of the same block.
        simulated: its simulated runs.
        why_not: why there are none, where there are none.
    """

    drawn: Drawn
    real: list[Observation] = field(default_factory=list)
    simulated: list[Observation] = field(default_factory=list)
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """What there is of a place.

    Attributes:
        kernel: its kernel's release.
        cpus: how many it has.
        clock: what its time goes by: ``host`` or ``instructions``.
        workloads: in the order of their seeds.
    """

    kernel: str
    cpus: int
    clock: str
    workloads: list[Predicted]


def collect(
    plan: Plan,
    place: str,
    seeds: Sequence[int],
    directory: Path,
    *,
    note: Note,
    anew: Anew | None,
    background: bool = True,
    without: Collection[str] = (),
    count: int | None = None,
) -> Found:
    """Run and simulate the workloads of some seeds at a place.

    Args:
        plan: how often.
        place: its name, see `fidelity.places.at`.
        seeds: what is drawn.
        directory: where runs are kept.
        note: told of progress.
        anew: how what is not kept is made; None takes what there is.
        background: whether what else runs there is simulated.
        without: kinds that are left out.
        count: how many workloads at most, of all seeds without it.

    Raises:
        SchedlabError: the place cannot be reached, or nothing is kept of it.
    """
    kept = RunStore(directory, place)
    alone, recorded = (kept.costs(recorded=way, anew=anew) for way in (False, True))
    rules = rules_at(place, alone.kernel, alone.hz)
    drawn = (draw(seed, cpus=alone.cpus, slices=rules.has_slices, quotas=True) for seed in seeds)
    found = [Predicted(one) for one in of_other_kinds(without, drawn, count)]
    if anew is not None:
        _run(plan, place, found, kept, note)
    for one in found:
        one.real = [
            run for block in range(plan.runs) if (run := _kept(kept, one.drawn, block)) is not None
        ]
        if not one.real and not one.why_not:
            one.why_not = "no run is kept"
        if one.real:
            # What else runs was measured once, with nothing recorded.
            others = (alone.costs.background if background else None) or "none"
            machines = (
                Machine(alone.cpus, alone.costs, background=others),
                Machine(alone.cpus, recorded.costs, background=others),
            )
            try:
                one.simulated = simulations(
                    one.drawn.workload, rules, machines, plan.simulations, one.real
                )
            except SchedlabError as error:
                one.why_not = f"simulated: {error}"
            note(f"{place}: {one.drawn.workload.name} simulated")
    return Found(kept.kernel or alone.kernel, alone.cpus, kept.clock, found)


def _key(drawn: Drawn, block: int, *, recorded: bool) -> str:
    return run_store.key(drawn.workload, f"held out {block}", recorded=recorded)


def _kept(kept: RunStore, drawn: Drawn, block: int) -> Observation | None:
    alone, recorded = (kept.find(_key(drawn, block, recorded=way)) for way in (False, True))
    if alone is None:
        return None
    return alone if recorded is None else alone.beside(recorded)


def _run(plan: Plan, place: str, found: Sequence[Predicted], kept: RunStore, note: Note) -> None:
    """Make the runs that are missing: block by block, each in an order of its own."""
    generator = np.random.default_rng(0)
    jobs = [
        (found[index], block, recorded)
        for block in range(plan.runs)
        for index in generator.permutation(len(found))
        for recorded in (False, True)
    ]
    missing = [
        (one, block, recorded)
        for one, block, recorded in jobs
        if kept.find(_key(one.drawn, block, recorded=recorded)) is None
    ]
    began = time.monotonic()
    left = deque(enumerate(missing, start=1))
    while left:
        # A guest that did not answer in time was ended, and is booted again.
        with at(place) as there:
            note(f"{place}: {there.kernel}, {len(left)} runs to make")
            while left and there.up:
                done, (one, block, recorded) = left.popleft()
                if one.why_not:
                    continue
                try:
                    there.pause(float(generator.uniform(0.5 * _ROUSE, 1.5 * _ROUSE)))
                    run = _once(there, one.drawn, block, recorded=recorded)
                except SchedlabError as error:
                    # One that cannot run gets a note; one not recorded has no percentiles.
                    if not recorded:
                        one.why_not = str(error)
                    continue
                kept.add(_key(one.drawn, block, recorded=recorded), run, there)
                told = time_left(began, done, len(missing))
                note(f"{place}, block {block}, {one.drawn.workload.name}: {told}")


def _once(there: Place, drawn: Drawn, block: int, *, recorded: bool) -> Observation:
    if recorded:
        return there.record(drawn.workload, seed=block + 1)
    return there.run(drawn.workload, seed=block + 1, delays=True)
