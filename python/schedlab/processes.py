"""Other programs: started in a process group of their own, and gone when we go on."""

import os
import resource
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from schedlab.errors import InputError, RunError

_PATIENCE = 3.0
"""Seconds a program gets to end itself once it was asked to."""


@dataclass(frozen=True, slots=True)
class Completed:
    """A program that came to its end.

    Attributes:
        code: its exit code, negative for the signal that killed it.
        output: what it wrote on standard output.
        errors: what it wrote on standard error.
        seconds: from its start to its end.
        user: CPU seconds in user mode, of it and of all it waited for.
        system: CPU seconds in the kernel.
        voluntary: switches because a task went to sleep.
        involuntary: switches because a task was preempted.
    """

    code: int
    output: str
    errors: str
    seconds: float = 0.0
    user: float = 0.0
    system: float = 0.0
    voluntary: int = 0
    involuntary: int = 0


def run(
    command: Sequence[str],
    *,
    text: str = "",
    timeout: float | None = None,
    prepare: Callable[[], None] | None = None,
    directory: Path | None = None,
) -> Completed:
    r"""Run a program to its end.

    It gets a process group of its own, so that Ctrl-C reaches us alone; whatever ends the wait,
    an interrupt included, the program has ended and is collected when this returns.

    Args:
        command: the program and its arguments.
        text: its standard input.
        timeout: seconds until it is ended.
        prepare: what the child does before it becomes the program.
        directory: where it runs; here otherwise.

    Raises:
        InputError: there is no such program.
        RunError: it did not end in time.

    >>> run(["echo", "hello"]).output
    'hello\n'
    """
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    process = _start(command, subprocess.PIPE, subprocess.PIPE, subprocess.PIPE, prepare, directory)
    try:
        output, errors = process.communicate(text, timeout=timeout)
    except subprocess.TimeoutExpired:
        raise RunError(f"'{command[0]}' did not end within {timeout:g} s") from None
    finally:
        _end(process)
    ended, after = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    return Completed(
        code=process.returncode,
        output=output,
        errors=errors,
        seconds=ended - began,
        user=after.ru_utime - before.ru_utime,
        system=after.ru_stime - before.ru_stime,
        voluntary=after.ru_nvcsw - before.ru_nvcsw,
        involuntary=after.ru_nivcsw - before.ru_nivcsw,
    )


@contextmanager
def serving(
    command: Sequence[str],
    ready: Callable[[], bool],
    *,
    patience: float = 10.0,
    prepare: Callable[[], None] | None = None,
    directory: Path | None = None,
) -> Iterator[int]:
    """Run a server for the time of a block, and end it and all its processes after it.

    Args:
        command: the server, which stays in the foreground.
        ready: says whether it takes requests; asked until it does.
        patience: seconds until it has to be ready.
        prepare: what the child does before it becomes the server.
        directory: where it runs.

    Yields:
        Its process id.

    Raises:
        InputError: there is no such program.
        RunError: it ended, or was not ready in time; with what it said.
    """
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
        process = _start(
            command, subprocess.DEVNULL, subprocess.DEVNULL, said.fileno(), prepare, directory
        )
        try:
            deadline = time.monotonic() + patience
            while not ready():
                if process.poll() is not None or time.monotonic() > deadline:
                    said.seek(0)
                    words = " ".join(said.read().split())[-300:]
                    what = "ended" if process.poll() is not None else "is not ready in time"
                    raise RunError(f"'{command[0]}' {what}: {words or 'it said nothing'}")
                time.sleep(0.02)
            yield process.pid
        finally:
            _end(process)


def _start(  # noqa: PLR0917 - as Popen
    command: Sequence[str],
    stdin: int,
    stdout: int,
    stderr: int,
    prepare: Callable[[], None] | None,
    directory: Path | None,
) -> "subprocess.Popen[str]":
    try:
        return subprocess.Popen(
            list(command),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            text=True,
            errors="replace",
            process_group=0,
            # What it does is a few system calls, and none of ours holds a lock meanwhile.
            preexec_fn=prepare,  # noqa: PLW1509
            cwd=directory,
        )
    except OSError as error:
        raise InputError(f"cannot run '{command[0]}': {error.strerror}") from None
    except subprocess.SubprocessError as error:
        raise RunError(f"cannot start '{command[0]}': {error}") from None


def attend(command: Sequence[str]) -> int:
    """Run a program on our own terminal to its end, and return its exit code.

    It stays in our process group, so that Ctrl-C reaches it too; what else ends the wait ends it.

    Returns:
        As a shell's ``$?``: 128 and its number where a signal killed it.

    Raises:
        InputError: there is no such program.

    >>> attend(["sh", "-c", "exit 3"])
    3
    """
    try:
        process = subprocess.Popen(list(command))
    except OSError as error:
        raise InputError(f"cannot run '{command[0]}': {error.strerror}") from None
    try:
        code = process.wait()
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    return code if code >= 0 else 128 - code


def _end(process: "subprocess.Popen[str]") -> None:
    """End a program, first by asking, then with its whole group, and collect it."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    # What it left in its group, such as a server's workers, is not to outlive it.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
        _wait_for_group(process.pid)
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None and not stream.closed:
            stream.close()


def _wait_for_group(group: int) -> None:
    """Wait until no process of a killed group runs: each dies only when it next gets a CPU."""
    deadline = time.monotonic() + _PATIENCE
    while _runs(group) and time.monotonic() < deadline:
        time.sleep(0.001)


def _runs(group: int) -> bool:
    """Whether a process of a group is neither gone nor a zombie, which another has to collect.

    Raises:
        ProcessLookupError: the group is gone.
    """
    os.killpg(group, 0)
    for stat in Path("/proc").glob("[0-9]*/stat"):
        # A process may end while it is looked at.
        with suppress(OSError):
            # proc(5): after the name in parentheses state, parent and process group.
            state, _, member = stat.read_text(errors="replace").rpartition(")")[2].split()[:3]
            if int(member) == group and state not in "ZX":
                return True
    return False
