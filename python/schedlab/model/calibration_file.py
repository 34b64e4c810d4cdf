"""What operations cost, as files keep it: a calibration, reference costs, or a file of yours.

The file is TOML, in the user's data directory (``$XDG_DATA_HOME/schedlab``), with what is needed to
tell whether it still fits: kernel, CPU, number of CPUs and date. A hand-written file needs no more
than a table ``[costs]`` of times with their units; ``[devices]`` says what memory and disk take.
``unknown`` in ``[costs]`` lists costs that could not be measured. Of files without that list, those
of a measured machine (with a table ``[spread]``) do not know what the table leaves out; in others
that is nothing.

Reference costs are such files of named machines, shipped in ``costs/``.
"""

import json
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from schedlab import _core
from schedlab.boundary.arguments import check_text, exists
from schedlab.boundary.errors import InputError, reading
from schedlab.boundary.files import SMALL, make_directory, read_text, write_text
from schedlab.model import background as backgrounds
from schedlab.model.background import Background
from schedlab.model.nouns import Workload
from schedlab.model.times import format_time, parse_time
from schedlab.processes.disturbance import Disturbance

_SHIPPED = Path(__file__).parents[1] / "costs"


def machine_json(described: Mapping[str, object]) -> str:
    """Return a machine as the core writes it, or say what is wrong with it."""
    try:
        return _core.machine(json.dumps(described))
    except InputError as error:
        # Who gave its parts has never seen the text in which the core counts lines.
        words = re.sub(r" at line \d+ column \d+$", "", str(error))
        raise InputError(f"machine: {words.replace('machine: ', '')}") from None


