"""Recordings, kept; and from each workload's own what others would be."""

import gzip
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from fidelity.places import KEPT, Anew, Place, at, calibrated
from fidelity.whatif.noise import Noise, apart
from fidelity.whatif.register import RECORDED, Change, Described, Protocol, Register
from schedlab.boundary.errors import RunError, SchedlabError
from schedlab.boundary.files import make_directory, write_text
from schedlab.measure import calibration
from schedlab.measure.inference import (
    Behaviour,
    Inferred,
    TaskBehaviour,
    infer,
    simulated,
    workload_of,
)
from schedlab.model import Costs, Machine, Workload, format_time, parse_time

Key = tuple[str, str]
"""Workload and change."""

RUNNER = "schedlab"
"""How the names of the runner's own tasks begin."""

_TIME = re.compile(r" (\d+)\.(\d{9}): ")
_FORK = re.compile(r": sched_process_fork: .* pid=(\d+) child_comm=.* child_pid=(\d+)")


@dataclass(frozen=True, slots=True)
class Pair:
    """What was really done, and what was predicted of it.

    Attributes:
        real: what was recorded.
        predicted: what was predicted from the recording in which nothing was changed.
        release: the kernel.
        described: the workload's own description, simulated: no recording stands in between.
    """

    real: Behaviour
    predicted: Behaviour
    release: str = ""
    described: Behaviour | None = None


@dataclass(frozen=True, slots=True)
class Collected:
    """What there is of a place: pairs, or why there is none."""

    pairs: Mapping[Key, Pair | str]


def collect(
    register: Register,
    place: str,
    directory: Path,
    tell: Callable[[str], None],
    *,
    anew: Anew | None,
) -> Collected:
    """Record what is not kept yet, and predict from each workload's own recording.

    Args:
        register: what was written down.
        place: ``vm:SERIES``.
        directory: where recordings are kept, so that what was interrupted goes on.
        tell: is told what is done.
        anew: how, if anything may be recorded.

    Raises:
        InputError: no such place.
        RunError: the place cannot be had.
    """
    shelf = _Shelf(make_directory(directory), place)
    names = register.at(place)
    if anew is not None:
        todo = [(name, change, "") for name in names for change in _changes(register, name, place)]
        with _going(place, tell) as go:
            _record(register, shelf, todo, go, tell)
        if not shelf.costs.exists():
            tell(f"{place}: costs")
            found = calibrated(place, recorded=KEPT, how=anew)
            calibration.save(found, shelf.costs)
    pairs: dict[Key, Pair | str] = {}
    for name in names:
        pairs.update(_pairs(register, name, _changes(register, name, place), shelf))
    return Collected(MappingProxyType(pairs))


def fix(
    register: Register, place: str, directory: Path, known: Noise, tell: Callable[[str], None]
) -> Noise:
    """Record the same several times where its A/A interval is not known yet, and fix that.

    Args:
        register: what was written down.
        place: ``vm:SERIES``.
        directory: where recordings are kept.
        known: the A/A intervals that are fixed.
        tell: is told what is done.

    Returns:
        Those that are known, and those of this place.

    Raises:
        InputError: no such place.
        RunError: the place cannot be had, or nothing was measured.
    """
    shelf = _Shelf(make_directory(directory), place)
    missing = [
        (name, change)
        for name in register.at(place)
        for change in _changes(register, name, place)
        if (place, name, _called(change)) not in known
    ]
    rounds = [f"-again-{number}" for number in range(register.protocol.noise)]
    todo = [(name, change, again) for again in rounds for name, change in missing]
    with _going(place, tell) as go:
        _record(register, shelf, todo, go, tell)
    found = dict(known)
    ideal = Costs.load("ideal")
    for name, change in missing:
        paths = [shelf.path(name, _called(change) + again) for again in rounds]
        looks = [_look(register.protocol, path, ideal) for path in paths if path.exists()]
        work = register.workloads[name]
        between = apart([in_roles(look.behaviour, work) for look in looks])
        if len(looks) < len(rounds) or not between:
            raise RunError(f"{place}: {name}, {_called(change)}: A/A recordings are missing")
        found[place, name, _called(change)] = between
    return found


