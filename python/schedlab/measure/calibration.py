"""What this machine's operations cost: measured by the native runner, kept in a file.

See `schedlab.model.calibration_file` for the file.
"""

import datetime as dt
import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from schedlab.boundary.errors import InputError, RunError
from schedlab.measure import background
from schedlab.model import Costs, calibration_file
from schedlab.model.calibration_file import (
    REFERENCE,
    Calibration,
    Spread,
    bare_fork,
    default,
    load,
    reference,
    references,
    save,
    speed_by,
    to_toml,
)
from schedlab.processes import lease
from schedlab.processes.disturbance import watching
from schedlab.targets import host
from schedlab.targets.facts import cpu_model_of, facts
from schedlab.vm.guest import Guest

__all__ = [
    "MOST_DISTURBED",
    "REFERENCE",
    "Calibration",
    "Spread",
    "calibrate",
    "calibrated",
    "check_calm",
    "default",
    "load",
    "median_of",
    "path",
    "reference",
    "references",
    "save",
    "stale",
    "to_toml",
]

MOST_DISTURBED = 0.2
"""The part of the CPU time that others may take while costs are measured."""


def path(guest: Guest | None = None) -> Path:
    """Return the file in which this user's calibration is kept, each guest's in one of its own.

    Args:
        guest: the guest, by whose kernel and CPUs the file is called.
    """
    if guest is None:
        return calibration_file.path()
    how = guest.accelerator if guest.clock == "host" else guest.clock
    return calibration_file.path(f"-{guest.kernel.release}-{guest.cpus}cpu-{how}")


def stale(calibration: Calibration) -> str | None:
    """Return why a calibration may not fit this machine any more, None where it does."""
    here = facts()
    for what, then, now in (
        ("kernel", calibration.kernel, here.kernel),
        ("CPU", calibration.cpu_model, here.cpu_model),
        ("number of CPUs", calibration.cpus, here.cpus),
    ):
        if then and then != now:
            return f"the costs were calibrated with {what} {then}, this is {now}"
    return None


def calibrate(
    *, quick: bool = False, disk: Path | None = None, guest: Guest | None = None
) -> Calibration:
    """Measure a machine's costs, in about five seconds, or two; two more for a disk.

    What else runs there takes six more, or three, and needs root and tracefs; without these the
    notes say that it was not measured.

    Args:
        quick: measure fewer batches.
        disk: a directory of the disk that is measured too, with a file of 16 MiB that has no name.
        guest: a guest that is up, which is measured in place of this machine; in one whose
            instructions are translated it takes many times as long.

    Raises:
        InputError: the native runner is not there, or no such file can be made in the directory.
        RunError: it failed.
    """
    if guest is None or guest.clock == "host":
        with lease.exclusive():
            return _measured(quick, disk, guest)
    return _measured(quick, disk, guest)


def _measured(quick: bool, disk: Path | None, guest: Guest | None) -> Calibration:
    arguments = ["calibrate", "--quick"] if quick else ["calibrate"]
    if disk is not None:
        arguments += ["--disk", str(disk)]
    if guest is None:
        with watching() as watch:
            said = host.native_program(arguments, timeout=120)
        found = replace(calibrated(said), disturbance=watch.found)
    else:
        command = [guest.inside(host.runner()), *arguments]
        found = calibrated(host.printed(guest.run(command, timeout=1800)), guest)
    others, note = background.measure(quick=quick, guest=guest)
    return replace(
        found,
        background=others,
        costs=replace(found.costs, background=None if others is None else others.workload),
        notes=(*found.notes, note) if note else found.notes,
    )


def calibrated(said: str, guest: Guest | None = None) -> Calibration:
    """Return the calibration that ``schedlab-native calibrate`` printed, here or in a guest."""
    found = json.loads(said)
    if guest is None:
        cpu_model = facts().cpu_model
    else:
        cpu_model = cpu_model_of(guest.run(["cat", "/proc/cpuinfo"]).output)
    measured = {name: Spread(**value) for name, value in found["measured"].items()}
    return Calibration(
        costs=replace(
            Costs.from_times("calibrated", found["costs"], _devices(found)),
            preempt=facts().preempt if guest is None else "full",
            speed="" if guest is None else speed_by(guest.clock, found["cpus"]),
            bare_fork=bare_fork(measured),
        ),
        kernel=found["release"],
        cpu_model=cpu_model,
        cpus=found["cpus"],
        accelerator="" if guest is None else guest.accelerator,
        clock="" if guest is None else guest.clock,
        hz=found["hz"],
        date=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        elapsed_ns=found["elapsed_ns"],
        spread={name: Spread(**value) for name, value in found["spread"].items()},
        measured=measured,
        later={name: Spread(**value) for name, value in found["later"].items()},
        notes=tuple(found["notes"]),
    )


def _devices(found: Mapping[str, Any]) -> dict[str, str | int]:
    """Return what memory and disk take, and the CPU of the disk's interrupts if that is one."""
    cpu = found.get("disk_cpu")
    return {**found["devices"], **({} if cpu is None else {"disk_cpu": cpu})}


def median_of(found: Sequence[Calibration]) -> Calibration:
    """Return the medians of several calibrations of one machine.

    A process's memory lies elsewhere each time, and the costs of creating, starting and ending one
    differ by that: by a tenth mostly, and some costs have two values (on a 6.1 guest whose clock
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
    measured = _between([one.measured for one in found])
    return replace(
        last,
        costs=replace(
            last.costs,
            bare_fork=bare_fork(measured),
            times=_medians([_known(one.costs) for one in found]) | dict.fromkeys(unknown, 0),
            unknown=unknown,
            devices=_devices_of([one.costs.devices for one in found]),
        ),
        elapsed_ns=sum(one.elapsed_ns for one in found),
        spread=_between([one.spread for one in found]),
        measured=measured,
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


def _devices_of(devices: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """Return medians, and the CPU of the disk's interrupts where all name the same one."""
    cpus = {one.get("disk_cpu") for one in devices}
    medians = _medians(devices)
    return {name: value for name, value in medians.items() if name != "disk_cpu" or len(cpus) == 1}


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
            f"allowed: {MOST_DISTURBED:.0%}. Nothing was written: end that work"
        )
