"""One arm of an experiment, run once a block, with every run stored as it finishes."""

import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

from schedlab.boundary.errors import RunError
from schedlab.experiment.sequential_experiment import Arm, Values
from schedlab.experiment.settings import Setting
from schedlab.experiment.subjects import Conditions, Measured, Subject
from schedlab.processes import lease
from schedlab.processes.disturbance import NOTE
from schedlab.store import Store
from schedlab.store.store import NewRun, now
from schedlab.targets.target import Target, label

TRIES = 2
"""How often a real run is made that fails, before its setting counts as one that cannot be run."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One arm: something that is run, under a setting, in a place.

    Attributes:
        group: what it is compared within: subject and target.
        subject: what is run.
        setting: how.
        target: where.
        label: what it is called in its group where that is not its setting, as a revision is.
    """

    group: str
    subject: Subject
    setting: Setting
    target: Target
    label: str = ""

    @property
    def called(self) -> str:
        """What it is called in its group."""
        return self.label or str(self.setting)

    @property
    def name(self) -> str:
        """Its name, unique in its plan."""
        return f"{self.group} | {self.called}"

    def definition(self) -> dict[str, Any]:
        """Return all that is needed to run it once more, but the seed."""
        return {
            "subject": dict(self.subject.definition()),
            "values": self.setting.definition(),
            "target": self.target.name,
            "release": label(self.target),
            "cpus": self.target.cpus,
            "simulated": None if self.target.real else dict(self.target.facts()),
        }

    def once(self, *, seed: int, timeout: float) -> "Once":
        """Run it once; again where others disturbed it, see `calmest`.

        Raises:
            InputError, NotPermittedError: it cannot be run at all.
            RunError: it failed, or printed no metric.
        """
        under = Conditions(self.setting.attributes, self.setting.knobs or None, seed, timeout)
        real = self.target.real
        timed = real and self.target.facts().get("clock") != "instructions"
        with lease.exclusive() if timed else nullcontext():
            begun, clock = now(), time.perf_counter()
            load = os.getloadavg()[0] if real else None
            measured = calmest(lambda: self.subject.measure(self.target, under))
            return Once(seed, begun, time.perf_counter() - clock, load, measured)

    def persistently(
        self, failed: Callable[[str], None], *, seed: int, timeout: float, tries: int = TRIES
    ) -> "Once":
        """Run it once; a real run that fails is made again, for chance may have failed it.

        Args:
            failed: told why, each time.
            seed: of every random stream.
            timeout: seconds a run may take.
            tries: how often a real run is made at most; a simulation would fail the same way again.

        Raises:
            InputError, NotPermittedError: it cannot be run at all.
            RunError: it failed each time.
        """
        left = tries if self.target.real else 1
        while True:
            left -= 1
            try:
                return self.once(seed=seed, timeout=timeout)
            except RunError as error:
                failed(str(error))
                if not left:
                    raise

    def made(self, once: "Once", *, arm: str, block: int, position: int = 0) -> NewRun:
        """Return a run as the store takes it."""
        return NewRun(
            arm=arm,
            block=block,
            position=position,
            seed=once.seed,
            begun=once.begun,
            seconds=once.seconds,
            load=once.load,
            definition=self.definition(),
            facts=dict(self.target.facts()),
            outcome=once.measured.outcome,
            values=once.measured.values,
        )


@dataclass(frozen=True, slots=True)
class Once:
    """One run of a cell.

    Attributes:
        seed: of every random stream.
        begun: when, UTC.
        seconds: how long it took.
        load: the load average when it began; None for a simulation.
        measured: its values.
    """

    seed: int
    begun: str
    seconds: float
    load: float | None
    measured: Measured


OTHERS = "others"
"""A value that every real run has: the part of the CPU time that others took, 0 to 1."""

DISTURBED = "disturbed"
"""A value of a run that stayed disturbed however often it was repeated: 1."""

_ATTEMPTS = 3
"""How often a disturbed run is made at most."""


