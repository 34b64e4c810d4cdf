"""Files that are there whole or not at all."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from schedlab.errors import InputError, StorageError


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
