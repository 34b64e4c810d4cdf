"""Recordings of programs, kept, and what the first of them predicts of all others."""

import gzip
import hashlib
import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from fidelity.places import KEPT, Anew, Place, at, calibrated
from fidelity.programs.register import Change, Metric, Part, Program, Register
from fidelity.whatif.register import RECORDED
from schedlab import simulate
from schedlab.boundary.errors import RunError, SchedlabError
from schedlab.boundary.files import make_directory
from schedlab.measure import calibration
from schedlab.measure.inference import Inferred, infer, simulated, workload_of
from schedlab.model import Costs, Machine

_VARIABLES: Mapping[Part, str] = {"program": "PROGRAM", "batch": "BATCH"}
"""What a part's commands begin with, in the scripts."""

Note = Callable[[str], None]
Values = Mapping[Metric, float]
"""What a run came to: jobs a second, and the 99th percentile of wake-up latencies in ns."""

_TIMED = re.compile(r" (\d+)\.(\d{9}): (.*)")
_FORKED = re.compile(r"sched_process_fork: .* child_pid=(\d+)")
_EXITED = re.compile(r"sched_process_exit: comm=(.*) pid=(\d+) ")
_TASK = re.compile(r"'?(.*)-(\d+)'?")


@dataclass(slots=True)
class Cell:
    """A program under a setting.

    Attributes:
        real: what its recordings came to.
        predicted: what simulations of the workload inferred from the first recording of the
            program, under the setting in which nothing is changed, came to.
        why_not: why there is nothing, where there is nothing.
    """

    real: list[Values] = field(default_factory=list)
    predicted: list[Values] = field(default_factory=list)
    why_not: str = ""

    def error(self, metric: Metric) -> float | None:
        """Return how far the predicted median is from the real one, relative and with its sign."""
        if not self.real or not self.predicted:
            return None
        real = float(np.median([one[metric] for one in self.real]))
        ours = float(np.median([one[metric] for one in self.predicted]))
        return ours / real - 1 if real else None

    def own(self, metric: Metric) -> float | None:
        """Return how far real runs are apart, relative to their median."""
        if len(self.real) < 2:
            return None
        values = [one[metric] for one in self.real]
        middle = float(np.median(values))
        return (max(values) - min(values)) / middle if middle else None


@dataclass(frozen=True, slots=True)
class Found:
    """What there is of a place.

    Attributes:
        kernel: its kernel's release.
        cells: by program and change.
    """

    kernel: str
    cells: Mapping[tuple[str, str], Cell]


def collect(
    register: Register,
    place: str,
    names: Sequence[str],
    directory: Path,
    *,
    note: Note,
    anew: Anew | None,
) -> Found:
    """Record what is not kept, in blocks, and predict every setting from the first recording.

    Args:
        register: what was written down.
        place: ``vm:SERIES``.
        names: of the programs.
        directory: where recordings are kept, so that what was interrupted goes on.
        note: told of progress.
        anew: how, if anything may be recorded.

    Raises:
        SchedlabError: the place cannot be had, or its costs are not kept.
    """
    kept = _Recordings(make_directory(directory), place)
    cells = {(name, change.name): Cell() for name in names for change in register.changes_at(place)}
    if anew is not None:
        _record(register, names, kept, cells, note)
        if not kept.costs.exists():
            note(f"{place}: costs")
            calibration.save(calibrated(place, recorded=KEPT, how=anew), kept.costs)
    costs = Costs.load(kept.costs)
    kernel = ""
    for name in names:
        kernel = _compare(register, name, kept, cells, costs) or kernel
        note(f"{place}: {name} predicted")
    return Found(kernel, cells)


