"""Which process holds a lock on a file."""

import os
from pathlib import Path


def lock_holder(file: Path) -> int | None:
    """Return the process that locked a file (``flock``), by the kernel's list of locks (proc(5)).

    None where it is not told, as for a process of another pid namespace.

    Raises:
        OSError: the file is not there, or the list cannot be read.

    >>> import fcntl, tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     fcntl.flock(file, fcntl.LOCK_EX)
    ...     lock_holder(Path(file.name)) in (os.getpid(), None)
    True
    """
    about = file.stat()
    text = Path("/proc/locks").read_text(encoding="utf-8", errors="replace")
    wanted = f"{os.major(about.st_dev):02x}:{os.minor(about.st_dev):02x}:{about.st_ino}"
    for line in text.splitlines():
        # "1: FLOCK  ADVISORY  WRITE 4711 00:18:42 0 EOF"; "->" stands before one that waits.
        words = line.split()
        if words[1:2] == ["FLOCK"] and words[5:6] == [wanted] and words[4].isdigit():
            return int(words[4]) or None
    return None
