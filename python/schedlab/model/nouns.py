"""Workloads and schedulers.

They mirror the Rust crate ``model``, which checks them: every constructor here either returns
something that can be run, or raises `schedlab.boundary.errors.InputError` with what is allowed.
"""

import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from schedlab import _core
from schedlab.boundary.arguments import check_text, check_texts, check_whole
from schedlab.boundary.errors import InputError
from schedlab.boundary.files import read_text
from schedlab.model.times import parse_time

_log = logging.getLogger(__name__)


MAX_SEED = 2**64 - 1
"""Seeds are whole numbers from 0 to this one."""


@dataclass(frozen=True, slots=True)
class Attributes:
    """How the scheduler is to treat every task of a workload.

    Attributes:
        policy: ``other``, ``batch``, ``idle``, ``fifo:N`` or ``rr:N`` with a priority of 1 to 99;
            or ``ext:none``, ``ext:pfs``, ``ext:dw-cfs[:beta=1.1]``: tasks are ``other``, and a
            sched_ext scheduler with such thread weights schedules the machine meanwhile.
        nice: -20 to 19; 0 under ``fifo`` and ``rr``, whose tasks have no nice level.
        slice: the slice to ask for, ``100us`` to ``100ms`` (EEVDF kernels); None for the kernel's.
        affinity: the CPUs the tasks may run on; empty for all.

    >>> str(Attributes("batch", nice=3))
    'batch, nice 3'
    """

    policy: str = "other"
    nice: int = 0
    slice: str | None = None
    affinity: tuple[int, ...] = ()
    json: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        policy = check_text(self.policy, "policy")
        check_whole(self.nice, "nice", "-20 to 19")
        if self.slice is not None:
            check_text(self.slice, "slice")
        for cpu in self.affinity:
            check_whole(cpu, "affinity", "numbers of CPUs", least=0, most=2**32 - 1)
        if self.ext is not None:
            policy = "other"
            Scheduler("7.2", weights=self.ext)  # refuses what is no rule of weights
            if self.slice is not None:
                raise InputError(
                    f"slice={self.slice} means nothing under {self.policy}, whose scheduler has "
                    "one slice for all: leave it out"
                )
        text = _core.attributes(policy, self.nice, self.slice, list(self.affinity))
        object.__setattr__(self, "json", text)

    @property
    def ext(self) -> str | None:
        """The thread weights of the sched_ext scheduler that the policy names; None for none.

        >>> Attributes("ext:dw-cfs").ext, Attributes("batch").ext
        ('dw-cfs:beta=1.1', None)
        """
        if not self.policy.startswith("ext:"):
            return None
        rule = self.policy.removeprefix("ext:")
        return "dw-cfs:beta=1.1" if rule == "dw-cfs" else rule

    def __str__(self) -> str:
        parts = [self.policy]
        if self.nice:
            parts.append(f"nice {self.nice}")
        if self.slice is not None:
            parts.append(f"slice {self.slice}")
        if self.affinity:
            parts.append("CPUs " + ",".join(map(str, self.affinity)))
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Workload:
    """Tasks and the steps they take.

    Attributes:
        name: what people call it.
        json: the whole of it, as the core reads it.

    >>> Workload.parse("hackbench:groups=5,loops=1").name
    'hackbench:groups=5,fds=20,loops=1,datasize=100,pipe=0,threads=0'
    """

    name: str
    json: str = field(repr=False)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``name:key=value,…``, or the path of a file of rt-app's JSON or the model's own.

        Keys of a file that have no effect are logged to the logger ``schedlab``.

        Raises:
            InputError: no such workload or file, or one that cannot run as written.
        """
        check_text(text, "workload", path=True)
        if text.endswith(".json") or "/" in text:
            return cls._from_file(Path(text))
        check_text(text, "workload")
        return cls.from_json(_core.workload(text))

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Self:
        """Read a workload in the form of a file: rt-app's, or the model's own.

        Keys that have no effect are logged to the logger ``schedlab``.

        Raises:
            InputError: it cannot run as written.

        >>> import schedlab
        >>> hog = {"tasks": {"hog": {"instance": 2, "loop": 1, "run": 5000}}}
        >>> machine = schedlab.Machine(1, "ideal")
        >>> len(schedlab.simulate(Workload.from_dict(hog), machine=machine).tasks)
        2
        """
        try:
            text = json.dumps(value)
        except (TypeError, ValueError, RecursionError) as error:
            raise InputError(f"workload: no JSON can be made of it: {error}") from None
        return cls._from_text(text, "workload", "workload")

    @property
    def duration_ns(self) -> int | None:
        """Nanoseconds after which it is ended; None where its tasks end by themselves.

        >>> Workload.parse("schbench:duration=400ms").duration_ns
        400000000
        """
        duration = json.loads(self.json).get("duration")
        return None if duration is None else parse_time(duration)

    @classmethod
    def _from_file(cls, path: Path) -> Self:
        name = path.stem.encode(errors="replace").decode()
        return cls._from_text(read_text(path, "workload file"), name, str(path))

    @classmethod
    def _from_text(cls, text: str, name: str, where: str) -> Self:
        try:
            checked, notes = _core.read_workload(text, name)
        except InputError as error:
            raise InputError(f"{where}: {error}") from None
        for note in notes:
            _log.warning("%s: %s", where, note)
        return cls(json.loads(checked)["name"], checked)

    def export(self) -> str:
        """Return the workload as rt-app's JSON; what rt-app has no word for as further keys.

        >>> '"sem_wait"' in Workload.parse("pipe:loops=3").export()
        False
        """
        return _core.export_workload(self.json)

    @classmethod
    def from_json(cls, text: str, where: str = "") -> Self:
        """Read a workload as `json` has it.

        Args:
            text: the JSON text.
            where: what an error begins with.

        Raises:
            InputError: it is none, or cannot run as written.

        >>> one = Workload.parse("pipe")
        >>> Workload.from_json(one.json) == one
        True
        """
        try:
            name, checked = _core.check_workload(text)
        except InputError as error:
            raise InputError(f"{where}{error}") from None
        return cls(name, checked)

    def with_attributes(self, attributes: Attributes) -> "Workload":
        """Return the workload with every task under the same scheduling attributes."""
        return Workload(self.name, _core.with_attributes(self.json, attributes.json))

    def with_groups(self, groups: Iterable[str] = (), sessions: Iterable[str] = ()) -> "Workload":
        """Return the workload with its tasks in control groups and sessions.

        Args:
            groups: each ``PATH[:key=value,…]``: ``weight`` or ``shares``, ``max`` (quota/period),
                ``burst``, ``idle``, and ``tasks``, a number of tasks or names of some joined by
                ``+``. One that says no tasks has those that are left.
            sessions: each ``NAME[:tasks=…]``; under the knob ``autogroup`` a session is a group.

        Raises:
            InputError: one of them cannot be.

        >>> Workload.parse("hogs:tasks=10").with_groups(["/alice:tasks=2", "/bob"]).name
        'hogs:tasks=10,time=1s'
        """
        placed = check_texts(groups, "groups"), check_texts(sessions, "sessions")
        return Workload(self.name, _core.with_groups(self.json, *placed))


def _switch(name: object, on: object) -> bool:
    if not isinstance(on, bool):
        raise InputError(f"rule '{name}' is {on!r}; allowed: True or False")
    return on


class Scheduler:
    """A kernel release with the settings of its knobs.

    Args:
        release: ``6.1``, ``6.1.176``, or what ``uname -r`` prints; ``~6.8`` for the rules of the
            known series nearest to one whose rules are not known.
        hz: timer interrupts a second.
        knobs: settings by name, also those whose names are no Python names (``feature.NAME``).
        weights: what the number of a process's threads does to their weights: ``none``, ``pfs`` or
            ``dw-cfs:beta=1.1``.
        rules: rules switched on (true) or off against what the release has, by their names in
            ``schedlab kernels rules``. A structure, such as ``eevdf``, takes its parts with it.
        settings: settings by name; what is not set has the release's default.

    Raises:
        InputError: an unknown release, knob or rule, or a value out of range or without its unit.

    >>> Scheduler("6.12", rules={"yield_forfeits": False}).label
    '6.12.95, hybrid: yield_forfeits=off'
    >>> Scheduler("6.1", latency="20ms")
    Scheduler('6.1.192', hz=250, knobs={'latency': '20ms'})
    >>> Scheduler("~6.8").notes[0]
    'kernel 6.8.0 is of no series whose rules are known; the rules of 6.12.95 stand in, of the
    nearest series with EEVDF'
    >>> Scheduler("6.1", latency="20")
    Traceback (most recent call last):
    ...
    schedlab.boundary.errors.InputError: knob 'latency' = '20': '20' is not a time: it has no
    unit (write a number and a unit: ns, us, ms or s, as in 20ms); allowed: 100us to 1s
    """

    __slots__ = ("_resolved", "hz", "json", "knobs", "release", "rules", "weights")

    release: str
    hz: int
    knobs: Mapping[str, str]
    weights: str
    rules: Mapping[str, bool]
    json: str

    def __init__(
        self,
        release: str,
        *,
        hz: int = 250,
        knobs: Mapping[str, object] | None = None,
        weights: str = "none",
        rules: Mapping[str, bool] | None = None,
        **settings: object,
    ) -> None:
        check_text(release, "release")
        check_whole(hz, "hz", "24 to 10000", least=1, most=2**32 - 1)
        check_text(weights, "weights")
        given = [
            (check_text(name, "knob"), check_text(_setting(value), f"knob '{name}'"))
            for name, value in {**(knobs or {}), **settings}.items()
        ]
        switches = [
            (check_text(name, "rule"), _switch(name, on)) for name, on in (rules or {}).items()
        ]
        self.json = _core.scheduler(release, hz, given, weights, switches)
        value = json.loads(self.json)
        self._resolved: dict[str, Any] = json.loads(_core.resolved_rules(self.json))
        self.rules = MappingProxyType(value.get("rules", {}))
        self.release = value["release"]
        self.hz = hz
        self.weights = value.get("weights", "none")
        self.knobs = MappingProxyType({name: _setting(v) for name, v in value["knobs"].items()})

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know before relying on its rules: where others stand in, where it is a hybrid."""
        return tuple(self._resolved["notes"])

    @property
    def label(self) -> str:
        """The release, and which rules are switched if no kernel has them so."""
        label: str = self._resolved["label"]
        return label

    @property
    def hybrid(self) -> str | None:
        """The rules that are switched if no kernel has them so, as ``NAME=off``; None otherwise."""
        hybrid: str | None = self._resolved["hybrid"]
        return hybrid

    @property
    def knobs_release(self) -> str:
        """The release whose knobs there are: another one's if the fair class was switched."""
        release: str = self._resolved["knobs_release"]
        return release

    @property
    def resolved(self) -> Mapping[str, bool]:
        """Each row of the table of rules, with whether it is in force."""
        return MappingProxyType(self._resolved["rules"])

    @property
    def has_slices(self) -> bool:
        """Whether tasks may set slices, as under EEVDF."""
        eevdf: bool = self._resolved["eevdf"]
        return eevdf

    def with_knobs(self, knobs: Mapping[str, object]) -> "Scheduler":
        """Return the scheduler with further settings."""
        merged = {**self.knobs, **knobs}
        return Scheduler(
            self.release, hz=self.hz, knobs=merged, weights=self.weights, rules=self.rules
        )

    def with_weights(self, weights: str) -> "Scheduler":
        """Return the scheduler with another rule of thread weights."""
        return Scheduler(
            self.release, hz=self.hz, knobs=self.knobs, weights=weights, rules=self.rules
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scheduler) and self.json == other.json

    def __hash__(self) -> int:
        return hash(self.json)

    def __repr__(self) -> str:
        weights = "" if self.weights == "none" else f", weights={self.weights!r}"
        rules = f", rules={dict(self.rules)!r}" if self.rules else ""
        knobs = f"knobs={dict(self.knobs)!r}"
        return f"Scheduler({self.release!r}, hz={self.hz}, {knobs}{weights}{rules})"

    def __str__(self) -> str:
        knobs = "".join(f", {name}={value}" for name, value in self.knobs.items())
        weights = "" if self.weights == "none" else f", {self.weights} weights"
        return f"{self.label}, {self.hz} Hz{knobs}{weights}"


def check_seed(seed: int) -> int:
    """Return the seed if it is one.

    Raises:
        InputError: it is not from 0 to `MAX_SEED`.
    """
    return check_whole(seed, "seed", f"0 to {MAX_SEED}", least=0, most=MAX_SEED)


def settings(pairs: Iterable[str], what: str = "knob") -> dict[str, str]:
    """Read ``name=value`` texts.

    Raises:
        InputError: a text without ``=``, or a name given twice.

    >>> settings(["latency=20ms"])
    {'latency': '20ms'}
    """
    read: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise InputError(f"'{pair}' sets no {what}: write name=value, as in latency=20ms")
        if name in read:
            raise InputError(f"{what} '{name}' is set twice")
        read[name] = value
    return read


def _setting(value: object) -> str:
    """Return a setting as text: switches as the kernel writes them, 0 or 1."""
    return str(int(value)) if isinstance(value, bool) else str(value)
