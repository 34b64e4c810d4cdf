"""Thread-fair weights inside a kernel: the loader of the sched_ext scheduler.

A policy ``ext:pfs`` puts the scheduler of ``crates/ext`` in the place of the kernel's fair class
for the time of a run. The loader is a separate program; in a guest it is the same file.
"""

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from schedlab.boundary.errors import InputError, NotPermittedError, RunError
from schedlab.model import Attributes
from schedlab.processes import processes

_PACKAGED = Path(__file__).parent.parent / "bin" / "schedlab-ext"

_PATIENCE = 60.0
"""Seconds that loading may take where instructions are translated."""

PREFIX = "schedlab-ext: "
"""What the loader's own lines begin with."""


@dataclass(frozen=True, slots=True)
class Status:
    """What schedules on a kernel, and whether ours could.

    Attributes:
        release: what ``uname -r`` prints.
        possible: whether the scheduler can be loaded.
        why: why not, and what would help.
        state: ``enabled`` or ``disabled``; None without sched_ext.
        scheduler: the sched_ext scheduler that runs.
        loaded_since_boot: how often one was loaded.
    """

    release: str
    possible: bool
    why: str | None
    state: str | None
    scheduler: str | None
    loaded_since_boot: int | None

    @classmethod
    def from_json(cls, text: str) -> "Status":
        """Return what the loader printed.

        Raises:
            RunError: it is something else.
        """
        try:
            return cls(**json.loads(text))
        except (ValueError, TypeError, RecursionError):
            raise RunError("the loader of the sched_ext scheduler did not say its status") from None


def built() -> Path | None:
    """Return the path of the loader, None where it was not built.

    ``SCHEDLAB_EXT`` names another one.
    """
    path = Path(os.environ.get("SCHEDLAB_EXT", _PACKAGED))
    return path if os.access(path, os.X_OK) and path.is_file() else None


def loader() -> Path:
    """Return the path of the loader.

    Raises:
        InputError: it was not built.
    """
    found = built()
    if found is None:
        raise InputError(
            "the sched_ext scheduler's loader is not there "
            f"({os.environ.get('SCHEDLAB_EXT', _PACKAGED)}): build it with 'make ext', which needs "
            "libelf-dev, zlib1g-dev and pkg-config"
        )
    return found


def status() -> Status:
    """Ask the running kernel."""
    return Status.from_json(processes.run([str(loader()), "status", "--json"]).output)


def wrapped(command: Sequence[str], attributes: Attributes | None) -> list[str]:
    """Return the command that runs another under the scheduler that its attributes name.

    >>> wrapped(["true"], Attributes("batch"))
    ['true']
    """
    if attributes is None or attributes.ext is None:
        return list(command)
    return [*_quietly(attributes.ext), "--", *command]


@contextmanager
def scheduling(attributes: Attributes | None) -> Iterator[None]:
    """Have the scheduler that the attributes name schedule here for the time of a block.

    Raises:
        InputError: this kernel has no sched_ext or no BTF, or does not take the scheduler.
        NotPermittedError: this user may not load one.
        RunError: the kernel took scheduling back meanwhile; what was measured is worth nothing.
    """
    if attributes is None or attributes.ext is None:
        yield
        return
    pipes = (subprocess.DEVNULL, subprocess.PIPE, subprocess.PIPE)
    with processes.Guarded.start(
        [*_quietly(attributes.ext), "--ready"], *pipes, patience=_PATIENCE
    ) as guarded:
        process = guarded.process
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            errors = process.communicate(timeout=_PATIENCE)[1]
            raise failure(errors, guarded.completed().code)
        yield
        if process.poll() is not None:
            raise failure(process.communicate()[1], guarded.completed().code)


def failure(errors: str, code: int) -> InputError | NotPermittedError | RunError:
    """Return the error that the loader's last line tells."""
    lines = [line for line in errors.splitlines() if line.startswith(PREFIX)]
    said = lines[-1].removeprefix(PREFIX) if lines else f"the loader ended with code {code}"
    if code != 2:
        return RunError(said)
    return NotPermittedError(said) if "root" in said else InputError(said)


def _quietly(weights: str) -> list[str]:
    return [str(loader()), "run", "--weights", weights, "--quiet"]
