"""``schedlab record``."""

import json as jsonlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from schedlab import _core
from schedlab.cli import options
from schedlab.cli.options import Target
from schedlab.errors import InputError
from schedlab.model import Workload
from schedlab.recording import BUFFER, LEVELS, Recording, record
from schedlab.report.terminal import emit_json, note, say
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
    append: Annotated[
        str | None,
        typer.Option(
            "--append", metavar="TEXT", help="Kernel parameters of the guest, as noautogroup."
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
        str, typer.Option("--timeout", metavar="TIME", help="Kill the command after that.")
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
        options.refuse(on, cpus=cpus, append=append)
        recording = record(output, what, level=level, buffer=buffer, seed=seed, timeout=limit)
    else:
        # The whole recording is in the guest's memory, twice until it is written.
        processors = 1 if cpus is None else cpus
        memory = 1024 + 2 * processors * buffer // 1024
        with Guest.boot(kernel, cpus=processors, memory=memory, append=append or "") as guest:
            recording = record(
                output, what, guest=guest, level=level, buffer=buffer, seed=seed, timeout=limit
            )
    if json:
        emit_json(recording)
    else:
        _print(recording)


def _workload_or_command(words: Sequence[str]) -> Workload | Sequence[str]:
    names = {workload["name"] for workload in jsonlib.loads(_core.workloads())}
    first = words[0]
    if len(words) == 1 and (first.partition(":")[0] in names or first.endswith(".json")):
        return Workload.parse(first)
    return words


def _print(recording: Recording) -> None:
    for missing in recording.missing:
        note(f"not in this kernel: {missing}")
    if recording.output:
        say(recording.output)
    cpus = f"{recording.cpus} CPU" + ("s" if recording.cpus > 1 else "")
    say(f"{recording.path}: {recording.events} events of {recording.release}, {cpus}")
    more = "" if recording.level == recording.allowed else f"; it allows {recording.allowed}"
    say(f"level {recording.level}{more}")
