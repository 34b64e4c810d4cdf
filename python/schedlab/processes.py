"""Other programs: started in a process group of their own, and gone when we go on."""

import os
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

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
    """

    code: int
    output: str
    errors: str


def run(command: Sequence[str], *, text: str = "", timeout: float | None = None) -> Completed:
    r"""Run a program to its end.

    It gets a process group of its own, so that Ctrl-C reaches us alone; whatever ends the wait,
    an interrupt included, the program has ended and is collected when this returns.

    Args:
        command: the program and its arguments.
        text: its standard input.
        timeout: seconds until it is ended.

    Raises:
        InputError: there is no such program.
        RunError: it did not end in time.

    >>> run(["echo", "hello"]).output
    'hello\n'
    """
    try:
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            process_group=0,
        )
    except OSError as error:
        raise InputError(f"cannot run '{command[0]}': {error.strerror}") from None
    try:
        output, errors = process.communicate(text, timeout=timeout)
    except subprocess.TimeoutExpired:
        raise RunError(f"'{command[0]}' did not end within {timeout:g} s") from None
    finally:
        _end(process)
    return Completed(process.returncode, output, errors)


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
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None and not stream.closed:
            stream.close()
