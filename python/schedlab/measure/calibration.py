"""What this machine's operations cost: measured by the native runner, kept in a file.

The file is TOML, in the user's data directory (``$XDG_DATA_HOME/schedlab``), with what is needed to
tell whether it still fits: kernel, CPU, number of CPUs and date. A file of one's own needs no more
than a table ``[costs]`` of times with their units; ``[devices]`` says what memory and disk take.
``unknown`` in ``[costs]`` lists costs that could not be measured. Of files without that list, those
of a measured machine (with a table ``[spread]``) do not know what the table leaves out; in others
that is nothing.

Reference costs are such files of named machines, shipped in ``costs/``.
"""

import datetime as dt
import json
import os
import statistics
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from schedlab.boundary.errors import InputError, RunError, reading
from schedlab.boundary.files import SMALL, make_directory, read_text, write_text
from schedlab.model import Costs, format_time, parse_time
from schedlab.processes.disturbance import Disturbance, watching
from schedlab.targets import host
from schedlab.targets.facts import cpu_model_of, facts
from schedlab.vm.guest import Guest

_SHIPPED = Path(__file__).parents[1] / "costs"

MOST_DISTURBED = 0.2
"""The part of the CPU time that others may take while costs are measured."""


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

    def stale(self) -> str | None:
        """Return why it may not fit this machine any more, None where it does."""
        here = facts()
        for what, then, now in (
            ("kernel", self.kernel, here.kernel),
            ("CPU", self.cpu_model, here.cpu_model),
            ("number of CPUs", self.cpus, here.cpus),
        ):
            if then and then != now:
                return f"the costs were calibrated with {what} {then}, this is {now}"
        return None


def path(guest: Guest | None = None) -> Path:
    """Return the file in which this user's calibration is kept, each guest's in one of its own.

    Args:
        guest: the guest, by whose kernel and CPUs the file is called.
    """
    base = os.environ.get("XDG_DATA_HOME", "")
    directory = Path(base) if base.startswith("/") else Path.home() / ".local" / "share"
    of = ""
    if guest is not None:
        how = guest.accelerator if guest.clock == "host" else guest.clock
        of = f"-{guest.kernel.release}-{guest.cpus}cpu-{how}"
    return directory / "schedlab" / f"calibration{of}.toml"


def calibrate(
    *, quick: bool = False, disk: Path | None = None, guest: Guest | None = None
) -> Calibration:
    """Measure a machine's costs, in about five seconds, or two; two more for a disk.

    Args:
        quick: measure fewer batches.
        disk: a directory of the disk that is measured too, with a file of 16 MiB that has no name.
        guest: a guest that is up, which is measured in place of this machine; in one whose
            instructions are translated it takes many times as long.

    Raises:
        InputError: the native runner is not there, or no such file can be made in the directory.
        RunError: it failed.
    """
    arguments = ["calibrate", "--quick"] if quick else ["calibrate"]
    if disk is not None:
        arguments += ["--disk", str(disk)]
    if guest is None:
        with watching() as watch:
            said = host.native_program(arguments, timeout=120)
        return replace(calibrated(said), disturbance=watch.found)
    command = [guest.inside(host.runner()), *arguments]
    return calibrated(host.printed(guest.run(command, timeout=1800)), guest)


def calibrated(said: str, guest: Guest | None = None) -> Calibration:
    """Return the calibration that ``schedlab-native calibrate`` printed, here or in a guest."""
    found = json.loads(said)
    if guest is None:
        cpu_model = facts().cpu_model
    else:
        cpu_model = cpu_model_of(guest.run(["cat", "/proc/cpuinfo"]).output)
    return Calibration(
        costs=Costs.from_times("calibrated", found["costs"], found["devices"]),
        kernel=found["release"],
        cpu_model=cpu_model,
        cpus=found["cpus"],
        accelerator="" if guest is None else guest.accelerator,
        clock="" if guest is None else guest.clock,
        hz=found["hz"],
        date=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        elapsed_ns=found["elapsed_ns"],
        spread={name: Spread(**value) for name, value in found["spread"].items()},
        measured={name: Spread(**value) for name, value in found["measured"].items()},
        later={name: Spread(**value) for name, value in found["later"].items()},
        notes=tuple(found["notes"]),
    )


