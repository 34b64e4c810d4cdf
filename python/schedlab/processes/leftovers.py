"""What a run that was killed left behind: processes, control groups and temporary directories.

Each carries the mark of the process that it belongs to: its id, when it started and in which PID
namespace. A mark whose process is gone, of this user and this namespace, says that nothing else
will clean up.
"""

import errno
import os
import re
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

VARIABLE = "SCHEDLAB_OWNER"
"""The environment variable with the mark of every process that we start."""

_MARK = re.compile(r"([0-9]+)-([0-9]+)-([0-9]+)")
_CGROUP = re.compile(r"schedlab-(?:scenario-)?([0-9]+-[0-9]+-[0-9]+)")
_DIRECTORY = re.compile(r"schedlab-[a-z-]+-([0-9]+-[0-9]+-[0-9]+)-[^/]*")

_PATIENCE = 3.0
"""Seconds that processes of a killed run get to end by themselves once they were asked to."""

_GUARDED = 40.0
"""Seconds that they get where their guard lives, which is ending them."""


def mark() -> str:
    """Return this process's mark.

    >>> owned(mark())
    True
    """
    return f"{os.getpid()}-{_started(os.getpid())}-{_namespace()}"


def owned(text: str) -> bool:
    """Whether the process of a mark is alive, or none that can be told from here."""
    match = _MARK.fullmatch(text)
    if match is None or int(match[3]) != _namespace():
        return True
    return _started(int(match[1])) == int(match[2])


@contextmanager
def directory(kind: str, inside: str | None = None) -> Iterator[Path]:
    """Give a temporary directory for a block; after a SIGKILL the next start removes it.

    Args:
        kind: a word of its name.
        inside: where it is made; among all temporary files otherwise.

    >>> with directory("example") as place:
    ...     place.is_dir()
    True
    """
    prefix = f"schedlab-{kind}-{mark()}-"
    made = tempfile.TemporaryDirectory(prefix=prefix, dir=inside)
    try:
        yield Path(made.name)
    finally:
        try:
            made.cleanup()
        except KeyboardInterrupt:
            # Large files take time to remove: a Ctrl-C then must not leave them.
            shutil.rmtree(made.name, ignore_errors=True)
            raise


@cache
def sweep() -> None:
    """End and remove what killed runs of this user have left; once a process.

    Processes of a run that is gone are asked to end, and killed if they do not. A control group
    or directory that cannot be removed stays.
    """
    _sweep_processes()
    _sweep_cgroups()
    _sweep_directories()


def _sweep_processes() -> None:
    began, asked = time.monotonic(), set[int]()
    while left := _orphans():
        guarded = any(_guards(pid) for pid in left)
        late = time.monotonic() - began > (_GUARDED if guarded else _PATIENCE)
        for pid in left:
            if late or pid not in asked:
                _send(pid, signal.SIGKILL if late else signal.SIGTERM)
        asked |= set(left)
        if time.monotonic() - began > _GUARDED + 10:
            return
        time.sleep(0.02)


def _guards(pid: int) -> bool:
    """Whether a process is a guard (``schedlab-native guard``)."""
    with suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        return words[0].endswith(b"schedlab-native") and words[1:2] == [b"guard"]
    return False


def _orphans() -> list[int]:
    """Return the processes that carry the mark of one that is gone."""
    found = []
    name = f"{VARIABLE}=".encode()
    for place in Path("/proc").glob("[0-9]*"):
        # Another user's processes do not show their environment, and none of them is ours.
        with suppress(OSError):
            words = (place / "environ").read_bytes().split(b"\0")
            marks = [word.removeprefix(name) for word in words if word.startswith(name)]
            if (
                marks
                and place.stat().st_uid == os.geteuid()
                and not owned(marks[-1].decode("ascii", errors="replace"))
            ):
                found.append(int(place.name))
    above = ancestors()
    return [pid for pid in found if pid not in above and _runs(pid)]


def ancestors() -> set[int]:
    """Return this process and those above it: a killed run's command may be what runs us.

    >>> os.getpid() in ancestors()
    True
    """
    found = {pid := os.getpid()}
    while pid > 1:
        fields = _stat(pid)
        pid = int(fields[1]) if fields else 0
        found.add(pid)
    return found


def _sweep_cgroups() -> None:
    for base in _cgroup_places():
        for top in base.glob("schedlab-*"):
            match = _CGROUP.fullmatch(top.name)
            if match is None or owned(match[1]):
                continue
            inner = sorted((one for one in top.rglob("*") if one.is_dir()), reverse=True)
            for group in [*inner, top]:
                _empty(group)
                with suppress(OSError):
                    group.rmdir()


def _cgroup_places() -> set[Path]:
    """Return the cgroups below which the native runner makes a run's own."""
    try:
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace")
        own = Path("/proc/self/cgroup").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return set()
    paths = {line.split(":", 2)[2].lstrip("/") for line in own.splitlines() if ":" in line}
    places = set()
    for line in mounts.splitlines():
        _, place, kind, options = line.split(" ")[:4]
        if kind == "cgroup2" or (kind == "cgroup" and "cpu" in options.split(",")):
            places |= {Path(place), *(Path(place, path) for path in paths)}
    return places


def _empty(group: Path) -> None:
    """Kill the processes left in a cgroup, and wait until it is empty."""
    deadline = time.monotonic() + 1
    while time.monotonic() < deadline:
        members: list[str] = []
        for file in ("cgroup.procs", "cgroup.threads", "tasks"):
            with suppress(OSError):
                members += (group / file).read_text(encoding="ascii").split()
        if not members:
            return
        for member in set(members):
            _send(int(member), signal.SIGKILL)
        time.sleep(0.01)


def _sweep_directories() -> None:
    for place in Path(tempfile.gettempdir()).glob("schedlab-*"):
        match = _DIRECTORY.fullmatch(place.name)
        # Another user may make directories of any name, and links.
        with suppress(OSError):
            if match and place.lstat().st_uid == os.geteuid() and not owned(match[1]):
                shutil.rmtree(place, ignore_errors=True)


def _stat(pid: int) -> list[str]:
    """Return the fields of ``/proc/PID/stat`` from the state on; none where there is no process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()


def _started(pid: int) -> int | None:
    """Return when a process started, in clock ticks since the boot; None if it has ended."""
    fields = _stat(pid)
    return int(fields[19]) if fields and fields[0] not in "ZX" else None


def started_at(pid: int) -> float | None:
    """Return when a process started, in seconds since 1970; None if it has ended.

    >>> 0 <= time.time() - started_at(os.getpid()) < 1e6
    True
    """
    ticks = _started(pid)
    if ticks is None:
        return None
    booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return booted + ticks / os.sysconf("SC_CLK_TCK")


def _runs(pid: int) -> bool:
    return _started(pid) is not None


def _namespace() -> int:
    try:
        return Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return 0


def _send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except OSError as error:
        if error.errno not in (errno.ESRCH, errno.EPERM):
            raise
