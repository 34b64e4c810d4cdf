"""The line between a guest and us, and the process behind it."""

import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO

from schedlab.boundary.errors import InputError

_LINE_MOST = 1 << 16
"""Bytes of a line, and of QEMU's complaints, that are kept."""


class Control:
    """A running QEMU whose standard streams are the guest's second serial line."""

    def __init__(self, process: "subprocess.Popen[bytes]", errors: IO[bytes]) -> None:
        self._process = process
        self._errors = errors
        self._pending = b""
        self.ended = False

    @classmethod
    @contextmanager
    def start(cls, command: Sequence[str]) -> "Iterator[Control]":
        """Start QEMU for the time of a block; it is gone after that on every way out.

        Raises:
            InputError: a program is missing.
        """
        with tempfile.TemporaryFile() as errors:
            try:
                process = subprocess.Popen(
                    list(command),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    bufsize=0,
                    process_group=0,
                )
            except OSError as error:
                raise InputError(f"cannot run '{command[0]}': {error.strerror}") from None
            control = cls(process, errors)
            try:
                yield control
            finally:
                control.end()

    def send(self, text: str) -> None:
        """Write to the guest; that it is gone shows when its answer is awaited."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            if not self._process.stdin.closed:
                self._process.stdin.write(text.encode("ascii"))

    def line(self, deadline: float) -> str | None:
        """Return the guest's next line; None at the deadline or once QEMU has ended."""
        assert self._process.stdout is not None
        while b"\n" not in self._pending:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._process.stdout], [], [], left)[0]:
                return None
            data = os.read(self._process.stdout.fileno(), 4096)
            if not data:
                self.ended = True
                return None
            # A guest that never ends its line is no reason to keep all of it.
            self._pending = (self._pending + data)[-_LINE_MOST:]
        line, _, self._pending = self._pending.partition(b"\n")
        return line.decode("ascii", errors="replace").strip("\r\0 ")

    @property
    def running(self) -> bool:
        """Whether QEMU runs."""
        return self._process.poll() is None

    @property
    def complaint(self) -> str:
        """The first line that QEMU itself complained with; empty if it did not."""
        self._errors.seek(0)
        lines = self._errors.read(_LINE_MOST).decode("utf-8", errors="replace").splitlines()
        said = [line for line in lines if line.startswith(("qemu", "setpriv"))]
        return said[0] if said and "terminating on signal" not in said[0] else ""

    def end(self) -> None:
        """End QEMU and collect it."""
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None and not stream.closed:
                with suppress(OSError):
                    stream.close()


def answers(command: Sequence[str], word: str, timeout: float) -> bool:
    """Run QEMU until its guest says a word; False if it does not within the time."""
    deadline = time.monotonic() + timeout
    with Control.start(command) as control:
        while (line := control.line(deadline)) is not None:
            if word in line:
                return True
    return False
