"""The lease of this machine: real runs of one schedlab command at a time, of any user.

What runs beside a measurement changes it. So a real run holds a lock that all users of the machine
share, and the runs of a block hold it together; another schedlab command waits meanwhile, and the
two alternate block by block. The kernel releases the lock with the process that holds it, also
after a SIGKILL.

The files are empty and only ever opened for reading, which is all that ``flock`` needs: no user can
write to them, and the holder is known from the kernel's list of locks.
"""

import errno
import fcntl
import logging
import os
import shlex
import stat
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from schedlab.processes import leftovers
from schedlab.processes.locks import lock_holder

VARIABLE = "SCHEDLAB_LEASE"
"""The environment variable that names another file for the lease."""

HELD = "SCHEDLAB_LEASE_HELD"
"""The environment variable by which a program that runs under the lease knows of it: the mark
(`schedlab.processes.leftovers.mark`) of the process that holds it."""

_NAME = "schedlab-real-runs.lock"

_SHARED = ("/run/lock", "/var/lock", "/tmp")  # noqa: S108 - every user's, and opened with care
"""Directories in which every user may make files; the first that is one."""

_LONGEST = 120
"""Characters of a command that are told."""

_log = logging.getLogger(__name__)


def place() -> Path:
    """Return the file that is locked: the same for every user of the machine."""
    if named := os.environ.get(VARIABLE):
        return Path(named)
    for name in _SHARED:
        with suppress(OSError):
            mode = Path(name).stat().st_mode
            # Sticky: no user can replace another user's files.
            if stat.S_ISDIR(mode) and mode & stat.S_IWOTH and mode & stat.S_ISVTX:
                return Path(name, _NAME)
    return Path(tempfile.gettempdir(), _NAME)


@contextmanager
def exclusive() -> Iterator[None]:
    """Hold the machine for a block: real runs of other schedlab commands wait for its end.

    Waits itself where another command holds it, and says so in a line of the log. A command within
    one that holds the lease runs under that. Where no lease can be had, as with a file of another
    kind in its place, a warning says so and the block runs without.

    >>> with exclusive():
    ...     held()
    True
    """
    _lease.enter(take=True)
    try:
        yield
    finally:
        _lease.leave()


@contextmanager
def kept() -> Iterator[None]:
    """Keep the lease, once a run in this block has taken it, to the end of the block."""
    _lease.enter(take=False)
    try:
        yield
    finally:
        _lease.leave()


def held() -> bool:
    """Whether this process holds the lease."""
    return _lease.descriptor is not None


def inherited() -> dict[str, str]:
    """Return the variables that tell a program of ours that it runs under our lease."""
    mark = _lease.mark if held() else _lease.above
    return {HELD: mark} if mark else {}


class _Lease:
    """The lease as this process has it; its threads have it together.

    Attributes:
        descriptor: of the locked file; None where this process does not hold it.
        mark: of this process, once it has held the lease.
        above: the mark of the process that held it when it forked this one; empty for none.
    """

    def __init__(self, above: str = "") -> None:
        self.descriptor: int | None = None
        self.mark = ""
        self.above = above
        self._depth = 0
        self._lock = threading.RLock()
        self._told: set[object] = set()

    def enter(self, *, take: bool) -> None:
        with self._lock:
            if take and self.descriptor is None and not self._within():
                self.descriptor = self._take()
                self.mark = leftovers.mark()
            self._depth += 1

    def leave(self) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth <= 0 and self.descriptor is not None:
                os.close(self.descriptor)
                self.descriptor = None

    def _within(self) -> bool:
        """Whether this process runs under the lease of one above it."""
        mark = self.above or os.environ.get(HELD, "")
        return bool(mark) and leftovers.owned(mark)

    def _take(self) -> int | None:
        path = place()
        try:
            # Those that wait stand in line: one that comes back at once does not pass them.
            queue = self._locked(path.with_name(f"{path.name}.queue"), path)
            try:
                return self._locked(path, path)
            finally:
                if queue is not None:
                    os.close(queue)
        except OSError as error:
            if str(error) not in self._told:
                self._told.add(str(error))
                _log.warning(
                    "real runs are not kept apart from those of other schedlab commands: '%s': %s "
                    "(%s names another file)",
                    path,
                    error.strerror or error,
                    VARIABLE,
                )
            return None

    def _locked(self, path: Path, lease: Path) -> int | None:
        """Lock a file, waiting for its holder; None where that is a process above this one."""
        while True:
            descriptor = _opened(path)
            try:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    if _holder(lease) in leftovers.ancestors():
                        os.close(descriptor)
                        return None
                    self._tell(_holder(lease) or _holder(path))
                    fcntl.flock(descriptor, fcntl.LOCK_EX)
                # It may have been removed, and another one made, while this one was waited for.
                with suppress(FileNotFoundError):
                    if os.path.samestat(os.fstat(descriptor), path.stat(follow_symlinks=False)):
                        return descriptor
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)

    def _tell(self, pid: int | None) -> None:
        if pid in self._told or (pid is None and self._told):
            return  # they alternate: once is enough
        self._told.add(pid)
        _log.warning(
            "waiting for the real runs of another schedlab command on this machine: %s; both go on "
            "in turn, block by block; Ctrl-C stops waiting",
            _described(pid),
        )


def _opened(path: Path) -> int:
    """Open a file that every user may lock, making it where there is none.

    Raises:
        OSError: it cannot be made or opened, or is a link or no regular file.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
    for attempt in range(5):
        try:
            descriptor = os.open(path, flags)
        except FileNotFoundError:
            # Not O_CREAT alone: a kernel with fs.protected_regular refuses that for another user's.
            with suppress(FileExistsError):
                made = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o444)
                os.fchmod(made, 0o444)  # whatever the umask
                os.close(made)
            continue
        except PermissionError:
            if attempt == 4:
                raise
            time.sleep(0.01)  # between another user's two steps
            continue
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.EINVAL, "no regular file")
        return descriptor
    raise OSError(errno.EAGAIN, "it is removed again and again")


def _holder(path: Path) -> int | None:
    """Return the process that locked a file, by the kernel's list; None where it does not tell."""
    with suppress(OSError):
        return lock_holder(path)
    return None


def _described(pid: int | None) -> str:
    """Return process, command and start of the holder, as far as this user may know."""
    if pid is None:
        return "its pid is not known here"
    words: list[str] = []
    with suppress(OSError):
        text = Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8", errors="replace")
        words = [word for word in text.split("\0") if word]
    if len(words) > 1 and Path(words[0]).name.startswith("python") and words[1][0] != "-":
        words = [Path(words[1]).name, *words[2:]]  # a script, by the name that its user typed
    line = "".join(letter if letter.isprintable() else "?" for letter in shlex.join(words))
    command = f", {line[:_LONGEST]}" if line else ""
    began = leftovers.started_at(pid)
    if began is None:
        return f"pid {pid}{command}"
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(began))
    return f"pid {pid}{command}, since {since}"


_lease = _Lease()


def _forked() -> None:
    """Begin anew in a child, which runs under its parent's lease if that has one."""
    global _lease  # noqa: PLW0603 - the state of a process
    above = _lease.above
    if _lease.descriptor is not None:
        above = _lease.mark
        os.close(_lease.descriptor)  # the parent's own descriptor still holds it
    _lease = _Lease(above)


os.register_at_fork(after_in_child=_forked)
