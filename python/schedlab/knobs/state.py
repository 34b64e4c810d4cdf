"""Where the journal of knobs is, and the lock that lets one run at a time set them.

What is in the directory is believed and carried out, by root as a rule. So no other user may write
there, or open the lock: a file that can be opened can be locked.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from schedlab.boundary.errors import NotPermittedError, RunError
from schedlab.knobs import operations
from schedlab.processes.locks import lock_holder

VARIABLE = "SCHEDLAB_STATE_DIR"
"""The environment variable that names another directory."""

NOTHING_DONE = f"nothing was set ({VARIABLE} names another directory)"
"""What there is to say when neither knobs nor journal were touched."""

_REFUSALS = (errno.EACCES, errno.EPERM, errno.EROFS)


def directory() -> Path:
    """Return the directory of journal and lock: knobs are the machine's, and so is this.

    ``/run`` is emptied by a reboot, as the knobs are reset by it.
    """
    return Path(os.environ.get(VARIABLE) or "/run/schedlab")


def journal_file() -> Path:
    """Return where the journal of this boot is."""
    return directory() / "knobs.journal"


def _lock_file() -> Path:
    return directory() / "knobs.lock"


@contextmanager
def guarded(task: str, after: str) -> Iterator[None]:
    """Turn a refusal of the disk's into an error of one line.

    Args:
        task: what is tried.
        after: how things stand if it cannot be done.

    Raises:
        NotPermittedError: the directory may not be written.
        RunError: it cannot be, as on a full disk.
    """
    try:
        yield
    except OSError as error:
        line = f"cannot {task} in '{directory()}': {error.strerror or error}; {after}"
        kind = NotPermittedError if error.errno in _REFUSALS else RunError
        raise kind(line) from None


@contextmanager
def locked() -> Iterator[None]:
    """Hold the lock for a block: no other process sets or restores knobs meanwhile.

    Raises:
        RunError: another process holds it, there is no room for it, or others may write in the
            directory.
        NotPermittedError: the directory may not be written.
    """
    with guarded("take the lock on knobs", NOTHING_DONE):
        operations.make_directory(directory())
        check_directory()
        descriptor = operations.lock(_lock_file())
    if descriptor is None:
        raise RunError(_held())
    try:
        yield
    finally:
        os.close(descriptor)


def check_directory() -> None:
    """Check that only we and root can write into the directory.

    Raises:
        RunError: it is another user's or a link, or it or a directory above it may be written by
            others.
        OSError: it cannot be looked at.
    """
    place = directory().absolute()
    about = place.lstat()
    if stat.S_ISLNK(about.st_mode):
        raise RunError(f"the state directory '{place}' is a symbolic link; {NOTHING_DONE}")
    for number, one in enumerate((place, *place.parents)):
        about = one.stat()
        what = f"'{one}'" if number == 0 else f"'{one}', above '{place}',"
        if about.st_uid not in {0, os.geteuid()}:
            raise RunError(
                f"the state directory {what} belongs to user {about.st_uid}, not to "
                f"{os.geteuid()}; {NOTHING_DONE}"
            )
        # In a directory like /tmp, with the sticky bit, no user can replace another user's files.
        others = about.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if others and (number == 0 or not about.st_mode & stat.S_ISVTX):
            raise RunError(
                f"the state directory {what} may be written by others (mode "
                f"{stat.S_IMODE(about.st_mode):o}); {NOTHING_DONE}"
            )


def _held() -> str:
    """Say which process holds the lock, and whether it is one that has set knobs."""
    try:
        holder = lock_holder(_lock_file())
    except OSError:
        holder = None
    try:
        written = operations.read_text(_lock_file()).strip()
    except OSError:
        written = ""
    if holder is not None and written != str(holder):
        return (
            f"the lock on knobs, '{_lock_file()}', is held by pid {holder}{_name(holder)}, which "
            f"did not write its number there as a run does; {NOTHING_DONE}"
        )
    if holder is None:
        # Of another pid namespace, or on a file system whose numbers the list does not have.
        who = f"pid {written} by the lock file" if written.isdigit() else "its pid is not known"
    else:
        who = f"pid {holder}, this process" if holder == os.getpid() else f"pid {holder}"
    return (
        f"another run has set knobs ({who}): wait for its end, or end it; it puts them back itself"
    )


def _name(pid: int) -> str:
    try:
        name = operations.read_text(Path(f"/proc/{pid}/comm")).strip()
    except OSError:
        return ", which has ended; a child of it has the lock still"
    return f", '{''.join(letter if letter.isprintable() else '?' for letter in name)}'"
