"""Where the running kernel keeps its knobs: files that hold a number, or flags by name."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from schedlab.boundary.errors import RunError
from schedlab.knobs import operations
from schedlab.knobs.table import Knob
from schedlab.model import parse_time

root = Path("/")
"""The directory that holds ``proc`` and ``sys``; tests use another tree."""

_ALLOWED = re.compile(r"proc/sys/kernel/sched_\w+|sys/kernel/debug/(sched_features|sched/[\w/]+)")
"""Files, below the root, that are ever written; a journal that names another is not believed."""

_NUMBER = re.compile(r"-?[0-9]{1,20}")
_FLAG = re.compile(r"[A-Z][A-Z0-9_]*")

_FIRST_CPU = "/cpu0/"
"""The part of a per-CPU knob's path in the table that stands for the CPU."""


@dataclass(frozen=True, slots=True)
class Place:
    """A kernel file, or one flag in the file of all flags.

    Attributes:
        file: its path.
        flag: the flag's name; empty for a file that holds a number.
    """

    file: Path
    flag: str = ""

    def read(self) -> str:
        """Return what is there, in the form in which it can be written back.

        Raises:
            OSError: it cannot be read.
            ValueError: it holds no number, or no such flag.

        >>> Place(Path("/proc/sys/kernel/random/boot_id")).read()
        Traceback (most recent call last):
            ...
        ValueError: /proc/sys/kernel/random/boot_id holds no number
        """
        words = operations.read_text(self.file).split()
        if self.flag:
            for written in (self.flag, f"NO_{self.flag}"):
                if written in words:
                    return written
            raise ValueError(f"this kernel has no feature {self.flag}")
        if not words or not _NUMBER.fullmatch(words[0]):
            raise ValueError(f"{self.file} holds no number")
        return words[0]

    def present(self) -> str | None:
        """Return what `read` does, None where it cannot be read."""
        try:
            return self.read()
        except (OSError, ValueError):
            return None

    def write(self, raw: str) -> None:
        """Write what `read` returns.

        Raises:
            OSError: the kernel refuses.
        """
        operations.write_setting(self.file, raw)

    def try_to_open(self) -> OSError | None:
        """Open it for writing, write nothing, and return what that was refused with."""
        try:
            os.close(os.open(self.file, os.O_WRONLY | os.O_CLOEXEC))
        except OSError as error:
            return error
        return None

    def can_hold(self, raw: str) -> bool:
        """Whether a value is of the kind that is read and written here.

        >>> Place(Path("/proc/sys/kernel/sched_rr_timeslice_ms")).can_hold("1; reboot")
        False
        """
        if self.flag:
            flags = (self.flag, f"NO_{self.flag}")
            return _FLAG.fullmatch(self.flag) is not None and raw in flags
        return _NUMBER.fullmatch(raw) is not None

    @property
    def known(self) -> bool:
        """Whether it is a file of the scheduler's knobs at all."""
        try:
            below = self.file.relative_to(root)
        except ValueError:
            return False
        return _ALLOWED.fullmatch(str(below)) is not None

    def __str__(self) -> str:
        return f"{self.flag} in {self.file}" if self.flag else str(self.file)


def places(knob: Knob) -> list[Place]:
    """Return every place of a knob: one, or one a CPU; none where the release lacks it."""
    if knob.path is None:
        return []
    file = root / knob.path.lstrip("/")
    flag = knob.name.removeprefix("feature.") if knob.is_feature else ""
    if _FIRST_CPU not in knob.path:
        return [Place(file, flag)]
    directory = file.parent.parent
    try:
        cpus = sorted(
            int(entry.name[3:])
            for entry in directory.iterdir()
            if re.fullmatch(r"cpu[0-9]+", entry.name)
        )
    except OSError:
        cpus = []
    return [Place(directory / f"cpu{cpu}" / file.name) for cpu in cpus or [0]]


def decode(knob: Knob, raw: str) -> str:
    """Return a value as people write it from what the kernel's file holds.

    >>> from schedlab.knobs import find
    >>> decode(find("rr_timeslice", "6.1"), "100")
    '100ms'
    """
    if knob.is_feature:
        return "0" if raw.startswith("NO_") else "1"
    if knob.unlimited and int(raw) == -1:
        return "unlimited"
    return knob.text(int(raw) * knob.unit)


def encode(knob: Knob, value: str) -> str:
    """Return what to write to the kernel's file for a value that was checked.

    A time between two of the file's units is rounded down; reading back tells.

    >>> from schedlab.knobs import find
    >>> encode(find("rt_runtime", "6.1"), "950ms")
    '950000'
    """
    if knob.is_feature:
        name = knob.name.removeprefix("feature.")
        return name if value == "1" else f"NO_{name}"
    if value in ("unlimited", "-1"):
        return "-1"
    return str(parse_time(value) // knob.unit if knob.kind == "time" else int(value))


def holds_value(knob: Knob, value: str, raw: str) -> bool:
    """Whether the kernel's file holds exactly the value that was asked for.

    >>> from schedlab.knobs import find
    >>> holds_value(find("rr_timeslice", "6.1"), "1500us", "1")
    False
    """
    if knob.kind == "time" and value not in ("unlimited", "-1"):
        return int(raw) * knob.unit == parse_time(value)
    return raw == encode(knob, value)


def boot_id() -> str:
    """Return the number of this boot.

    Raises:
        RunError: it cannot be read.
    """
    file = root / "proc/sys/kernel/random/boot_id"
    try:
        return operations.read_text(file).strip()
    except OSError as error:
        raise RunError(f"cannot tell this boot from another: {file}: {error.strerror}") from None
