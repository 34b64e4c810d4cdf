"""How much CPU time others take while something real runs.

The same program beside a busy neighbour takes twice as long; a number without this is worth little.
"""

import json
import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from schedlab import _core

NOTE = "of the CPU time while this ran"
"""What a note on a disturbed run has in it."""

TICKS_A_SECOND = 250
"""Timer interrupts a second, at the least that distributions' kernels have."""


@dataclass(frozen=True, slots=True)
class Disturbance:
    """CPU time that was not the run's own while it went on, all times in nanoseconds.

    Attributes:
        cpus: the CPUs that were watched: those that the run could use.
        elapsed_ns: how long they were watched.
        others_ns: CPU time of other tasks on them.
        steal_ns: time for which the hypervisor ran something else.
        uncertainty_ns: by how much ``others_ns`` may be wrong: the kernel counts in ticks.
        disturbed: whether others and the hypervisor certainly took more than 5 % of the CPU time.
    """

    cpus: int
    elapsed_ns: int
    others_ns: int
    steal_ns: int
    uncertainty_ns: int
    disturbed: bool

    @property
    def share(self) -> float:
        """The part of the CPU time that others and the hypervisor took, 0 to 1.

        >>> Disturbance(2, 1_000, 400, 100, 0, True).share
        0.25
        """
        return min((self.others_ns + self.steal_ns) / max(self.elapsed_ns * self.cpus, 1), 1.0)

    @property
    def known(self) -> bool:
        """Whether the run was long enough to tell a disturbance of 5 % from none.

        >>> Disturbance(2, 1_000_000, 0, 0, 500_000, False).known
        False
        """
        return self.disturbed or self.uncertainty_ns <= 0.05 * self.elapsed_ns * self.cpus


@dataclass(slots=True)
class Watch:
    """What others took while something was watched, once that is over.

    Attributes:
        found: what they took; None where the kernel does not say.
        notes: a sentence where that disturbed what was watched.
    """

    found: Disturbance | None = None
    notes: tuple[str, ...] = ()

    def as_data(self) -> dict[str, Any]:
        """Return it as plain data."""
        found = None if self.found is None else asdict(self.found)
        return {"disturbance": found, "notes": list(self.notes)}


@contextmanager
def watching() -> Iterator[Watch]:
    """Watch what others take of this process's CPUs during a block.

    What this process does, and the children do that it collects in the block, is its own.

    >>> with watching() as watch:
    ...     pass
    >>> watch.found is None or not watch.found.known
    True
    """
    watch = Watch()
    before, began, own = _stat(), time.perf_counter_ns(), _own()
    try:
        yield watch
    finally:
        elapsed, took, after = time.perf_counter_ns() - began, _own() - own, _stat()
        cpus = sorted(os.sched_getaffinity(0))
        told = json.loads(
            _core.disturbance(before, after, cpus, elapsed, max(took, 0), TICKS_A_SECOND)
        )
        if told is not None:
            watch.found = Disturbance(**told["disturbance"])
            watch.notes = () if told["note"] is None else (told["note"],)


def read(value: Any) -> Disturbance | None:
    """Return a disturbance from its JSON; None for None."""
    return None if value is None else Disturbance(**value)


def _stat() -> str:
    try:
        return Path("/proc/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""


def _own() -> int:
    """Return the CPU time of this process and of the children it has collected, in nanoseconds."""
    return sum(
        round((usage.ru_utime + usage.ru_stime) * 1e9)
        for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )
