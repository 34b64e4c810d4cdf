"""The one directory that a guest may write: files of ours for it, and files of its for us.

A guest may be hostile: its kernel is whatever was booted, and everything in it is root. So nothing
that it left there is opened through a link, none but regular files are read, and of these no more
than a bound. QEMU keeps modes, owners, links and devices of the guest's files as notes beside them
(its security model ``mapped-file``), so that only plain files and directories reach this machine;
what is here does not rely on it.
"""

import io
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO

from schedlab.boundary.errors import RunError

TEXT_MOST = 64 << 20
"""Bytes of a command's output that are read into memory."""

FILE_MOST = 16 << 30
"""Bytes of a file that is copied, such as a recording."""

_CHUNK = 1 << 20


class Exchange:
    """A directory here that a guest writes to.

    Args:
        place: the directory, which exists.
    """

    def __init__(self, place: Path) -> None:
        self.place = place

    def make(self, name: str) -> None:
        """Make a directory.

        Raises:
            OSError: there is something of this name already, or it cannot be made.
        """
        parent = self._directory(name)
        try:
            os.mkdir(name.rpartition("/")[2], 0o700, dir_fd=parent)
        finally:
            os.close(parent)

    def write(self, name: str, data: bytes) -> None:
        """Write a new file.

        Raises:
            OSError: there is something of this name already, or it cannot be written.
        """
        parent = self._directory(name)
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(name.rpartition("/")[2], flags, 0o600, dir_fd=parent)
        finally:
            os.close(parent)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)

    def open(self, name: str, most: int = FILE_MOST) -> IO[bytes]:
        """Open a file of the guest's for reading.

        Args:
            name: its path below the directory.
            most: bytes that it may have.

        Raises:
            FileNotFoundError: there is none.
            RunError: it is a link, a device or the like, or too large.
        """
        parent = None
        try:
            parent = self._directory(name)
            # A FIFO without a writer would otherwise be waited for.
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
            descriptor = os.open(name.rpartition("/")[2], flags, dir_fd=parent)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise RunError(
                f"the guest left '{name}', which cannot be read: {error.strerror}"
            ) from None
        finally:
            if parent is not None:
                os.close(parent)
        about = os.fstat(descriptor)
        wrong = ""
        if not stat.S_ISREG(about.st_mode):
            wrong = "is no regular file"
        elif about.st_size > most:
            wrong = f"has {about.st_size} bytes; at most {most} are taken"
        if wrong:
            os.close(descriptor)
            raise RunError(f"the guest left '{name}', which {wrong}")
        return os.fdopen(descriptor, "rb")

    def text(self, name: str, most: int = TEXT_MOST) -> str:
        """Return the text of a file of the guest's; empty where there is none.

        Raises:
            RunError: it is a link, a device or the like, or too large.
        """
        try:
            stream = self.open(name, most)
        except FileNotFoundError:
            return ""
        with stream:
            # It may grow meanwhile.
            return stream.read(most).decode("utf-8", errors="replace")

    def copy(self, name: str, write: Callable[[bytes], object], most: int = FILE_MOST) -> None:
        """Hand a file of the guest's on, piece by piece.

        Raises:
            FileNotFoundError: there is none.
            RunError: it is a link, a device or the like, or too large.
            OSError: the copy cannot be written.
        """
        with self.open(name, most) as stream:
            left = most
            while left > 0 and (data := stream.read(min(_CHUNK, left))):
                write(data)
                left -= len(data)

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        with suppress(OSError):
            parent = self._directory(name)
            try:
                os.unlink(name.rpartition("/")[2], dir_fd=parent)
            finally:
                os.close(parent)

    def _directory(self, name: str) -> int:
        """Open the directory of a name, step by step and through no link."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self.place, flags)
        for part in name.split("/")[:-1]:
            before = descriptor
            try:
                if part in ("", ".", ".."):
                    raise RunError(f"'{name}' is no path below a guest's directory")
                descriptor = os.open(part, flags, dir_fd=before)
            finally:
                os.close(before)
        return descriptor


def tail(file: Path, most: int = 1 << 20) -> str:
    """Return the end of a text file that a guest makes grow, such as its console.

    >>> tail(Path("/no/such/file"))
    ''
    """
    try:
        with file.open("rb") as stream:
            size = stream.seek(0, io.SEEK_END)
            stream.seek(max(0, size - most))
            return stream.read(most).decode("utf-8", errors="replace")
    except OSError:
        return ""
