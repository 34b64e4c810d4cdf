"""Other programs, each with a guard that ends all that it started when it, or this process, ends.

The guard is ``schedlab-native guard``: a parent of the program's that adopts what the program
leaves behind, and lives on for as long as cleaning up takes if this process is killed.
"""

import errno
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from schedlab.boundary.errors import InputError, RunError
from schedlab.processes import capture, lease, leftovers
from schedlab.processes.disturbance import Disturbance, watching

_PACKAGED = Path(__file__).parents[1] / "bin" / "schedlab-native"

PATIENCE = 3.0
"""Seconds a program gets to end itself once it was asked to."""

_KILLING = 40.0
"""Seconds a guard gets to kill what did not end; more than it gives itself."""


def native_runner() -> Path | None:
    """Return the path of the native runner, None where it was not built.

    ``SCHEDLAB_NATIVE`` names another one.
    """
    path = Path(os.environ.get("SCHEDLAB_NATIVE", _PACKAGED))
    return path if os.access(path, os.X_OK) and path.is_file() else None


def runner() -> Path:
    """Return the path of the native runner.

    Raises:
        InputError: it was not built.
    """
    found = native_runner()
    if found is None:
        raise InputError(
            f"the native runner is not there ({os.environ.get('SCHEDLAB_NATIVE', _PACKAGED)}): "
            "build it with 'make native'"
        )
    return found


@dataclass(frozen=True, slots=True)
class Completed:
    """A program that came to its end.

    Attributes:
        code: its exit code, negative for the signal that killed it.
        output: what it wrote on standard output; of more than 4 MiB the end, and before it the
            lines that `schedlab.processes.capture.matching` asks for.
        errors: what it wrote on standard error, as of standard output.
        seconds: from its start to its end.
        user: CPU seconds in user mode, of it and of all it waited for.
        system: CPU seconds in the kernel.
        voluntary: switches because a task went to sleep.
        involuntary: switches because a task was preempted.
        disturbance: what others took of the CPU time meanwhile, where that was watched.
        notes: a sentence where that disturbed it.
    """

    code: int
    output: str
    errors: str
    seconds: float = 0.0
    user: float = 0.0
    system: float = 0.0
    voluntary: int = 0
    involuntary: int = 0
    disturbance: Disturbance | None = None
    notes: tuple[str, ...] = ()


def run(
    command: Sequence[str],
    *,
    text: str = "",
    timeout: float | None = None,
    prepare: Callable[[], None] | None = None,
    directory: Path | None = None,
    patience: float = PATIENCE,
) -> Completed:
    r"""Run a program to its end.

    It gets a separate process group, so that Ctrl-C reaches us alone. When this returns, however
    the wait ended, the program and all that it started have ended, daemons included.

    Args:
        command: the program and its arguments.
        text: its standard input.
        timeout: seconds until it is ended.
        prepare: what the child does before it becomes the program.
        directory: where it runs; here otherwise.
        patience: seconds it gets to end itself once its time is over.

    Raises:
        InputError: there is no such program, or the native runner is not there.
        RunError: it did not end in time, or no further process can be made.

    >>> run(["echo", "hello"]).output
    'hello\n'
    """
    pipes = (subprocess.PIPE, subprocess.PIPE, subprocess.PIPE)
    with Guarded.start(
        command, *pipes, prepare=prepare, directory=directory, patience=patience
    ) as guarded:
        try:
            output, errors = capture.communicate(guarded.process, text, timeout)
        except subprocess.TimeoutExpired:
            raise RunError(f"'{command[0]}' did not end within {timeout:g} s") from None
        return guarded.completed(output, errors)


def watched(
    command: Sequence[str],
    *,
    timeout: float | None = None,
    prepare: Callable[[], None] | None = None,
) -> Completed:
    """Run a program to its end, and watch what others take of the CPUs meanwhile. See `run`.

    >>> watched(["true"]).code
    0
    """
    with watching() as watch:
        done = run(command, timeout=timeout, prepare=prepare)
    return replace(done, disturbance=watch.found, notes=watch.notes)


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
        nothing = subprocess.DEVNULL
        with Guarded.start(
            command, nothing, nothing, said.fileno(), prepare=prepare, directory=directory
        ) as guarded:
            deadline = time.monotonic() + patience
            while not ready():
                ended = guarded.process.poll() is not None
                if ended or time.monotonic() > deadline:
                    said.seek(0)
                    words = " ".join(said.read().split())[-300:]
                    what = "ended" if ended else "is not ready in time"
                    raise RunError(f"'{command[0]}' {what}: {words or 'it said nothing'}")
                time.sleep(0.02)
            yield guarded.pid


