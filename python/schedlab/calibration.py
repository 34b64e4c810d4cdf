"""What this machine's operations cost: measured by the native runner, kept in a file.

The file is TOML, in the user's data directory (``$XDG_DATA_HOME/schedlab``), with what is needed to
tell whether it still fits: kernel, CPU, number of CPUs and date. A file of one's own needs no more
than a table ``[costs]`` of times with their units; ``[devices]`` says what memory and disk take.
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

from schedlab.errors import InputError
from schedlab.files import make_directory, write_text
from schedlab.model import Costs, format_time, parse_time
from schedlab.targets import host
from schedlab.targets.facts import cpu_model_of, facts
from schedlab.vm.guest import Guest


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
        return calibrated(host.native_program(arguments, timeout=120))
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
        Of each cost and device the median; as its spread the quartiles of the calibrations'
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
    return replace(
        last,
        costs=replace(
            last.costs,
            times=_medians([one.costs.times for one in found]),
            devices=_medians([one.costs.devices for one in found]),
        ),
        elapsed_ns=sum(one.elapsed_ns for one in found),
        spread=_between([one.spread for one in found]),
        measured=_between([one.measured for one in found]),
        later=_between([one.later for one in found]),
        notes=tuple(dict.fromkeys(note for one in found for note in one.notes)),
    )


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
    try:
        text = target.read_text(encoding="utf-8")
    except FileNotFoundError:
        if file is None:
            raise InputError(
                "this machine was never calibrated: run 'schedlab calibrate' (some seconds), or "
                "choose --costs ideal or linsched"
            ) from None
        raise InputError(f"costs file '{target}': No such file or directory") from None
    except (OSError, UnicodeDecodeError) as error:
        said = getattr(error, "strerror", None) or error
        raise InputError(f"costs file '{target}': {said}") from None
    name = "calibrated" if file is None else str(file)
    try:
        return _read(tomllib.loads(text), name)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"costs file '{target}': not TOML: {error}") from None
    except (TypeError, AttributeError, InputError) as error:
        words = str(error).removeprefix("machine: ")
        raise InputError(f"costs file '{target}': {words}") from None


def _read(value: dict[str, Any], name: str) -> Calibration:
    if "costs" not in value:
        raise InputError("it has no table [costs]")
    machine = _table(value, "machine")
    return Calibration(
        costs=Costs.from_times(name, _times(value, "costs"), _times(value, "devices")),
        kernel=str(machine.get("kernel", "")),
        cpu_model=str(machine.get("cpu_model", "")),
        cpus=_whole(machine, "cpus"),
        accelerator=str(machine.get("accelerator", "")),
        clock=str(machine.get("clock", "")),
        hz=_whole(machine, "hz"),
        date=str(machine.get("date", "")),
        elapsed_ns=_whole(machine, "elapsed_ns"),
        spread={key: Spread(**one) for key, one in _table(value, "spread").items()},
        measured={key: Spread(**one) for key, one in _table(value, "measured").items()},
        later={key: Spread(**one) for key, one in _table(value, "later").items()},
        notes=tuple(str(note) for note in machine.get("notes", ())),
    )


def _table(value: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = value.get(name, {})
    if not isinstance(found, dict):
        raise InputError(f"{name} is no table")
    return found


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
    if not isinstance(found, int):
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
    lines += [f"{name} = {_string(text)}" for name, text in calibration.costs.as_text().items()]
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
