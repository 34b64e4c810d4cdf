"""What a guest sees of this machine, read-only: programs, Python, and the directory we are in.

Not home directories, ``/etc/shadow``, ``/var`` or ``/proc``: a guest's kernel is not trusted. Of
``/etc`` it gets copies of the few files that programs need to start.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from schedlab.boundary.errors import InputError

VARIABLE = "SCHEDLAB_GUEST_DIRECTORIES"
"""The environment variable with further directories for guests, a colon between two."""

_PROGRAMS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/libx32", "/lib64")

_FILES = (
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "alternatives",
    "nsswitch.conf",
    "hosts",
    "host.conf",
    "protocols",
    "services",
    "mime.types",
    "mke2fs.conf",
    "localtime",
    "os-release",
    "debian_version",
)
"""Files and directories of ``/etc``: of the loader, and of what looks names up."""

_MOST = 1 << 20
"""Bytes of such a file."""

_INSTALLED = ("site-packages", "dist-packages")

_FIRST_USER = 1000
_NOBODY = 65534


def directories() -> list[Path]:
    """Return the directories of this machine that a guest gets, none below another.

    Raises:
        InputError: the environment names one that is no directory.
    """
    package = Path(__file__).parents[1]
    # What it needs lies beside it, also where that is not below Python's own prefix.
    if package.parent.name in _INSTALLED:
        package = package.parent
    wanted = [Path(name) for name in _PROGRAMS if not Path(name).is_symlink()]
    wanted += [Path(sys.prefix), Path(sys.base_prefix), package]
    here = working_directory()
    if here is not None and not _holds_homes(here):
        wanted.append(here)
    for name in filter(None, os.environ.get(VARIABLE, "").split(":")):
        if not Path(name).is_dir():
            raise InputError(f"{VARIABLE} names '{name}', which is no directory")
        wanted.append(Path(name).absolute())
    found = sorted({one for one in wanted if one.is_dir() and one != Path("/")})
    # A line of the guest's list is a directory.
    found = [one for one in found if str(one).isprintable()]
    return [
        one
        for one in found
        if not any(one != other and one.is_relative_to(other) for other in found)
    ]


def links() -> list[tuple[str, str]]:
    """Return the links at the root that the guest gets, such as ``bin`` and its ``usr/bin``."""
    return [
        (name.lstrip("/"), str(Path(name).readlink()))
        for name in _PROGRAMS
        if Path(name).is_symlink()
    ]


def working_directory() -> Path | None:
    """Return the directory we are in; None where it is gone."""
    try:
        return Path.cwd()
    except OSError:
        return None


def settings() -> list[tuple[str, bytes, int]]:
    """Return the files of ``/etc`` that a guest gets: path, content and mode.

    A link has its target as content. Of users and groups it gets the system's alone.
    """
    etc = Path("/etc")
    found: dict[str, tuple[bytes, int]] = {}
    for name in _FILES:
        for file in _files(etc / name):
            where = str(file.relative_to("/"))
            if file.is_symlink():
                found[where] = (os.fsencode(file.readlink()), 0o120777)
            elif file.is_dir():
                found[where] = (b"", 0o040755)
            elif file.is_file() and file.stat().st_size <= _MOST:
                found[where] = (file.read_bytes(), 0o100644)
    for name in ("passwd", "group"):
        found[f"etc/{name}"] = (_of_the_system(etc / name), 0o100644)
    return [("etc", b"", 0o040755), *((name, *rest) for name, rest in sorted(found.items()))]


def _files(path: Path) -> Iterator[Path]:
    """Yield a file, or a directory with what is directly in it."""
    if path.is_dir() and not path.is_symlink():
        yield path
        # Manual pages have alternatives too, by the hundred.
        yield from sorted(one for one in path.iterdir() if one.suffix != ".gz")
    elif path.is_symlink() or path.exists():
        yield path


def _of_the_system(file: Path) -> bytes:
    """Return the lines of ``passwd`` or ``group`` of numbers below a person's first."""
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    kept = []
    for line in lines:
        fields = line.split(":")
        if len(fields) > 3 and fields[2].isdecimal():
            number = int(fields[2])
            if number < _FIRST_USER or number == _NOBODY:
                kept.append(":".join([fields[0], "x", *fields[2:]]))
    return "".join(f"{line}\n" for line in kept).encode()


def _holds_homes(directory: Path) -> bool:
    """Whether a directory is a home, or has one below it."""
    homes = {Path("/root"), Path("/home"), Path.home(), Path("/etc"), Path("/var")}
    return any(home.is_relative_to(directory) for home in homes) or directory.parent == Path(
        "/home"
    )
