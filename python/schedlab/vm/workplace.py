"""The directory that a guest has of ours, and what killed processes left of theirs."""

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PREFIX = "schedlab-vm-"
_LOCK = "lock"


@contextmanager
def workplace() -> Iterator[Path]:
    """Give a directory for the time of a block; those whose process was killed go first.

    The lock on a file in it tells: the kernel drops it with its process, however that ended.

    >>> with workplace() as place:
    ...     place.is_dir()
    True
    """
    sweep()
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as name:
        descriptor = os.open(Path(name) / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield Path(name)
        finally:
            os.close(descriptor)


def sweep() -> None:
    """Remove the directories of processes that were killed."""
    for place in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        # One that goes at this moment is none of ours.
        with suppress(OSError):
            about = place.lstat()
            # Nor is another user's, or a link of another user's to a directory of ours.
            if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid():
                continue
            descriptor = os.open(place / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(place, ignore_errors=True)
            finally:
                os.close(descriptor)
