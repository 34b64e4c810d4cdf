"""The text of ``perf.data`` and ``trace.dat``, printed by the programs that wrote them."""

import resource
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from schedlab.boundary.errors import InputError
from schedlab.processes import processes

MOST_TEXT = 1 << 30
"""Most bytes of text that are printed of a recording, as many as a recording may have."""

TIMEOUT = 300.0
"""Seconds that printing may take."""


@dataclass(frozen=True, slots=True)
class _Form:
    """A form of file by its first bytes, and the command that prints it."""

    magic: bytes
    name: str
    package: str
    command: tuple[str, ...]
    kernel: tuple[str, ...] = ()
    """The command that prints `uname` of the recorded kernel, where the text does not have it."""


_FORMS = (
    _Form(
        b"PERFILE2",
        "a recording of perf",
        "linux-perf",
        (
            *("perf", "script", "--ns", "--header", "--show-lost-events"),
            *("-F", "comm,tid,cpu,time,event,trace", "-i"),
        ),
    ),
    _Form(
        b"\x17\x08\x44tracing",
        "a recording of trace-cmd",
        "trace-cmd",
        ("trace-cmd", "report", "-t", "-l", "-i"),
        ("trace-cmd", "report", "--uname", "-i"),
    ),
)


@contextmanager
def readable(trace: Path) -> Iterator[Path]:
    """Give the path of a recording that the core reads: the same, or of its text for so long.

    Args:
        trace: a recording. ``perf.data`` is printed by ``perf script``, ``trace.dat`` by
            ``trace-cmd report``; others are left as they are.

    Raises:
        InputError: the program is not installed, or does not print the file.
    """
    form = _form(trace)
    if form is None:
        yield trace
        return
    program = shutil.which(form.command[0])
    if program is None:
        raise InputError(
            f"{trace}: {form.name}, which {form.command[0]} prints: install it (Debian's "
            f"{form.package}), or give the text of '{' '.join(form.command)} FILE'"
        )
    with tempfile.TemporaryDirectory(prefix="schedlab-") as directory:
        text = Path(directory) / "trace.txt"
        text.write_text(_head(form, program, trace), encoding="utf-8")
        script = 'file=$1; shift; exec "$@" >> "$file"'
        printed = ["sh", "-c", script, "sh", str(text), program, *form.command[1:]]
        done = processes.run(
            [*printed, str(trace.absolute())],
            timeout=TIMEOUT,
            prepare=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_TEXT, MOST_TEXT)),
        )
        if done.code != 0:
            said = [line for line in done.errors.splitlines() if line.strip()]
            why = said[-1].strip()[:200] if said else f"exit code {done.code}"
            raise InputError(f"{trace}: {form.command[0]} does not print it: {why}")
        yield text


def _head(form: _Form, program: str, trace: Path) -> str:
    """Return a line that names the recorded kernel as `perf script` does; none where it is there.

    A recording that does not name it gets none: the reader then asks for the kernel.
    """
    if not form.kernel:
        return ""
    words = [program, *form.kernel[1:], str(trace.absolute())]
    for line in processes.run(words, timeout=TIMEOUT).output.splitlines():
        # Linux host 6.12.95-amd64 x86_64
        found = line.split()
        if len(found) >= 3 and found[0] == "Linux":
            return f"# os release : {found[2]}\n"
    return ""


def _form(trace: Path) -> _Form | None:
    try:
        # A pipe can be read once only.
        if not stat.S_ISREG(trace.stat().st_mode):
            return None
        with trace.open("rb") as file:
            beginning = file.read(16)
    except (OSError, ValueError):
        return None
    return next((form for form in _FORMS if beginning.startswith(form.magic)), None)
