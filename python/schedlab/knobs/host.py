"""The knobs of the running kernel: what they are, whether they may be set, and why not."""

import errno
import os
from dataclasses import dataclass
from pathlib import Path

from schedlab.knobs import places as kernel
from schedlab.knobs.places import Place, decode, places
from schedlab.knobs.table import Knob, table


@dataclass(frozen=True, slots=True)
class Reading:
    """A knob on the running kernel.

    Attributes:
        knob: the knob.
        value: its present value with its unit, None where it cannot be read.
        settable: whether this user may set it here.
        why: why it cannot be read or set; empty where it can.
        obstacle: the same in a word: ``release``, ``not built in``, ``not mounted``, ``lockdown``,
            ``not root``, ``read-only`` or ``other``; empty where there is none.
    """

    knob: Knob
    value: str | None
    settable: bool
    why: str
    obstacle: str = ""


def read_all(release: str, cpus: int) -> list[Reading]:
    """Return every knob that kernels of this release have, features included."""
    return [read(knob) for knob in table(release, cpus) if knob.exists]


def read(knob: Knob) -> Reading:
    """Return what a knob is at present, and whether it may be set.

    Whether it may be set is found out by opening its files for writing; nothing is written.
    """
    where = places(knob)
    if not where:
        return Reading(knob, None, False, knob.instead, "release")
    values: dict[str, int] = {}
    for place in where:
        try:
            value = decode(knob, place.read())
        except OSError as error:
            why, obstacle = _unreadable(knob, place.file, error)
            return Reading(knob, None, False, why, obstacle)
        except ValueError as error:
            return Reading(knob, None, False, str(error), "not built in")
        values[value] = values.get(value, 0) + 1
    text = next(iter(values)) if len(values) == 1 else _different(values)
    for place in where:
        refused = place.try_to_open()
        if refused is not None:
            why, obstacle = _unwritable(place, refused)
            return Reading(knob, text, False, why, obstacle)
    return Reading(knob, text, True, "")


def _different(values: dict[str, int]) -> str:
    """Say what a knob is of which each CPU has its own.

    >>> _different({"50ms": 3, "30ms": 1})
    '50ms on 3 CPUs, 30ms on 1'
    """
    (first, count), *others = values.items()
    return ", ".join([f"{first} on {count} CPUs", *(f"{value} on {n}" for value, n in others)])


def _unreadable(knob: Knob, file: Path, error: OSError) -> tuple[str, str]:
    debugfs = kernel.root / "sys/kernel/debug"
    in_debugfs = file.is_relative_to(debugfs)
    if error.errno == errno.EACCES:
        return _not_root(f"only root may read {file}")
    if error.errno == errno.EPERM:
        return f"the kernel refuses even to read {file} ({_lockdown()})", "lockdown"
    if error.errno != errno.ENOENT:
        return f"{file}: {error.strerror}", "other"
    if in_debugfs and not _has_entries(debugfs):
        if os.geteuid() != 0:
            return _not_root("it is in debugfs, which only root may read")
        return f"debugfs is not mounted (mount -t debugfs none {debugfs})", "not mounted"
    return f"this kernel was built without {file} ({_option(knob)})", "not built in"


def _unwritable(place: Place, error: OSError) -> tuple[str, str]:
    file = place.file
    if error.errno == errno.EPERM:
        return f"the kernel refuses to have {file} written ({_lockdown()})", "lockdown"
    if error.errno == errno.EACCES and os.geteuid() != 0:
        return _not_root(f"only root may write {file}")
    if error.errno in (errno.EROFS, errno.EACCES):
        return f"{file} is not writable here (a container or a read-only mount)", "read-only"
    return f"{file}: {error.strerror}", "other"


def _not_root(why: str) -> tuple[str, str]:
    return why, "not root"


def _has_entries(directory: Path) -> bool:
    try:
        return any(directory.iterdir())
    except OSError:
        return False


def _option(knob: Knob) -> str:
    """Return the option of the kernel's configuration that a knob needs."""
    needed = {"autogroup": "CONFIG_SCHED_AUTOGROUP", "cfs_bandwidth_slice": "CONFIG_CFS_BANDWIDTH"}
    if knob.name in needed:
        return needed[knob.name]
    if knob.name.startswith("rt_") or knob.name in ("rr_timeslice", "child_runs_first"):
        return "CONFIG_SYSCTL"
    return "CONFIG_SCHED_DEBUG"


def _lockdown() -> str:
    """Say what is known of the kernel's lockdown, which refuses debugfs to root too."""
    file = kernel.root / "sys/kernel/security/lockdown"
    try:
        text = file.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return "lockdown or a restricted debugfs"
    mode = text.partition("[")[2].partition("]")[0]
    return f"lockdown: {mode}" if mode and mode != "none" else "a restricted debugfs"