class _Recordings:
    """The recordings of a place."""

    def __init__(self, directory: Path, place: str) -> None:
        self.place = place
        self._directory = directory
        self._stem = place.replace(":", "-")
        self.costs = directory / f"{self._stem}-costs.toml"

    def path(self, name: str, program: Program, change: Change, block: int) -> Path:
        """Return the file of a recording, whose name changes with what is run."""
        whole = program.model_dump_json(exclude={"why"}) + change.model_dump_json(
            exclude={"places"}
        )
        digest = hashlib.sha256(whole.encode()).hexdigest()[:8]
        called = change.name.replace(" ", "-")
        return self._directory / f"{self._stem}-{name}-{called}-{block}-{digest}.txt.gz"


def _record(
    register: Register,
    names: Sequence[str],
    kept: _Recordings,
    cells: Mapping[tuple[str, str], Cell],
    note: Note,
) -> None:
    """Record what is missing: each block has every program under every setting once."""
    generator = np.random.default_rng(0)
    jobs = [
        (name, change, kept.path(name, register.programs[name], change, block))
        for block in range(register.protocol.repeats)
        for name in names
        for change in register.changes_at(kept.place)
    ]
    missing = [job for job in jobs if not job[2].exists()]
    if not missing:
        return
    with at(kept.place) as there:
        for name in dict.fromkeys(name for name, _, _ in missing):
            note(f"{kept.place}: {name}, not recorded")
            warm_up(there, register.programs[name], register.changes_at(kept.place))
        for name, change, path in missing:
            note(f"{kept.place}: {name}, {change.name}")
            there.pause(float(generator.uniform(0.01, 0.03)))
            try:
                with there.knobs(change.knobs):
                    record_program(there, register.programs[name], change, path)
            except SchedlabError as error:
                cells[name, change.name].why_not = str(error)
                note(f"{kept.place}: {name}, {change.name}: {error}")


def warm_up(there: Place, program: Program, changes: Sequence[Change]) -> None:
    """Run a program once, and what sets its parts, so that the place has their files in memory.

    A clock that counts instructions leaps while a guest waits for a file of this machine.

    Raises:
        RunError: it could not be run.
    """
    for change in changes:
        prefixes = (change.prefix(part) for part in _VARIABLES)
        there.command(["sh", "-eu", "-c", "\n".join(f"{prefix} true" for prefix in prefixes)])
    begin = _settings(there, Change(name="none"))
    with there.prepared(begin + program.prepare):
        there.command(["sh", "-eu", "-c", begin + program.run])
        there.command(["sh", "-c", begin + program.after])


def _settings(there: Place, change: Change) -> str:
    """Return the shell's variables: what commands begin with, and where files may be made."""
    words = {variable: change.prefix(part) for part, variable in _VARIABLES.items()}
    words |= {"MEMORY": there.memory, "DISK": there.disk}
    return "".join(f"{variable}={json.dumps(word)}\n" for variable, word in words.items())


def record_program(there: Place, program: Program, change: Change, path: Path) -> None:
    """Prepare a program, record it under a setting, and end its servers.

    Raises:
        SchedlabError: it could not be run, or events were lost again and again.
    """
    begin = _settings(there, change)
    with there.prepared(begin + program.prepare):
        try:
            there.record_to(path, ["sh", "-eu", "-c", begin + program.run])
        finally:
            there.command(["sh", "-c", begin + program.after])


def _compare(
    register: Register,
    name: str,
    kept: _Recordings,
    cells: Mapping[tuple[str, str], Cell],
    costs: Costs,
) -> str:
    """Fill in what is kept and predicted of a program; return the kernel's release."""
    program = register.programs[name]
    changes = register.changes_at(kept.place)
    first = None
    for change in changes:
        cell = cells[name, change.name]
        for block in range(register.protocol.repeats):
            path = kept.path(name, program, change, block)
            if path.exists():
                look = infer(path, costs=costs, ending="work", name=name)
                first = look if first is None and change.name == RECORDED else first
                cell.real.append(_values(program, life(path, program.client), look))
        if not cell.real:
            cell.why_not = cell.why_not or "no recording is kept"
    for change in changes:
        cell = cells[name, change.name]
        try:
            if first is None:
                raise RunError("there is no recording to predict from")
            cell.predicted = predict(first, program, change, costs, register.protocol.simulations)
        except SchedlabError as error:
            cell.why_not = str(error)
    return first.scheduler.release if first is not None and first.scheduler is not None else ""


