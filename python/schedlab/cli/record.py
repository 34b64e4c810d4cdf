"""``schedlab record``."""

import json as jsonlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from schedlab import _core
from schedlab.boundary.errors import InputError
from schedlab.cli import options
from schedlab.cli.options import Target
from schedlab.measure.recording import BUFFER, LEVELS, Recording, record
from schedlab.model import Workload, short_time
from schedlab.model.outcome import Outcome
from schedlab.report.terminal import emit_json, note, note_all, say
from schedlab.report.text import describe_outcome
from schedlab.report.words import counted
from schedlab.targets.vm import Guest


def command(
    words: Annotated[
        list[str],
        typer.Argument(
            help="A workload, or the command to run and its arguments.",
            metavar="WORKLOAD | -- COMMAND…",
        ),
    ],
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="File to write; .gz is gzipped.")
    ],
    on: Annotated[
        str, typer.Option("--on", metavar="WHERE", help="host, or vm:KERNEL as with 'run'.")
    ] = "host",
    level: Annotated[
        str | None,
        typer.Option(
            "--level",
            metavar="LEVEL",
            help=f"{', '.join(LEVELS)}; as much as the kernel allows otherwise.",
        ),
    ] = None,
    cpus: Annotated[
        int | None, typer.Option("--cpus", metavar="N", help="CPUs of the guest (1).")
    ] = None,
    clock: options.Clock = None,
    append: Annotated[
        str | None,
        typer.Option(
            "--append", metavar="TEXT", help="Kernel parameters of the guest, such as noautogroup."
        ),
    ] = None,
    buffer: Annotated[
        int,
        typer.Option(
            "--buffer", metavar="KIB", help="Buffer of each CPU; it must hold the recording."
        ),
    ] = BUFFER,
    seed: options.Seed = 1,
    timeout: Annotated[
        str, typer.Option("--timeout", metavar="TIME", help="Time limit of the command.")
    ] = "60s",
    json: options.Json = False,
) -> None:
    """Record what a real kernel's scheduler does while a workload or a command runs.

    Needs root and tracefs where it records. A word that names a workload, or a .json file, is one;
    everything else is a command.

    Example: [bold]schedlab record -o trace.txt.gz --on vm:6.1 hackbench:groups=1[/bold]
    """
    what = _workload_or_command(words)
    limit = options.seconds(timeout, "timeout")
    kernel = options.guest_of(on)
    if on == Target.SIM:
        raise InputError(
            "--on is 'sim'; allowed: 'host', 'vm:KERNEL' (run --trace writes its events)"
        )
    if kernel is None:
        options.refuse(on, cpus=cpus, append=append, clock=clock)
        recording = record(output, what, level=level, buffer=buffer, seed=seed, timeout=limit)
    else:
        # The whole recording is in the guest's memory, twice until it is written.
        processors = 1 if cpus is None else cpus
        memory = 1024 + 2 * processors * buffer // 1024
        with Guest.boot(
            kernel,
            cpus=processors,
            memory=memory,
            append=append or "",
            clock=clock or "host",
        ) as guest:
            note_all(guest.notes)
            recording = record(
                output, what, guest=guest, level=level, buffer=buffer, seed=seed, timeout=limit
            )
    if json:
        emit_json(recording)
    else:
        _print(recording, what)


def _workload_or_command(words: Sequence[str]) -> Workload | Sequence[str]:
    names = {workload["name"] for workload in jsonlib.loads(_core.workloads())}
    first = words[0]
    if len(words) == 1 and (first.partition(":")[0] in names or first.endswith(".json")):
        return Workload.parse(first)
    return words


def _print(recording: Recording, what: Workload | Sequence[str]) -> None:
    for missing in recording.missing:
        note(f"not recorded: {missing}")
    if isinstance(what, Workload):
        outcome = Outcome.from_json(recording.output)
        for text in outcome.notes:
            note(text)
        say(outcome.workload)
        describe_outcome(outcome)
    elif recording.output:
        say(recording.output)
    cpus = counted(recording.cpus, "CPU")
    say(f"{recording.path}: {counted(recording.events, 'event')} of {recording.release}, {cpus}")
    more = "" if recording.level == recording.allowed else f"; it allows {recording.allowed}"
    say(f"level {recording.level}{more}")
    say(f"{losses(recording)}; {cost(recording)}")


def losses(recording: Recording) -> str:
    """Return how many events are missing, in words."""
    if recording.lost == 0:
        return "no event lost"
    return f"switches of hidden tasks that are missing: {recording.lost}"


def cost(recording: Recording) -> str:
    """Return what recording cost, in words."""
    if recording.event_ns is None or recording.overhead is None:
        return "its cost could not be measured"
    each = short_time(recording.event_ns)
    return f"recording cost {each} an event, {recording.overhead:.1%} of the CPUs' time"
