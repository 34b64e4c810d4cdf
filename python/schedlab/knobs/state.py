"""Where the journal of knobs is, and the lock that lets one run at a time set them."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from schedlab.errors import NotPermittedError, RunError
from schedlab.knobs import operations

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
        RunError: another process holds it, or there is no room for it.
        NotPermittedError: the directory may not be written.
    """
    with guarded("take the lock on knobs", NOTHING_DONE):
        operations.make_directory(directory())
        descriptor = operations.lock(_lock_file())
    if descriptor is None:
        raise RunError(
            f"another run has set knobs ({_holder()}): wait for its end, or end it; it puts them "
            "back itself"
        )
    try:
        yield
    finally:
        os.close(descriptor)


def _holder() -> str:
    try:
        pid = operations.read_text(_lock_file()).strip()
    except OSError:
        pid = ""
    if not pid.isdigit():
        return "its pid is not known"
    return f"pid {pid}" if int(pid) != os.getpid() else f"pid {pid}, this process"