def _values(program: Program, life_ns: int, look: Inferred) -> Values:
    return {
        "throughput": program.jobs / (life_ns / 1e9),
        "p99": float(look.behaviour.latency.p99_ns),
    }


def life(trace: Path, client: str) -> int:
    """Return the nanoseconds from a program's fork to its end in a recording.

    Of several tasks of that name it is the longest life: those that a program starts end before it.

    Raises:
        RunError: the recording has no program of that name from its fork to its end.
    """
    forked: dict[str, int] = {}
    lives = []
    with gzip.open(trace, "rt", encoding="utf-8") as lines:
        for line in lines:
            timed = _TIMED.search(line)
            if timed is None:
                continue
            now = int(timed[1]) * 10**9 + int(timed[2])
            if (fork := _FORKED.match(timed[3])) is not None:
                forked[fork[1]] = now
            elif (end := _EXITED.match(timed[3])) is not None and end[1] == client:
                lives += [now - forked[end[2]]] if end[2] in forked else []
    if not lives:
        raise RunError(f"{trace}: {client} did not begin and end in it")
    return max(lives)


def predict(
    recorded: Inferred, program: Program, change: Change, costs: Costs, times: int
) -> list[Values]:
    """Return what a change would make of a recorded program, by simulation alone.

    Args:
        recorded: the recording in which nothing is changed.
        program: whose it is.
        change: what is set otherwise.
        costs: of the recorded kernel.
        times: simulations, at phases of the tick that divide it evenly.

    Raises:
        RunError: the recording does not say how the kernel was set, or has no such client.
    """
    if recorded.scheduler is None or recorded.cpus is None:
        raise RunError("the recording does not say how the kernel was set")
    scheduler = recorded.scheduler.with_knobs(change.knobs)
    workload = workload_of(with_tasks(recorded.text, program, change))
    machine = Machine.recorded(recorded.cpus, costs)
    tick = 1_000_000_000 // scheduler.hz
    found: list[Values] = []
    for number in range(times):
        phase = number * tick // times
        behaviour = simulated(workload, scheduler, machine, phase_ns=phase)
        outcome = simulate(workload, scheduler=scheduler, machine=machine, phase_ns=phase)
        lives = [task.life_ns for task in outcome if command_of(task.name) == program.client]
        if not lives:
            raise RunError(f"there is no {program.client} in the recording")
        found.append(
            {
                "throughput": program.jobs / (max(lives) / 1e9),
                "p99": float(behaviour.latency.p99_ns),
            }
        )
    return found


def with_tasks(text: str, program: Program, change: Change) -> str:
    """Return an inferred workload with a program's tasks set otherwise, as a person would.

    A task that takes its policy and nice level from its parent sets itself as its first step, as
    ``chrt`` and ``nice`` do before they become the program.
    """
    file = json.loads(text)
    for part, keys in change.tasks.items():
        for name, task in file["tasks"].items():
            if command_of(name) not in program.tasks_of(part):
                continue
            if task.get("inherit"):
                free = next(step for step in _names("set") if step not in task["steps"])
                task["steps"] = {free: keys, **task["steps"]}
            else:
                task.update(keys)
    return json.dumps(file)


def _names(step: str) -> Iterator[str]:
    """Yield what a step of a kind may be called, as steps of a task have each a name."""
    yield step
    for number in itertools.count(1):
        yield f"{step}{number}"


def command_of(task: str) -> str:
    """Return the name that the kernel has of a recorded task.

    >>> command_of("apache2-164"), command_of("kworker/0:2-46")
    ('apache2', 'kworker/0:2')
    """
    found = _TASK.match(task)
    return task if found is None else found[1]
