"""The nouns: workload, machine and scheduler; results are in `schedlab.model.outcome`.

They mirror the Rust crate ``model``, which checks them: every constructor here either returns
something that can be run, or raises `schedlab.boundary.errors.InputError` with what is allowed.
"""

import json
import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from schedlab import _core
from schedlab.boundary.arguments import check_text, check_texts, check_whole, exists
from schedlab.boundary.errors import InputError
from schedlab.boundary.files import read_text

_log = logging.getLogger(__name__)


MAX_SEED = 2**64 - 1
"""Seeds are whole numbers from 0 to this one."""


def parse_time(text: str) -> int:
    """Return the nanoseconds of a time written with its unit.

    >>> parse_time("1.5ms")
    1500000
    """
    return _core.parse_time(check_text(text, "time"))


def format_time(nanoseconds: float) -> str:
    """Return a time in its largest fitting unit, to whole nanoseconds, exactly.

    >>> format_time(1_500_000)
    '1.5ms'
    """
    return _core.format_time(round(nanoseconds))


def short_time(nanoseconds: float) -> str:
    """Return a time for tables: four digits and its unit.

    >>> short_time(1_234_567), short_time(20_000_000), short_time(0)
    ('1.235 ms', '20.00 ms', '0 ns')
    """
    if nanoseconds == 0:
        return "0 ns"
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if abs(nanoseconds) >= size:
            value = nanoseconds / size
            digits = 3 if value < 10 else 2 if value < 100 else 1 if value < 1000 else 0
            return f"{value:.{digits}f} {unit}"
    return f"{nanoseconds:.0f} ns"


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
        return cls._from_json(_core.workload(text))

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
    def _from_json(cls, text: str, where: str = "") -> Self:
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


@dataclass(frozen=True, slots=True)
class Costs:
    """What operations cost on a machine.

    Attributes:
        name: where they come from: ``ideal``, ``linsched``, ``calibrated``, ``reference:NAME``, or
            a file.
        times: nanoseconds by field of the Rust type ``Costs``.
        devices: nanoseconds by field of the Rust type ``Devices``: what memory and disk take, as
            far as it is known; the rest is a small server's.
        unknown: names of costs that could not be measured. They are zero, and a run that would
            charge one says so in its notes.
        remark: what a reader of every outcome has to know of these costs; empty if nothing.

    >>> Costs.load("linsched").times["pipe_write"]
    1000000
    """

    name: str
    times: Mapping[str, int]
    devices: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    unknown: tuple[str, ...] = ()
    remark: str = field(default="", compare=False)

    @classmethod
    def load(cls, name: str | Path | None = None) -> "Costs":
        """Return the costs of a preset, the calibrated ones of this machine, or those of a file.

        Args:
            name: ``ideal``, ``linsched``, ``calibrated``, ``reference`` or ``reference:NAME``
                (measured on a named machine and shipped with schedlab), or a file's path. Without
                a name, the calibrated costs of this machine; the reference costs, with a remark
                that says so, where it was never calibrated.

        Raises:
            InputError: no such file, a file that holds no costs, or no calibration yet.
        """
        from schedlab.model import calibration_file  # noqa: PLC0415 - what it keeps is costs

        if name is None:
            return calibration_file.default()
        text = str(check_text(name, "costs", path=True))
        if text in ("ideal", "linsched"):
            return cls.from_json(text, _core.costs(text))
        if text == "calibrated":
            return calibration_file.load().costs
        kind, _, machine = text.partition(":")
        if kind == "reference":
            return calibration_file.reference(machine).costs
        path = Path(name)
        if path.suffix not in (".toml", ".json") and not exists(path):
            raise InputError(
                f"no costs are called '{text}'; allowed: ideal, linsched, calibrated, reference, "
                "reference:NAME, or the path of a calibration's .toml file"
            )
        return calibration_file.load(path).costs

    @classmethod
    def from_json(cls, name: str, text: str) -> "Costs":
        """Read costs as the core writes them, times with their units."""
        return cls.from_times(name, json.loads(text))

    @classmethod
    def from_times(
        cls,
        name: str,
        times: Mapping[str, object],
        devices: Mapping[str, str] | None = None,
        remark: str = "",
    ) -> "Costs":
        """Check costs given with their units, and complete them with zeros.

        Args:
            name: where they come from.
            times: by field, with their units; ``unknown`` lists those that were not measured.
            devices: what memory and disk take, as far as it is known.
            remark: what a reader of every outcome has to know of them.

        Raises:
            InputError: an unknown field, or a time without its unit.
        """
        known = dict(devices or {})
        described = {"cpus": 1, "costs": dict(times), "devices": known}
        costs = json.loads(_machine(described))["costs"]
        unknown = tuple(costs.pop("unknown", ()))
        parsed = {key: parse_time(text) for key, text in costs.items()}
        if strange := [key for key in unknown if key not in parsed]:
            raise InputError(f"unknown costs: '{strange[0]}' is none; costs: {', '.join(parsed)}")
        taken = {key: parse_time(text) for key, text in known.items()}
        return cls(name, MappingProxyType(parsed), MappingProxyType(taken), unknown, remark)

    def as_text(self) -> dict[str, str]:
        """Return the costs with their units."""
        return {name: format_time(value) for name, value in self.times.items()}

    def described(self) -> dict[str, object]:
        """Return the costs as the core reads them."""
        return {**self.as_text(), **({"unknown": list(self.unknown)} if self.unknown else {})}