class Guarded:
    """A program with its guard.

    Attributes:
        process: the guard, whose standard streams are the program's and which ends after it.
        pid: the program's process id.
    """

    def __init__(self, process: "subprocess.Popen[str]", pid: int, report: IO[bytes]) -> None:
        self.process = process
        self.pid = pid
        self._report = report

    @classmethod
    @contextmanager
    def start(
        cls,
        command: Sequence[str],
        stdin: int | None = None,
        stdout: int | None = None,
        stderr: int | None = None,
        *,
        prepare: Callable[[], None] | None = None,
        directory: Path | None = None,
        foreground: bool = False,
        patience: float = PATIENCE,
    ) -> "Iterator[Guarded]":
        """Start a program for the time of a block; after it nothing of the program is left.

        Args:
            command: the program and its arguments.
            stdin: as with `subprocess.Popen`, and so on.
            stdout: its standard output.
            stderr: its standard error.
            prepare: what the child does before it becomes the program.
            directory: where it runs; here otherwise.
            foreground: leave it in our process group.
            patience: seconds it gets to end itself once it was asked to.

        Raises:
            InputError: there is no such program, or the native runner is not there.
            RunError: no further process can be made.
        """
        leftovers.sweep()
        reading, writing = os.pipe()
        options = [f"--parent={os.getpid()}", f"--report={writing}"]
        options.append(f"--patience={round(patience * 1000)}ms")
        options += ["--foreground"] if foreground else []
        with os.fdopen(reading, "rb") as report:
            try:
                process = subprocess.Popen(
                    [str(runner()), "guard", *options, "--", *command],
                    stdin=stdin,
                    stdout=stdout,
                    stderr=stderr,
                    text=True,
                    errors="replace",
                    process_group=None if foreground else 0,
                    # What it does is a few system calls, and none of ours holds a lock meanwhile.
                    preexec_fn=prepare,  # noqa: PLW1509
                    cwd=directory,
                    env={**os.environ, leftovers.VARIABLE: leftovers.mark(), **lease.inherited()},
                    pass_fds=(writing,),
                )
            except OSError as error:
                raise _refusal(command[0], error.errno or errno.EIO) from None
            except subprocess.SubprocessError as error:
                raise RunError(f"cannot start '{command[0]}': {error}") from None
            finally:
                os.close(writing)
            try:
                said = json.loads(report.readline() or b"{}")
                if "started" not in said:
                    raise _refusal(command[0], said.get("refused", errno.EIO))
                yield cls(process, said["started"], report)
            finally:
                _end(process, patience + _KILLING)

    def completed(self, output: str = "", errors: str = "") -> Completed:
        """Return how the program ended, once its guard has ended.

        Raises:
            RunError: the guard was killed.
        """
        self.process.wait()
        line = self._report.readline()
        if not line:
            raise RunError("the guard of a program was killed, and the program with it")
        said: dict[str, Any] = json.loads(line)
        return Completed(
            code=said["code"],
            output=output,
            errors=errors,
            seconds=said["elapsed_ns"] / 1e9,
            user=said["user_ns"] / 1e9,
            system=said["system_ns"] / 1e9,
            voluntary=said["voluntary"],
            involuntary=said["involuntary"],
        )


def _refusal(name: str, number: int) -> InputError | RunError:
    if number == errno.EAGAIN:
        return RunError(
            f"cannot start '{name}': no further process can be made (ulimit -u, the cgroup's "
            "pids.max and kernel.pid_max set the limit)"
        )
    if number == errno.ENOMEM:
        return RunError(f"cannot start '{name}': {os.strerror(number)}")
    return InputError(f"cannot run '{name}': {os.strerror(number)}")


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
    with Guarded.start(command, foreground=True) as guarded:
        code = guarded.completed().code
    return code if code >= 0 else 128 - code


def _end(process: "subprocess.Popen[str]", patience: float) -> None:
    """Have a guard end its program, and collect it."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None and not stream.closed:
            # What the program did not read is lost.
            with suppress(BrokenPipeError):
                stream.close()
