"""What a program prints, kept to a bound: its last part, and before that the lines that matter."""

import os
import re
import selectors
import subprocess
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

TAIL = 4 << 20
"""Most bytes of the end of a command's output that are kept."""

WHOLE = 256 << 20
"""Most bytes that are kept of a program of ours, such as the runner's outcome of many tasks."""

MATCHES = 1000
"""Most lines before that which are kept because they match."""

LONGEST_LINE = 64 << 10
"""Characters that are kept of such a line."""

_PIECE = 1 << 16

_matching: ContextVar[str | None] = ContextVar("_matching", default=None)


@contextmanager
def matching(pattern: str | None) -> Iterator[None]:
    """Keep, of what a command prints in the block, its end and before that lines that match.

    Args:
        pattern: a regular expression; empty for none; None for a program of ours, which is kept
            whole.
    """
    token = _matching.set(pattern)
    try:
        yield
    finally:
        _matching.reset(token)


def pattern() -> str | None:
    """Return what the block was given; None outside of any."""
    return _matching.get()


class Tail:
    r"""The last part of a text that comes in pieces, and lines before it that match.

    Args:
        most: bytes that are kept of its end; at least half of them, by whole lines.
        wanted: which lines before those are kept.

    >>> tail = Tail(20, re.compile("(?m)^rate"))
    >>> for number in range(100):
    ...     tail.add(b"rate 7\n" if number == 3 else b"noise\n")
    >>> tail.text()
    'rate 7\n[... 589 bytes of output are not kept ...]\nnoise\nnoise\n'
    """

    def __init__(self, most: int = TAIL, wanted: "re.Pattern[str] | None" = None) -> None:
        self._most = most
        self._wanted = wanted
        self._kept = bytearray()
        self._matches: deque[str] = deque(maxlen=MATCHES)
        self._dropped = 0

    def add(self, piece: bytes) -> None:
        """Take the next piece."""
        self._kept += piece
        if len(self._kept) <= self._most:
            return
        cut = len(self._kept) - self._most // 2
        end = self._kept.rfind(b"\n", 0, cut) + 1 or cut
        gone = bytes(self._kept[:end])
        del self._kept[:end]
        self._dropped += len(gone)
        if self._wanted is not None:
            text = _text(gone)
            for match in self._wanted.finditer(text):
                start = text.rfind("\n", 0, match.start()) + 1
                line = text[start : text.find("\n", match.end()) % (len(text) + 1)]
                self._matches.append(line[:LONGEST_LINE])

    def text(self) -> str:
        """Return what is kept: matching lines, how much is missing, and the end."""
        if not self._dropped:
            return _text(bytes(self._kept))
        gap = f"[... {self._dropped} bytes of output are not kept ...]"
        return "\n".join([*self._matches, gap, _text(bytes(self._kept))])


def _text(data: bytes) -> str:
    # As a text stream reads line ends.
    return data.decode("utf-8", errors="replace").replace("\r\n", "\n").replace("\r", "\n")


def communicate(
    process: "subprocess.Popen[str]", text: str, timeout: float | None
) -> tuple[str, str]:
    """Give a program its input and return what it printed, kept to a bound.

    Its streams are pipes. In a block of `matching` `TAIL` bytes and matching lines are kept, else
    `WHOLE`. As `subprocess.Popen.communicate`, which keeps all of it.

    Raises:
        subprocess.TimeoutExpired: it did not end in time.
    """
    end = None if timeout is None else time.monotonic() + timeout
    wanted = pattern()
    compiled = re.compile(wanted, re.MULTILINE) if wanted else None
    most = WHOLE if wanted is None else TAIL
    left = memoryview(text.encode())
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    streams = {one.fileno(): one for one in (process.stdin, process.stdout, process.stderr)}
    outputs = process.stdout.fileno(), process.stderr.fileno()
    tails = {number: Tail(most, compiled) for number in outputs}
    with selectors.DefaultSelector() as selector:
        for number in outputs:
            selector.register(number, selectors.EVENT_READ)
        if left:
            os.set_blocking(process.stdin.fileno(), False)
            selector.register(process.stdin.fileno(), selectors.EVENT_WRITE)
        else:
            process.stdin.close()
        while selector.get_map():
            ready = selector.select(None if end is None else max(0.0, end - time.monotonic()))
            if end is not None and time.monotonic() >= end:
                raise subprocess.TimeoutExpired(process.args, timeout or 0.0)
            for key, _ in ready:
                if key.fd not in tails:
                    left = _write(process, left)
                    done = not left
                else:
                    piece = os.read(key.fd, _PIECE)
                    done = not piece
                    tails[key.fd].add(piece)
                if done:
                    selector.unregister(key.fileobj)
                    streams[key.fd].close()
    process.wait(None if end is None else max(0.0, end - time.monotonic()))
    output, errors = tails.values()
    return output.text(), errors.text()


def _write(process: "subprocess.Popen[str]", left: memoryview) -> memoryview:
    """Write a part of the input, and return the rest: none once the reader is gone."""
    assert process.stdin is not None
    try:
        return left[os.write(process.stdin.fileno(), left[:_PIECE]) :]
    except BlockingIOError:
        return left
    except BrokenPipeError:
        return left[:0]
