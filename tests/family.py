"""A process with its children, and which of them still run."""

from pathlib import Path


def state(pid: int) -> tuple[str, int] | None:
    """Return a process's state, as ``R`` or ``Z``, and its parent (proc(5)); None if it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return fields[0], int(fields[1])


def runs(pid: int) -> bool:
    """Whether a process has not ended; a zombie has, and waits for its parent only."""
    found = state(pid)
    return found is not None and found[0] not in "ZX"


def children(pid: int) -> set[int]:
    """Return a process's children, and theirs."""
    found: set[int] = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            seen = state(int(entry.name))
            if seen is not None and seen[1] == pid:
                found |= {int(entry.name)} | children(int(entry.name))
    return found