@dataclass(frozen=True, slots=True)
class Costs:
    """What operations cost on a machine.

    Attributes:
        name: where they come from: ``ideal``, ``linsched``, ``calibrated``, ``reference:NAME``, or
            a file.
        times: nanoseconds by field of the Rust type ``Costs``.
        devices: nanoseconds by field of the Rust type ``Devices``: what memory and disk take, as
            far as it is known; the rest is a small server's. ``disk_cpu`` is a CPU's number.
        unknown: names of costs that could not be measured. They are zero, and a run that would
            charge one says so in its notes.
        remark: what a reader of every outcome has to know of these costs; empty if nothing.
        background: other work of the calibrated machine; None where it was not measured.
        preempt: one of `PREEMPT`: with ``none`` a task that accesses a file is preempted only as it
            sleeps or leaves the kernel.
        speed: how fast the calibrated machine's CPUs are by what else is busy, as `Machine` has
            it; empty if always as fast.
        bare_fork: what ``fork(2)`` takes a small process with few children; 0 if not measured.

    >>> Costs.load("linsched").times["pipe_write"]
    1000000
    """

    name: str
    times: Mapping[str, int]
    devices: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    unknown: tuple[str, ...] = ()
    remark: str = field(default="", compare=False)
    background: Workload | None = None
    preempt: str = "full"
    speed: str = ""
    bare_fork: int = field(default=0, compare=False)

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
        if name is None:
            return default()
        text = str(check_text(name, "costs", path=True))
        if text in ("ideal", "linsched"):
            return cls.from_json(text, _core.costs(text))
        if text == "calibrated":
            return load().costs
        kind, _, machine = text.partition(":")
        if kind == "reference":
            return reference(machine).costs
        path = Path(name)
        if path.suffix not in (".toml", ".json") and not exists(path):
            raise InputError(
                f"no costs are called '{text}'; allowed: ideal, linsched, calibrated, reference, "
                "reference:NAME, or the path of a calibration's .toml file"
            )
        return load(path).costs

    @classmethod
    def from_json(cls, name: str, text: str) -> "Costs":
        """Read costs as the core writes them, times with their units."""
        return cls.from_times(name, json.loads(text))

    @classmethod
    def from_times(
        cls,
        name: str,
        times: Mapping[str, object],
        devices: Mapping[str, str | int] | None = None,
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
        costs = json.loads(machine_json(described))["costs"]
        unknown = tuple(costs.pop("unknown", ()))
        parsed = {key: parse_time(text) for key, text in costs.items()}
        if strange := [key for key in unknown if key not in parsed]:
            raise InputError(f"unknown costs: '{strange[0]}' is none; costs: {', '.join(parsed)}")
        taken = {
            key: value if isinstance(value, int) else parse_time(value)
            for key, value in known.items()
        }
        return cls(name, MappingProxyType(parsed), MappingProxyType(taken), unknown, remark)

    def as_text(self) -> dict[str, str]:
        """Return the costs with their units."""
        return {name: format_time(value) for name, value in self.times.items()}

    def described(self) -> dict[str, object]:
        """Return the costs as the core reads them."""
        return {**self.as_text(), **({"unknown": list(self.unknown)} if self.unknown else {})}

    def described_devices(self) -> dict[str, str | int]:
        """Return the devices as the core reads them: times with their units, and a CPU's number."""
        return {
            name: value if name == "disk_cpu" else format_time(value)
            for name, value in self.devices.items()
        }


@dataclass(frozen=True, slots=True)
class Spread:
    """Quartiles of a measurement's batches, in nanoseconds.

    Attributes:
        median_ns: half of the batches were faster.
        p25_ns: a quarter was.
        p75_ns: three quarters were.
        samples: batches.
    """

    median_ns: float
    p25_ns: float
    p75_ns: float
    samples: int


@dataclass(frozen=True, slots=True)
class Calibration:
    """The costs of one machine, and how they were found.

    Attributes:
        costs: the costs, with what memory and, if it was measured, the disk take.
        kernel: what ``uname -r`` printed; empty for a file of costs alone.
        cpu_model: the CPUs' name.
        cpus: how many.
        accelerator: of a guest, ``kvm``, or ``tcg`` where every instruction is translated, so that
            the times are no hardware's; empty for this machine.
        clock: of a guest, ``host``, or ``instructions`` where its clock counts these; empty for
            this machine.
        hz: timer interrupts a second.
        date: when, in UTC, as ISO 8601.
        elapsed_ns: how long it took.
        spread: quartiles of each cost.
        measured: quartiles of what was measured directly.
        later: quartiles of what nothing of the simulator's charges yet: working sets gone cold,
            files that the page cache has.
        notes: what could not be measured, and why.
        disturbance: what others took of the CPU time meanwhile; None in a file.
        background: other work of the machine; None where it was not measured.
    """

    costs: Costs
    kernel: str = ""
    cpu_model: str = ""
    cpus: int = 0
    accelerator: str = ""
    clock: str = ""
    hz: int = 0
    date: str = ""
    elapsed_ns: int = 0
    spread: Mapping[str, Spread] = field(default_factory=dict)
    measured: Mapping[str, Spread] = field(default_factory=dict)
    later: Mapping[str, Spread] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    disturbance: Disturbance | None = None
    background: Background | None = None


def bare_fork(measured: Mapping[str, Spread]) -> int:
    """Return what ``fork(2)`` takes a small process, of what was measured; 0 if it was not."""
    forks = measured.get("forking_a_process")
    return 0 if forks is None else round(forks.median_ns)


def speed_by(clock: str, cpus: int) -> str:
    """Return the speed of a machine's CPUs: several of a guest that counts instructions have turns.

    Args:
        clock: as of `Calibration`.
        cpus: how many.

    >>> speed_by("instructions", 2), speed_by("instructions", 1), speed_by("host", 2)
    ('turns', '', '')
    """
    return "turns" if clock == "instructions" and cpus > 1 else ""


REFERENCE = "epyc-vm-6.18"
"""The machine whose costs stand in for those of one that was never calibrated."""


PREEMPT = ("none", "full")
"""Preemption models (``preempt=`` on a kernel's command line), as far as they are told apart."""

_BETWEEN = ("wakeup_remote", "ipi", "ipi_idle", "ipi_taken", "idle_exit", "migration")
"""Costs between CPUs, which one CPU cannot measure."""


def path(of: str = "") -> Path:
    """Return the file in which this user's calibration is kept.

    Args:
        of: what its name says beside, as that of a guest.
    """
    base = os.environ.get("XDG_DATA_HOME", "")
    directory = Path(base) if base.startswith("/") else Path.home() / ".local" / "share"
    return directory / "schedlab" / f"calibration{of}.toml"


def references() -> tuple[str, ...]:
    """Return the names of the machines whose reference costs are shipped.

    >>> REFERENCE in references()
    True
    """
    return tuple(sorted(file.stem for file in _SHIPPED.glob("*.toml")))


def reference(name: str = "") -> Calibration:
    """Return the reference costs of a machine.

    Args:
        name: one of `references`; `REFERENCE` without it.

    Raises:
        InputError: there are none of such a machine.

    >>> reference().costs.name == f"reference:{REFERENCE}"
    True
    """
    wanted = name or REFERENCE
    if wanted not in references():
        known = ", ".join(references())
        raise InputError(f"no reference costs are called '{wanted}'; allowed: {known}")
    return _from_file(_SHIPPED / f"{wanted}.toml", f"reference:{wanted}")


def default() -> Costs:
    """Return the costs of a machine for which none were chosen.

    Returns:
        The calibrated ones of this machine. Where it was never calibrated the reference costs, with
        a remark that says whose they are.

    Raises:
        InputError: the calibration cannot be read.
    """
    if path().exists():
        return load().costs
    found = reference()
    remark = (
        f"this machine was never calibrated: the costs are those of {found.cpu_model}, "
        f"{found.cpus} CPUs, Linux {found.kernel}; 'schedlab calibrate' measures this machine's"
    )
    return replace(found.costs, remark=remark)


def save(calibration: Calibration, file: Path | None = None) -> Path:
    """Write a calibration, whole or not at all, and return where.

    Args:
        calibration: what to write.
        file: where to; this user's own file otherwise.
    """
    target = path() if file is None else file
    if target.parent == path().parent:
        make_directory(target.parent)
    write_text(target, to_toml(calibration))
    return target


def load(file: Path | None = None) -> Calibration:
    """Read a calibration.

    Args:
        file: where from; this user's own file otherwise.

    Raises:
        InputError: the file is missing, or is no calibration.
    """
    target = path() if file is None else file
    if file is None and not target.exists():
        raise InputError(
            "this machine was never calibrated: run 'schedlab calibrate' (some seconds), or "
            "choose --costs reference or ideal"
        )
    return _from_file(target, "calibrated" if file is None else str(file))


def _from_file(target: Path, name: str) -> Calibration:
    text = read_text(target, "costs file", SMALL)
    try:
        value = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        said = str(error) if isinstance(error, ValueError) else "it is nested too deeply"
        raise InputError(f"costs file '{target}': not TOML: {said}") from None
    try:
        with reading("it is not what 'schedlab calibrate' writes"):
            return _read(value, name)
    except InputError as error:
        words = str(error).removeprefix("machine: ")
        raise InputError(f"costs file '{target}': {words}") from None


def _read(value: dict[str, Any], name: str) -> Calibration:
    if "costs" not in value:
        raise InputError("it has no table [costs]")
    machine = _table(value, "machine")
    costs = _costs(value, name, _whole(machine, "cpus"))
    found = backgrounds.read(_table(value, "background")) if "background" in value else None
    if found is not None:
        costs = replace(costs, background=found.workload)
    if (preempt := machine.get("preempt", "full")) not in PREEMPT:
        raise InputError(f"machine.preempt is {preempt!r}; allowed: {', '.join(PREEMPT)}")
    measured = {key: _spread(key, one) for key, one in _table(value, "measured").items()}
    speed = speed_by(str(machine.get("clock", "")), _whole(machine, "cpus"))
    costs = replace(costs, preempt=preempt, speed=speed, bare_fork=bare_fork(measured))
    return Calibration(
        costs=costs,
        background=found,
        kernel=str(machine.get("kernel", "")),
        cpu_model=str(machine.get("cpu_model", "")),
        cpus=_whole(machine, "cpus"),
        accelerator=str(machine.get("accelerator", "")),
        clock=str(machine.get("clock", "")),
        hz=_whole(machine, "hz"),
        date=str(machine.get("date", "")),
        elapsed_ns=_whole(machine, "elapsed_ns"),
        spread={key: _spread(key, one) for key, one in _table(value, "spread").items()},
        measured=measured,
        later={key: _spread(key, one) for key, one in _table(value, "later").items()},
        notes=tuple(str(note) for note in machine.get("notes", ())),
    )


def _costs(value: Mapping[str, Any], name: str, cpus: int) -> Costs:
    """Return the costs of a file; of a calibration that lists no unknown ones, with those."""
    times = _times(value, "costs")
    if "unknown" not in times and value.get("spread"):
        unmeasured = (
            cost
            for cost in _BETWEEN
            if cost not in times or (cpus == 1 and cost not in value["spread"])
        )
        times = {**times, "unknown": list(unmeasured)}
    return Costs.from_times(name, times, _times(value, "devices"))


def _table(value: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = value.get(name, {})
    if not isinstance(found, dict):
        raise InputError(f"{name} is no table")
    return found


def _spread(key: str, one: Mapping[str, Any]) -> Spread:
    for name, number in one.items():
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise InputError(f"{key}.{name} is {number!r}; a number is expected")
    return Spread(**one)


def _times(value: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = _table(value, name)
    for key, text in found.items():
        if isinstance(text, str):
            try:
                parse_time(text)
            except InputError as error:
                raise InputError(f"{name}.{key}: {error}") from None
    return found


def _whole(machine: Mapping[str, Any], name: str) -> int:
    found = machine.get(name, 0)
    if isinstance(found, bool) or not isinstance(found, int):
        raise InputError(f"machine.{name} is {found!r}; a whole number is expected")
    return found


def to_toml(calibration: Calibration) -> str:
    """Return the text of a calibration's file."""
    lines = ["# What operations cost on this machine, measured by 'schedlab calibrate'.", ""]
    lines.append("[machine]")
    texts = ("kernel", "cpu_model", "accelerator", "clock", "date")
    numbers = ("cpus", "hz", "elapsed_ns")
    lines += [f"{name} = {_string(getattr(calibration, name))}" for name in texts]
    lines += [f"{name} = {getattr(calibration, name)}" for name in numbers]
    if calibration.costs.preempt != "full":
        lines.append(f"preempt = {_string(calibration.costs.preempt)}")
    lines.append(f"notes = [{', '.join(_string(note) for note in calibration.notes)}]")
    lines += ["", "[costs]"]
    unknown = calibration.costs.unknown
    known = [one for one in calibration.costs.as_text().items() if one[0] not in unknown]
    lines += [f"{name} = {_string(text)}" for name, text in known]
    lines.append(f"unknown = [{', '.join(_string(name) for name in unknown)}]")
    devices = calibration.costs.devices
    if devices:
        lines += ["", "# What memory and disk take; what is missing is a small server's."]
        lines.append("[devices]")
        described = calibration.costs.described_devices().items()
        lines += [f"{name} = {json.dumps(value)}" for name, value in described]
    for title in ("spread", "measured", "later"):
        if title == "later" and calibration.later:
            lines += ["", "# What the simulator does not charge yet: kept for later use."]
        for name, spread in getattr(calibration, title).items():
            lines += [
                "",
                f"[{title}.{name}]",
                f"median_ns = {spread.median_ns:.1f}",
                f"p25_ns = {spread.p25_ns:.1f}",
                f"p75_ns = {spread.p75_ns:.1f}",
                f"samples = {spread.samples}",
            ]
    if calibration.background is not None:
        lines += backgrounds.lines(calibration.background)
    return "\n".join(lines) + "\n"


def _string(text: str) -> str:
    return json.dumps(text.replace("\x7f", " "), ensure_ascii=False)
