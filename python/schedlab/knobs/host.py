"""The knobs of the running kernel: reading them, and setting them for a while."""

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from schedlab.errors import NotPermittedError, RunError
from schedlab.knobs.table import Knob, find, table
from schedlab.model import Scheduler, parse_time

_DEBUGFS = Path("/sys/kernel/debug")


@dataclass(frozen=True, slots=True)
class Reading:
    """A knob on the running kernel.

    Attributes:
        knob: the knob.
        value: its present value with its unit, None where it cannot be read.
        settable: whether this user may set it here.
        why: why it cannot be read or set; empty where it can.
    """

    knob: Knob
    value: str | None
    settable: bool
    why: str


def read_all(release: str, cpus: int) -> list[Reading]:
    """Return every knob that kernels of this release have, features included."""
    return [read(knob) for knob in table(release, cpus) if knob.exists]


def read(knob: Knob) -> Reading:
    """Return what a knob is at present, and whether it may be set."""
    file = knob.file
    if file is None:
        return Reading(knob, None, False, knob.instead)
    try:
        text = file.read_text(encoding="ascii")
    except OSError as error:
        return Reading(knob, None, False, _why(error, file))
    value = _from_file(knob, text)
    if not os.access(file, os.W_OK):
        return Reading(knob, value, False, _why_not_writable(file))
    return Reading(knob, value, True, "")


@contextmanager
def applied(settings: Mapping[str, str], release: str, cpus: int) -> Iterator[None]:
    """Set knobs of the running kernel for the time of a block, and put back what they were.

    Args:
        settings: values with their units by knob name.
        release: the running kernel's release.
        cpus: its CPUs.

    Raises:
        InputError: a knob this kernel has not, or a value it cannot have.
        NotPermittedError: a knob that may not be set here; none is then changed.
        RunError: the kernel refused a value; those set before are put back.
    """
    checked = Scheduler(release, knobs=settings).knobs
    knobs = [(find(name, release, cpus), value) for name, value in checked.items()]
    before: list[tuple[Knob, str]] = []
    for knob, _ in knobs:
        reading = read(knob)
        if not reading.settable or reading.value is None:
            raise NotPermittedError(f"knob '{knob.name}' cannot be set here: {reading.why}")
        before.append((knob, reading.value))
    changed: list[tuple[Knob, str]] = []
    try:
        for (knob, value), was in zip(knobs, before, strict=True):
            changed.append(was)
            _write(knob, value)
        yield
    finally:
        for knob, value in reversed(changed):
            with suppress(RunError):
                _write(knob, value)


def _write(knob: Knob, value: str) -> None:
    assert knob.path is not None
    try:
        Path(knob.path).write_text(_to_file(knob, value), encoding="ascii")
    except OSError as error:
        reason = error.strerror or str(error)
        raise RunError(f"the kernel refused {knob.name}={value} ({knob.path}): {reason}") from None


def _from_file(knob: Knob, text: str) -> str | None:
    if knob.is_feature:
        name = knob.name.removeprefix("feature.")
        words = text.split()
        return "1" if name in words else "0" if f"NO_{name}" in words else None
    try:
        number = int(text.split(maxsplit=1)[0])
    except (ValueError, IndexError):
        return None
    if knob.unlimited and number == -1:
        return "unlimited"
    return knob.text(number * knob.unit)


def _to_file(knob: Knob, value: str) -> str:
    if knob.is_feature:
        name = knob.name.removeprefix("feature.")
        return name if value == "1" else f"NO_{name}"
    if value in ("unlimited", "-1"):
        return "-1"
    return str(parse_time(value) // knob.unit if knob.kind == "time" else int(value))


def _why(error: OSError, file: Path) -> str:
    debugfs = file.is_relative_to(_DEBUGFS)
    if error.errno == errno.ENOENT and debugfs and not os.path.ismount(_DEBUGFS):
        if os.geteuid() != 0:
            return "it is in debugfs, which only root may read"
        return f"debugfs is not mounted (mount -t debugfs none {_DEBUGFS})"
    if error.errno == errno.ENOENT:
        return f"this kernel was built without {file}"
    if error.errno == errno.EPERM:
        return f"the kernel refuses access to {file} (lockdown or a restricted debugfs)"
    if error.errno == errno.EACCES:
        return f"only root may read {file}"
    return f"{file}: {error.strerror}"


def _why_not_writable(file: Path) -> str:
    if os.geteuid() != 0:
        return f"only root may write {file}"
    return f"{file} is not writable here (a container or a read-only mount)"
