"""The knob table, as one kernel release has it."""

import json
from dataclasses import dataclass
from pathlib import Path

from schedlab import _core
from schedlab.boundary.arguments import check_text
from schedlab.boundary.errors import InputError
from schedlab.model import format_time


@dataclass(frozen=True, slots=True)
class Knob:
    """One scheduler setting.

    Attributes:
        name: its one name everywhere.
        summary: what it does.
        kind: ``time``, ``count`` or ``switch``.
        low: the least value, in nanoseconds, a count or 0.
        high: the greatest value.
        unlimited: whether ``unlimited`` (-1) is a value too.
        exists: whether this release has it.
        instead: what took its place, or since when it exists.
        default: the default in this release, None where it does not exist.
        default_text: the same with its unit.
        scales_with_cpus: whether the default grows with the number of CPUs.
        path: the file in which the kernel keeps it, None where it does not exist.
        unit: nanoseconds a unit of the file's number.
        simulated: whether the simulator acts on it.
    """

    name: str
    summary: str
    kind: str
    low: int
    high: int
    unlimited: bool
    exists: bool
    instead: str
    default: int | None
    default_text: str | None
    scales_with_cpus: bool
    path: str | None
    unit: int
    simulated: bool

    @property
    def is_feature(self) -> bool:
        """Whether it is a flag of ``sched_features``."""
        return self.name.startswith("feature.")

    @property
    def file(self) -> Path | None:
        """The file in which the kernel keeps it."""
        return None if self.path is None else Path(self.path)

    def text(self, value: int) -> str:
        """Return a value with its unit."""
        return format_time(value) if self.kind == "time" else str(value)

    @property
    def range(self) -> str:
        """The values it may have, for people."""
        if self.kind == "switch":
            return "0 or 1"
        beyond = ", unlimited" if self.unlimited else ""
        return f"{self.text(self.low)} to {self.text(self.high)}{beyond}"


def table(release: str, cpus: int = 1) -> list[Knob]:
    """Return every knob as a release has it on a machine of so many CPUs.

    Raises:
        InputError: an unknown release.

    >>> [knob.default_text for knob in table("6.1", 4) if knob.name == "latency"]
    ['18ms']
    """
    return [Knob(**row) for row in json.loads(_core.knobs(release, cpus))]


def find(name: str, release: str, cpus: int = 1) -> Knob:
    """Return the knob of this name.

    Raises:
        InputError: no kernel has such a knob, or this release has not.

    >>> find("latency", "5.10", 2).default_text
    '12ms'
    """
    check_text(name, "knob")
    for knob in table(release, cpus):
        if knob.name == name:
            if not knob.exists:
                raise InputError(f"kernel {release} has no knob '{name}': {knob.instead}")
            return knob
    # The core knows how to say which names there are and which one was probably meant.
    _core.scheduler(release, 250, [(name, "0")])
    raise InputError(f"no scheduler knob is called '{name}'")