@contextmanager
def _going(place: str, tell: Callable[[str], None]) -> Iterator[Callable[[], Place]]:
    """Be at a place from when it is needed."""
    with ExitStack() as stack:
        there: list[Place] = []

        def go() -> Place:
            if not there:
                tell(f"{place}: booting")
                there.append(stack.enter_context(at(place)))
            return there[0]

        yield go


def _changes(register: Register, name: str, place: str) -> list[Change | None]:
    return [None, *register.changes_of(name, place)]


def _called(change: Change | None) -> str:
    return RECORDED if change is None else change.name


def _record(
    register: Register,
    shelf: "_Shelf",
    todo: Sequence[tuple[str, Change | None, str]],
    go: Callable[[], Place],
    tell: Callable[[str], None],
) -> None:
    """Record what is not kept yet: workloads under changes, each called so and so."""
    for name, change, again in todo:
        what = _called(change) + again
        set_so = {} if change is None else change.tasks
        text = register.workloads[name].text(register.protocol.duration, set_so)
        knobs = {} if change is None else change.knobs
        stamp = json.dumps([text, dict(knobs)])
        if shelf.has(name, what, stamp):
            continue
        tell(f"{shelf.place}: {name}, {what}")
        try:
            with go().knobs(knobs):
                shelf.add(name, what, stamp, go(), text)
        except RunError as error:
            tell(f"{shelf.place}: {name}, {what}: {error}")


class _Shelf:
    """The recordings of a place."""

    def __init__(self, directory: Path, place: str) -> None:
        self._directory = directory
        self._stem = place.replace(":", "-")
        self.place = place
        self.costs = directory / f"{self._stem}-costs.toml"

    def path(self, workload: str, change: str) -> Path:
        return self._directory / f"{self._stem}-{workload}-{change}.txt.gz"

    def has(self, workload: str, change: str, stamp: str) -> bool:
        path = self.path(workload, change)
        try:
            return path.exists() and self._stamp(path).read_text() == _digest(stamp)
        except OSError:
            return False

    def add(self, workload: str, change: str, stamp: str, place: Place, text: str) -> None:
        path = self.path(workload, change)
        self._stamp(path).unlink(missing_ok=True)
        file = self._directory / f"{self._stem}-{workload}-{change}.json"
        write_text(file, text)
        place.record_to(path, Workload.parse(str(file)))
        write_text(self._stamp(path), _digest(stamp))

    @staticmethod
    def _stamp(path: Path) -> Path:
        return path.with_name(f"{path.name}.stamp")


def _digest(stamp: str) -> str:
    return hashlib.sha256(stamp.encode()).hexdigest()


def _pairs(
    register: Register, name: str, changes: Sequence[Change | None], shelf: _Shelf
) -> dict[Key, Pair | str]:
    """Predict every change from the recording in which nothing was changed."""
    work = register.workloads[name]
    pairs: dict[Key, Pair | str] = {}
    try:
        costs = Costs.load(shelf.costs)
        first = _look(register.protocol, shelf.path(name, RECORDED), costs)
    except SchedlabError as error:
        return {(name, _called(change)): str(error) for change in changes}
    for change in changes:
        what = _called(change)
        try:
            real = first
            if change is not None:
                real = _look(register.protocol, shelf.path(name, what), costs)
            pairs[name, what] = Pair(
                in_roles(real.behaviour, work),
                predict(first, work, change, costs),
                real.scheduler.release if real.scheduler is not None else "",
                _described(register, work, change, real, costs),
            )
        except SchedlabError as error:
            pairs[name, what] = str(error)
    return pairs


def _described(
    register: Register, work: Described, change: Change | None, real: Inferred, costs: Costs
) -> Behaviour | None:
    """Simulate what the runner was told to do, for as long as is looked at, set as recorded."""
    if real.scheduler is None or real.cpus is None:
        return None
    protocol = register.protocol
    length = format_time(parse_time(protocol.end) - parse_time(protocol.begin))
    text = work.text(length, {} if change is None else change.tasks)
    machine = Machine(real.cpus, costs)
    return simulated(workload_of(text), real.scheduler, machine, phase_ns=real.phase_ns)