class Machine:
    """CPUs and what operations cost there.

    Args:
        cpus: how many, all alike.
        costs: ``ideal`` (only the work itself takes time), ``linsched`` (whole jiffies, as the
            tuning paper's simulator), ``calibrated`` (measured here by ``schedlab calibrate``),
            ``reference`` or ``reference:NAME`` (measured on a named machine, shipped), the path of
            a calibration file, or `Costs`. Without it the calibrated ones of this machine, or the
            reference costs where it was never calibrated.
        topology: which CPUs share cores, caches and nodes, as ``smt=2,llc=8,node=16``: two threads
            a core, eight CPUs a last-level cache, sixteen a NUMA node; what is left out is one
            thread a core, one cache a node, one node. ``siblings=last`` numbers second threads
            after all first ones.
        speed: how fast CPUs are by what else is busy, as ``smt=62.5%,turbo=130%/120%/100%``: each
            of two busy threads of a core at 62.5 % of what it does alone; 130 % of the nominal
            speed with one busy core of a node, 120 % with two, 100 % with more. Always the nominal
            speed if nothing is said.

    Raises:
        InputError: a number of CPUs, a topology or a speed that is impossible, or costs that cannot
            be had.

    >>> Machine(cpus=2, costs="ideal")
    Machine(cpus=2, costs='ideal')
    """

    __slots__ = ("costs", "cpus", "json", "speed", "topology")

    cpus: int
    costs: Costs
    topology: str
    speed: str
    json: str

    def __init__(
        self,
        cpus: int = 1,
        costs: str | Path | Costs | None = None,
        topology: str = "smt=1",
        speed: str = "",
    ) -> None:
        cpus = check_whole(cpus, "machine: cpus", "1 to 4096", least=1, most=4096)
        check_text(topology, "machine: topology")
        check_text(speed, "machine: speed")
        self.cpus = cpus
        self.topology = topology
        self.speed = speed
        self.costs = costs if isinstance(costs, Costs) else Costs.load(costs)
        described: dict[str, object] = {
            "cpus": cpus,
            "topology": topology,
            "costs": self.costs.described(),
            "devices": {name: format_time(time) for name, time in self.costs.devices.items()},
        }
        if speed:
            described["speed"] = speed
        self.json = _machine(described)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Machine) and self.json == other.json

    def __hash__(self) -> int:
        return hash(self.json)

    def __repr__(self) -> str:
        return f"Machine(cpus={self.cpus}, costs={self.costs.name!r})"

    def __str__(self) -> str:
        plural = "" if self.cpus == 1 else "s"
        return f"{self.cpus} CPU{plural}, {self.costs.name} costs"


def _machine(described: Mapping[str, object]) -> str:
    """Return a machine as the core writes it, or say what is wrong with it."""
    try:
        return _core.machine(json.dumps(described))
    except InputError as error:
        # Who gave its parts has never seen the text in which the core counts lines.
        words = re.sub(r" at line \d+ column \d+$", "", str(error))
        raise InputError(f"machine: {words.replace('machine: ', '')}") from None


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
