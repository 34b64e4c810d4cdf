"""Files: those that are given, bounded, and those that are written, whole or not at all."""

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from schedlab.boundary.errors import InputError, StorageError

SMALL = 1 << 20
"""Most bytes of a file that people write by hand, such as costs."""

LARGE = 64 << 20
"""Most bytes of a file that programs write, such as a workload or a summary."""

_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISCHR, "a character device"),
    (stat.S_ISBLK, "a block device"),
    (stat.S_ISSOCK, "a socket"),
)


def read_bytes(path: Path, what: str, most: int = LARGE) -> bytes:
    """Read a file that a person names: a regular file or a pipe, of so many bytes at most.

    Args:
        path: the file.
        what: what it should be, for the message: ``workload file``.
        most: bytes that are allowed. No more are read, whatever the file's size says.

    Raises:
        InputError: it cannot be opened, is of another kind, or is larger.
    """
    named = f"{what} '{path}'"
    try:
        # Opening a pipe waits for its writer; a device is refused before anything is read.
        mode = path.stat().st_mode
        _refuse_kind(mode, named)
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            _refuse_kind(status.st_mode, named)
            size = status.st_size if stat.S_ISREG(status.st_mode) else 0
            data = file.read(most + 1) if size <= most else b""
    except InputError:
        raise
    except ValueError as error:
        raise InputError(f"{named}: {error}") from None
    except OSError as error:
        raise InputError(f"{named}: {error.strerror}") from None
    if size > most or len(data) > most:
        found = f"{size:,} bytes" if size > most else f"more than {most:,} bytes"
        raise InputError(f"{named} has {found}; allowed: at most {most >> 20} MiB")
    return data


def read_text(path: Path, what: str, most: int = LARGE) -> str:
    """Read a text file that a person names, as `read_bytes`.

    Raises:
        InputError: as `read_bytes`; also if it is not UTF-8.
    """
    try:
        return read_bytes(path, what, most).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{what} '{path}' is not text: byte {error.start} is no UTF-8") from None


def _refuse_kind(mode: int, named: str) -> None:
    for is_kind, kind in _KINDS:
        if is_kind(mode):
            raise InputError(f"{named} is {kind}; allowed: a regular file or a pipe")


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Give the path of a temporary file beside ``path``, which takes its name if all goes well.

    Whatever goes wrong, an interrupt included, ``path`` is left as it was.

    Raises:
        InputError: the directory is missing or may not be written.
    """
    _refuse_odd_target(path)
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise InputError(f"cannot write '{path}': {error.strerror}") from None
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all.

    Raises:
        InputError: the directory is missing or may not be written.
        StorageError: the disk is full or broken.
    """
    with whole(path) as temporary:
        try:
            temporary.write_text(text, encoding="utf-8")
        except OSError as error:
            raise StorageError(f"cannot write '{path}': {error.strerror}") from None


def make_directory(path: Path) -> Path:
    """Make a directory and those above it, and return it.

    Raises:
        InputError: it cannot be made.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make the directory '{path}': {error.strerror}") from None
    return path


def _refuse_odd_target(path: Path) -> None:
    if path.is_dir():
        raise InputError(f"cannot write '{path}': it is a directory")