def _look(protocol: Protocol, trace: Path, costs: Costs) -> Inferred:
    """Infer from the part that the protocol says, counted from when the workload began."""
    began = _began(trace)
    start, end = (format_time(began + parse_time(text)) for text in (protocol.begin, protocol.end))
    return infer(trace, costs=costs, ending="time", name="workload", start=start, end=end)


def _began(trace: Path) -> int:
    """Return the nanoseconds from a recording's beginning to the making of its last task.

    Raises:
        RunError: it cannot be read, or no task was made.
    """
    begin = last = None
    # The process that becomes the command, and all that descend from it.
    own: set[str] = set()
    try:
        with gzip.open(trace, "rt", encoding="utf-8") as lines:
            for line in lines:
                if line.startswith("#"):
                    own.update(line.split()[-1:] if line.startswith("# recorder:") else ())
                elif "schedlab: begin" in line:
                    begin = _time(line)
                elif (fork := _FORK.search(line)) is not None and fork[1] in own:
                    own.add(fork[2])
                    last = _time(line)
    except (OSError, EOFError, ValueError) as error:
        raise RunError(f"{trace}: {error}") from None
    if begin is None or last is None:
        raise RunError(f"{trace}: the workload did not begin")
    return last - begin


def _time(line: str) -> int:
    found = _TIME.search(line)
    return 0 if found is None else int(found[1]) * 10**9 + int(found[2])


def predict(recorded: Inferred, work: Described, change: Change | None, costs: Costs) -> Behaviour:
    """Return what a change would make of a recorded workload, by simulation alone.

    Raises:
        RunError: the recording does not say how the kernel was set.
    """
    if recorded.scheduler is None or recorded.cpus is None:
        raise RunError("the recording does not say how the kernel was set")
    scheduler, text = recorded.scheduler, recorded.text
    if change is not None:
        scheduler = scheduler.with_knobs(change.knobs)
        text = _with_tasks(text, roles(recorded.behaviour, work), change)
    workload = workload_of(text)
    machine = Machine.recorded(recorded.cpus, costs)
    found = simulated(workload, scheduler, machine, phase_ns=recorded.phase_ns)
    return in_roles(found, work)


def _with_tasks(text: str, named: Mapping[str, str], change: Change) -> str:
    """Return the workload with keys of its tasks changed, as a person would edit the file."""
    file = json.loads(text)
    for name, role in named.items():
        keys = change.tasks.get(role.partition("[")[0])
        if keys is not None:
            file["tasks"][name].update(keys)
    return json.dumps(file)


def roles(behaviour: Behaviour, work: Described) -> dict[str, str]:
    """Return which of the workload's tasks a recorded one is.

    The runner makes them in the order of the file, after all others of its own. They have its name
    or, where it names them, that of their kind, of which the kernel keeps 15 bytes.
    """
    kinds = {role.partition("[")[0][:15].replace("-", "_") for role in work.roles}
    own = [
        name
        for name in behaviour.tasks
        if name.startswith(RUNNER) or name.strip("'").rpartition("-")[0] in kinds
    ]
    own.sort(key=lambda name: int(name.rpartition("-")[2].strip("'")))
    wanted = work.roles
    return dict(zip(own[-len(wanted) :], wanted, strict=True)) if len(own) >= len(wanted) else {}


def in_roles(behaviour: Behaviour, work: Described) -> Behaviour:
    """Return the behaviour with the workload's own names; all other tasks are one."""
    named = roles(behaviour, work)
    return _renamed(behaviour, {name: named.get(name, "others") for name in behaviour.tasks})


def in_templates(behaviour: Behaviour) -> Behaviour:
    """Return the behaviour with all instances of a task as one, as the file describes them."""
    return _renamed(behaviour, {name: name.partition("[")[0] for name in behaviour.tasks})


def _renamed(behaviour: Behaviour, names: Mapping[str, str]) -> Behaviour:
    tasks: dict[str, TaskBehaviour] = {}
    for name, task in behaviour.tasks.items():
        role = names[name]
        tasks[role] = task.called(role) if role not in tasks else tasks[role].and_(task)
    return Behaviour(
        elapsed_ns=behaviour.elapsed_ns,
        voluntary=behaviour.voluntary,
        involuntary=behaviour.involuntary,
        latency=behaviour.latency,
        tasks=MappingProxyType(tasks),
    )