def median_of(found: Sequence[Calibration]) -> Calibration:
    """Return the medians of several calibrations of one machine.

    A process's memory lies elsewhere each time, and what it takes to make, begin and end one
    differs by that: by a tenth mostly, and some costs have two values (on a 6.1 guest whose clock
    counts instructions `begin_process` is 25.4 us three times of four, and 43.8 else).

    Args:
        found: at least one; of guests each best of a boot of its own.

    Returns:
        Of each cost and device the median of those that found it; a cost that half of them or more
        did not find is unknown. As its spread the quartiles of the calibrations'
        medians, and the batches of all. Date and notes are the last one's and those of all.

    Raises:
        InputError: there is none, or they are not of one machine.

    >>> one, other = (Calibration(Costs("measured", {"switch": ns})) for ns in (2000, 2600))
    >>> median_of([one, other]).costs.times["switch"]
    2300
    """
    if not found:
        raise InputError("no calibration to take the median of; at least one is needed")
    last = found[-1]
    for what in ("kernel", "cpu_model", "cpus", "accelerator", "clock", "hz"):
        values = {getattr(one, what) for one in found}
        if len(values) > 1:
            several = ", ".join(sorted(map(str, values)))
            raise InputError(f"calibrations of one machine only; {what} is {several}")
    if len(found) == 1:
        return last
    named = dict.fromkeys(name for one in found for name in one.costs.unknown)
    unknown = tuple(
        name for name in named if 2 * sum(name in one.costs.unknown for one in found) >= len(found)
    )
    return replace(
        last,
        costs=replace(
            last.costs,
            times=_medians([_known(one.costs) for one in found]) | dict.fromkeys(unknown, 0),
            unknown=unknown,
            devices=_medians([one.costs.devices for one in found]),
        ),
        elapsed_ns=sum(one.elapsed_ns for one in found),
        spread=_between([one.spread for one in found]),
        measured=_between([one.measured for one in found]),
        later=_between([one.later for one in found]),
        notes=tuple(dict.fromkeys(note for one in found for note in one.notes)),
    )


def _known(costs: Costs) -> dict[str, int]:
    """Return the costs that were measured."""
    return {name: time for name, time in costs.times.items() if name not in costs.unknown}


def _medians(times: Sequence[Mapping[str, int]]) -> dict[str, int]:
    return {
        name: round(statistics.median(one[name] for one in times if name in one))
        for name in _names(times)
    }


def _between(spreads: Sequence[Mapping[str, Spread]]) -> dict[str, Spread]:
    """Return quartiles of medians."""
    found = {}
    for name in _names(spreads):
        of = [one[name] for one in spreads if name in one]
        medians = [one.median_ns for one in of]
        low, middle, high = (
            statistics.quantiles(medians, n=4, method="inclusive") if len(of) > 1 else medians * 3
        )
        found[name] = Spread(middle, low, high, sum(one.samples for one in of))
    return found


def _names(tables: Iterable[Mapping[str, object]]) -> list[str]:
    return list(dict.fromkeys(name for table in tables for name in table))


REFERENCE = "epyc-vm-6.18"
"""The machine whose costs stand in for those of one that was never calibrated."""

_BETWEEN = ("wakeup_remote", "ipi", "ipi_idle", "ipi_taken", "idle_exit", "migration")
"""Costs between CPUs, which one CPU cannot measure."""


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


def check_calm(found: Sequence[Calibration]) -> None:
    """Refuse calibrations beside which others took more than a fifth of the CPU time.

    Raises:
        RunError: one of them was made so.

    >>> check_calm([Calibration(Costs("measured", {}), disturbance=None)])
    """
    shares = [one.disturbance.share for one in found if one.disturbance is not None]
    if shares and max(shares) > MOST_DISTURBED:
        raise RunError(
            f"other work took {max(shares):.0%} of the CPU time while costs were measured; "
            f"allowed: {MOST_DISTURBED:.0%}. Nothing was written: end that work, or use --force"
        )


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
        InputError: there is none, or it holds none.
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
    return Calibration(
        costs=_costs(value, name, _whole(machine, "cpus")),
        kernel=str(machine.get("kernel", "")),
        cpu_model=str(machine.get("cpu_model", "")),
        cpus=_whole(machine, "cpus"),
        accelerator=str(machine.get("accelerator", "")),
        clock=str(machine.get("clock", "")),
        hz=_whole(machine, "hz"),
        date=str(machine.get("date", "")),
        elapsed_ns=_whole(machine, "elapsed_ns"),
        spread={key: _spread(key, one) for key, one in _table(value, "spread").items()},
        measured={key: _spread(key, one) for key, one in _table(value, "measured").items()},
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
        lines += [f"{name} = {_string(format_time(value))}" for name, value in devices.items()]
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
    return "\n".join(lines) + "\n"


def _string(text: str) -> str:
    return json.dumps(text.replace("\x7f", " "), ensure_ascii=False)
