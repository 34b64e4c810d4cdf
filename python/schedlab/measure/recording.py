"""Recordings of what a real kernel's scheduler does, here or in a guest.

The file holds the scheduler's events, the calls of its functions where the kernel allows to probe
them, and the state before; ``schedlab replay`` compares it with our rules.
"""

import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from schedlab.boundary.arguments import is_directory
from schedlab.boundary.errors import InputError, RunError
from schedlab.model import Workload
from schedlab.processes import lease, processes
from schedlab.targets import host
from schedlab.vm.guest import Guest

__all__ = ["BUFFER", "LEVELS", "Recording", "record"]

LEVELS = ("switches", "L0", "L0k", "L1")
"""Switches and wake-ups, which cannot be replayed; all tracepoints; with the placement and state of
tasks; with all that the rules depend on."""

BUFFER = 65_536
"""KiB of each CPU's buffer, where nothing else is asked for."""

_MOST_KIB = 16_777_216

_TIDYING = 30.0
"""Seconds the recorder may take to leave tracing as it was: each probe takes its time."""

_PREFIX = "schedlab-native: "


@dataclass(frozen=True)
class Recording:
    """A recording that was made.

    Attributes:
        path: the file.
        release: the kernel's release.
        level: what was recorded.
        allowed: the highest level that the kernel allows.
        missing: the probes that it cannot have, and why.
        cpus: CPUs that were online.
        clock: the trace's clock.
        events: how many there are.
        output: what the command printed.
        lost: events or switches that are missing. A recording for replay has none, or is not kept;
            of the level ``switches`` those from hidden tasks of which nothing told.
        event_ns: nanoseconds that recording an event costs, measured after the recording; None
            where it could not be measured.
        overhead: the part of the CPUs' time that its events cost, 0 to 1; None where it could not
            be measured.
    """

    path: Path
    release: str
    level: str
    allowed: str
    missing: tuple[str, ...]
    cpus: int
    clock: str
    events: int
    output: str
    lost: int = 0
    event_ns: float | None = None
    overhead: float | None = None


def record(
    path: Path,
    what: Workload | Sequence[str],
    *,
    guest: Guest | None = None,
    level: str | None = None,
    buffer: int = BUFFER,
    seed: int = 1,
    timeout: float = 60.0,
) -> Recording:
    """Record what the scheduler does while a workload or a command runs.

    Needs root and tracefs where it records; tracing is left as it was found.

    Args:
        path: the file to write, gzipped if its name ends in ``.gz``; there only if all went well.
        what: a workload, or a command with its arguments.
        guest: where; on this kernel without one.
        level: one of `LEVELS`; as much as the kernel allows without one.
        buffer: KiB of each CPU's buffer, which must hold the whole recording.
        seed: of the workload's random streams.
        timeout: seconds after which the command is killed.

    Raises:
        InputError: something given is wrong, or this kernel cannot be recorded so; events that did
            not fit into the buffer.
        NotPermittedError: recording is not permitted here.
        RunError: the command failed or did not end in time.
    """
    if level is not None and level not in LEVELS:
        raise InputError(f"level '{level}'; allowed: {', '.join(LEVELS)}")
    if not 1 <= buffer <= _MOST_KIB:
        raise InputError(f"a buffer of {buffer} KiB; allowed: 1 to {_MOST_KIB}")
    if timeout <= 0:
        raise InputError(f"timeout is {timeout:g} s; allowed: above 0")
    if not is_directory(path.parent):
        raise InputError(f"cannot write '{path}': there is no directory '{path.parent}'")
    runner = str(host.runner()) if guest is None else guest.inside(host.runner())
    if isinstance(what, Workload):
        command, text = [runner, "run", "-", f"--seed={seed}"], what.json
        command.append(f"--timeout={round(timeout * 1000)}ms")
    else:
        command, text = list(what), ""
    if not command:
        raise InputError("there is no command to record")
    options = [f"--buffer={buffer}", f"--timeout={round(timeout * 1000)}ms"]
    if level is not None:
        options.append(f"--level={level}")
    # The recorder keeps the time itself; the margin is for what it does before and after, which
    # takes long where instructions are translated.
    limit = timeout + 120
    if guest is None:
        recorder = [runner, "record", "-o", str(path), *options, "--", *command]
        with lease.exclusive():
            done = processes.run(recorder, text=text, timeout=limit, patience=_TIDYING)
        return replace(_read(done), path=path)
    # Not to the directory that is shared: every access to it crosses to this machine. No other
    # process is in the guest. Nor packed: with translated
    # instructions that takes longest of all.
    inside = "/dev/shm/recording.txt"  # noqa: S108
    recorder = [runner, "record", "-o", inside, *options, "--", *command]
    # Nor is the workload read from there meanwhile: a clock that counts instructions leaps from
    # timer to timer while the guest waits for this machine, over the time limit if that is busy.
    read = 'cat > "$file.input" && exec < "$file.input" && rm "$file.input"'
    script = f'file=$1; shift; {read} && "$@" && mv "$file" "$OUT/"'
    copy = ["sh", "-c", script, "sh", inside]
    recording = _read(guest.run([*copy, *recorder], text=text, timeout=limit))
    _fetch(guest, Path(inside).name, path)
    return replace(recording, path=path)


def _read(done: processes.Completed) -> Recording:
    """Return what the recorder says; the recorded command's own words stand before it."""
    said = [line for line in done.errors.splitlines() if line.startswith(_PREFIX)]
    if done.code != 0 and said:
        done = replace(done, errors=said[-1])
    output, _, last = host.printed(done).rstrip("\n").rpartition("\n")
    try:
        found = json.loads(last)
        cost = found["overhead"] or {}
        return Recording(
            path=Path(found["output"]),
            release=found["release"],
            level=found["level"],
            allowed=found["allowed"],
            missing=tuple(found["missing"]),
            cpus=found["cpus"],
            clock=found["clock"],
            events=found["events"],
            output=output,
            lost=found["untold"],
            event_ns=cost.get("event_ns"),
            overhead=cost.get("share"),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise RunError("the recorder did not say what it recorded") from None


def _fetch(guest: Guest, name: str, path: Path) -> None:
    """Take a file of a guest's, packed if our name says so; a half-copied one has another."""
    temporary = path.with_name(f".{path.name}.part")
    try:
        if path.suffix == ".gz":
            with gzip.open(temporary, "wb", compresslevel=1) as packed:
                guest.files.copy(name, packed.write)
        else:
            with temporary.open("wb") as plain:
                guest.files.copy(name, plain.write)
        temporary.rename(path)
    except OSError as error:
        raise RunError(f"cannot write '{path}': {error.strerror}") from None
    finally:
        temporary.unlink(missing_ok=True)
        guest.files.remove(name)
