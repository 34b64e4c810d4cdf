"""The operations on files that setting knobs consists of, one function each.

Every one tells `before` what it is about to do. Between two of them a crash may come, so this is
the list of states in which the next start may find the machine; tests stop at each.
"""

import errno
import fcntl
import os
from collections.abc import Callable
from pathlib import Path


def _nothing(operation: str) -> None:
    del operation


before: Callable[[str], None] = _nothing
"""Called with the name of each operation before it is done."""


def make_directory(path: Path) -> None:
    """Make a directory that all users may read, and those above it."""
    if path.is_dir():
        return
    before(f"make {path.name}")
    path.mkdir(mode=0o755, parents=True, exist_ok=True)
    _sync_directory(path.parent)


def lock(path: Path) -> int | None:
    """Open a lock file and lock it; None where another process holds it.

    Returns:
        The descriptor; the lock ends with it, at the latest with this process.
    """
    before("lock")
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    # A file that can be opened, even for reading, can be locked.
    descriptor = os.open(path, flags, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return None
        raise
    try:
        before("write the lock's pid")
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    except OSError:
        pass  # a full disk: the lock holds all the same, only its holder's number is not told
    return descriptor


def replace_file(path: Path, text: str) -> None:
    """Write a file that is there whole or not at all, whatever stops us, a power cut included."""
    new = unfinished(path)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        before("open the new journal")
        descriptor = os.open(new, flags, 0o644)
        try:
            before("write the new journal")
            _write_all(descriptor, text.encode())
            before("sync the new journal")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        before("rename the new journal")
        new.replace(path)
    except OSError:
        new.unlink(missing_ok=True)
        raise
    _sync_directory(path.parent)


def unfinished(path: Path) -> Path:
    """Return the name under which `replace_file` writes before the file is whole."""
    return path.with_name(f"{path.name}.new")


def rename(path: Path, target: Path) -> None:
    """Give a file another name."""
    before("rename the journal")
    path.rename(target)
    _sync_directory(path.parent)


def remove(path: Path) -> None:
    """Remove a file."""
    before("remove the journal")
    path.unlink()
    _sync_directory(path.parent)


def read_text(path: Path) -> str:
    """Read a small file."""
    return path.read_text(encoding="utf-8", errors="replace")


def write_setting(path: Path, text: str) -> None:
    """Write a value to one of the kernel's files, in one call; never makes a file."""
    before(f"write {text} to {path.name}")
    descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _sync_directory(path: Path) -> None:
    before("sync the directory")
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
