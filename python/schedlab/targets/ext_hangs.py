"""Kernels whose sched_ext is known to hang the machine, by release.

The kernel's watchdog hands scheduling back when a BPF scheduler does wrong. These are faults of
sched_ext itself, of which it does not save: what they are, which releases have them, and the
commits that end them, from the kernel's CVE records (`CVEProject/cvelistV5`, records of the CNA
``Linux``).
"""

import re
from dataclasses import dataclass

_RELEASE = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")


@dataclass(frozen=True, slots=True)
class Hang:
    """A fault of sched_ext that stops a machine.

    Attributes:
        what: what happens.
        record: its CVE record.
        commit: the commit in Linus's tree that ends it.
        since: the first series that has it.
        fixed: the first release without it, of each series that got the fix later.
        mainline: the first series that never had it again.
    """

    what: str
    record: str
    commit: str
    since: tuple[int, int]
    fixed: tuple[tuple[int, int, int], ...]
    mainline: tuple[int, int]

    def concerns(self, release: str) -> bool:
        """Whether a kernel has it, by its release; a distribution may have mended it since.

        >>> HANGS[0].concerns("6.12.77-amd64"), HANGS[0].concerns("6.12.78")
        (True, False)
        """
        match = _RELEASE.match(release)
        if match is None:
            return False
        major, minor, point = (int(number or 0) for number in match.groups())
        if not self.since <= (major, minor) < self.mainline:
            return False
        points = {(first, second): third for first, second, third in self.fixed}
        return point < points.get((major, minor), point + 1)

    def __str__(self) -> str:
        fixed = ", ".join(".".join(map(str, release)) for release in self.fixed)
        newest = ".".join(map(str, self.mainline))
        return f"{self.what} ({self.record}, fixed by {self.commit} in {fixed} and {newest})"


HANGS = (
    Hang(
        "loading a scheduler while all CPUs are busy may never end",
        "CVE-2026-43392",
        "b06ccbabe2506fd70b9167a644978b049150224a",
        (6, 12),
        ((6, 12, 78), (6, 18, 20), (6, 19, 9)),
        (7, 0),
    ),
    Hang(
        "the task that ends a scheduler may be preempted by it for ever",
        "CVE-2026-43482",
        "83236b2e43dba00bee5b82eb5758816b1a674f6a",
        (6, 12),
        ((6, 12, 78), (6, 18, 20), (6, 19, 9)),
        (7, 0),
    ),
    Hang(
        "a task that does not run may be picked, and its wakers wait for it for ever",
        "CVE-2025-21897",
        "8fef0a3b17bb258130a4fcbcb5addf94b25e9ec5",
        (6, 12),
        ((6, 12, 18), (6, 13, 6)),
        (6, 14),
    ),
    Hang(
        "a CPU that is locked up with its interrupts off may not be set free",
        "CVE-2026-90432",
        "3c4b38064937a761ebbf85b1649e812db85eb59e",
        (7, 1),
        ((7, 2, 6),),
        (7, 3),
    ),
)
"""Those that a scheduler like ours may meet, the newest kernels' last."""


def known_hangs(release: str) -> tuple[str, ...]:
    """Return what a kernel's sched_ext is known to hang by, a sentence each.

    Args:
        release: what ``uname -r`` prints.

    >>> known_hangs("7.2.13+deb14-amd64")
    ()
    """
    return tuple(
        f"sched_ext of kernel {release} may hang: {hang}"
        for hang in HANGS
        if hang.concerns(release)
    )