def calmest(measure: Callable[[], Measured]) -> Measured:
    """Measure until others do not disturb it, at most three times, and return the calmest run.

    Its values also say what others took, where that is known, and whether it is disturbed; its
    outcome says how often it was repeated (``repeats``), if it was. Runs of every arm are repeated
    by the same rule, which does not depend on their results.

    >>> from schedlab.processes.disturbance import Disturbance
    >>> quiet, loud = Disturbance(1, 100, 1, 0, 1, False), Disturbance(1, 100, 50, 0, 1, True)
    >>> runs = iter([Measured({"seconds": 9.0}, {}, loud), Measured({"seconds": 5.0}, {}, quiet)])
    >>> dict(calmest(lambda: next(runs)).values)
    {'seconds': 5.0, 'others': 0.01}
    """
    best: Measured | None = None
    for repeats in range(_ATTEMPTS):
        measured = measure()
        found = measured.disturbance
        if found is None:
            return measured
        extra = {OTHERS: found.share} if found.known else {}
        extra |= {DISTURBED: 1.0} if found.disturbed else {}
        # An experiment tells of them together: a note a run would be many.
        notes = [text for text in measured.outcome.get("notes", ()) if NOTE not in text]
        measured = replace(
            measured,
            values={**measured.values, **extra},
            outcome={**measured.outcome, "notes": notes},
        )
        if not found.disturbed:
            return _repeated(measured, repeats)
        if best is None or best.disturbance is None or found.share < best.disturbance.share:
            best = measured
    assert best is not None
    return _repeated(best, _ATTEMPTS - 1)


def _repeated(measured: Measured, repeats: int) -> Measured:
    if not repeats:
        return measured
    return replace(measured, outcome={**measured.outcome, "repeats": repeats})


def known_runs(
    store: Store, experiment: str, stages: Iterable[Mapping[str, Cell]]
) -> dict[tuple[str, int], Values]:
    """Return the runs that an experiment has already, of blocks that can be gone on with.

    A block is made in one boot of one host, so that what differs between hosts, or from one boot to
    the next, is the same for all that is compared in it. A real run of a block that another boot
    left unfinished is removed from the store, to be made again with the rest of its block.

    Args:
        store: where runs are.
        experiment: its id there.
        stages: the arms that share blocks, by their names in the store.

    Returns:
        Metrics, by name and block.
    """
    known: dict[tuple[str, int], Values] = dict(store.values(experiment))
    boots = store.boots(experiment)
    for stage in stages:
        arms: dict[int, set[str]] = {}
        for name, block in known:
            if name in stage:
                arms.setdefault(block, set()).add(name)
        if not arms:
            continue
        last = max(arms)
        # Arms leave and never come back: a block with all that the one before had is whole.
        if arms[last] == arms.get(last - 1, set(stage)):
            continue
        elsewhere = [
            (name, last)
            for name in sorted(arms[last])
            if stage[name].target.real
            and boots[name, last] != stage[name].target.facts().get("boot")
        ]
        store.forget(experiment, elsewhere)
        for run in elsewhere:
            del known[run]
    return known


def stored(
    name: str,
    cell: Cell,
    store: Store,
    experiment: str,
    known: Mapping[tuple[str, int], Values],
    *,
    seed: int,
    timeout: float,
    tries: int = TRIES,
) -> Arm:
    """Return an arm that gives what is known, and runs and stores what is not.

    A failure that is stored does not count: the run is made again.

    Args:
        name: under which it is stored.
        cell: what it runs.
        store: where runs go.
        experiment: its id there.
        known: runs that were there before, by name and block.
        seed: block b has seed + b.
        timeout: seconds a run may take.
        tries: how often a real run is made that fails.
    """

    def execute(block: int, place: int) -> Values:
        if (name, block) in known:
            return known[name, block]
        # A simulation's block is a seed; what is measured differs by itself.
        once = cell.persistently(
            lambda why: store.fail(experiment, name, block, why),
            seed=(seed + block) % 2**64,
            timeout=timeout,
            tries=tries,
        )
        store.add_all(experiment, [cell.made(once, arm=name, block=block, position=place)])
        return once.measured.values

    return execute
