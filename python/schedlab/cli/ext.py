"""``schedlab ext run`` and ``schedlab ext status``."""

import codecs
import platform
import sys
import threading
from contextlib import suppress
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import IO, Annotated, TextIO

import typer

from schedlab.boundary.arguments import visible
from schedlab.boundary.errors import InputError, NotPermittedError, RunError
from schedlab.boundary.files import whole
from schedlab.cli import options
from schedlab.processes import processes
from schedlab.report.terminal import emit_json, note_all, say
from schedlab.targets import ext
from schedlab.targets.ext_hangs import known_hangs
from schedlab.targets.facts import facts
from schedlab.vm import Guest

app = typer.Typer(
    no_args_is_help=True,
    help="Thread-fair weights inside a real kernel.\n\n"
    "Example: [bold]schedlab ext status --json[/bold]",
)

_LONG = 7 * 24 * 3600.0
_LOOK = 0.3

_PIECE = 1 << 20
_REPORT = 64 << 20
"""Bytes of what a guest says that are read at once, and of a report."""

On = Annotated[str, typer.Option("--on", metavar="WHERE", help="host, or vm:KERNEL.")]


class Queues(StrEnum):
    """How CPUs share queues."""

    LLC = "llc"
    CPU = "cpu"


@app.command(
    "run", context_settings={"allow_interspersed_args": False, "ignore_unknown_options": False}
)
def run_command(
    weights: Annotated[
        str, typer.Option("--weights", metavar="RULE", help="none, pfs, or dw-cfs[:beta=1.1].")
    ],
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- COMMAND…]", help="What runs meanwhile; Ctrl-C ends it else."),
    ] = None,
    *,
    time_slice: Annotated[
        str, typer.Option("--slice", metavar="TIME", help="A slice; timer ticks end it.")
    ] = "5ms",
    lag_cap: Annotated[
        str,
        typer.Option(
            "--lag-cap", metavar="TIME", help="Most virtual time by which a thread is put back."
        ),
    ] = "10s",
    watchdog: Annotated[
        str,
        typer.Option(
            "--watchdog",
            metavar="TIME",
            help="The kernel takes scheduling back if a thread waits longer.",
        ),
    ] = "30s",
    queues: Annotated[
        Queues,
        typer.Option("--queues", help="One queue for each last-level cache, or for each CPU."),
    ] = Queues.LLC,
    every: Annotated[
        str, typer.Option("--every", metavar="TIME", help="How often shares are shown.")
    ] = "1s",
    report: Annotated[
        Path | None,
        typer.Option("--report", metavar="FILE", help="Write each process's share as JSON."),
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Print the kernel's whole message on a rejection.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Do not print shares.")] = False,
    on: On = "host",
    cpus: Annotated[
        int | None, typer.Option("--cpus", metavar="N", help="CPUs of the guest.")
    ] = None,
) -> None:
    """Schedule by thread-fair weights while a command runs, or until Ctrl-C.

    Scheduling goes back to the kernel's own class however this ends. Exits with the command's code;
    1 if the kernel took scheduling back, 2 if it did not take the scheduler. Says beforehand if
    the kernel's sched_ext is known to hang, by its release.

    Example: [bold]schedlab ext run --weights pfs --on vm:7.2 -- sleep 3[/bold]
    """
    options.output(report)
    command = [str(ext.loader()), "run", "--weights", weights]
    for name, value in (
        ("slice", time_slice),
        ("lag-cap", lag_cap),
        ("watchdog", watchdog),
        ("queues", queues.value),
        ("every", every),
    ):
        command.append(f"--{name}={value}")
    command += [f"--{name}" for name, given in (("verbose", verbose), ("quiet", quiet)) if given]
    rest = ["--", *words] if words else []
    kernel = _guest_of(on)
    checked = processes.run([*command, "--check"])
    if checked.code != 0:
        raise ext.failure(checked.errors, checked.code)
    if kernel is not None:
        code = _in_guest(kernel, cpus, command, rest, report)
    else:
        options.refuse(on, cpus=cpus)
        _refuse_if_impossible()
        note_all(_warnings(platform.release()))
        if report is not None:
            command.append(f"--report={report.absolute()}")
        code = processes.attend([*command, *rest])
    raise typer.Exit(code)


@app.command("status")
def status_command(
    *,
    on: On = "host",
    json: options.Json = False,
) -> None:
    """Show what schedules now, and whether this kernel can load the sched_ext scheduler.

    Example: [bold]schedlab ext status[/bold]
    """
    kernel = _guest_of(on)
    if kernel is None:
        found = ext.status()
    else:
        with Guest.boot(kernel) as guest:
            note_all(guest.notes)
            done = guest.run([str(ext.loader()), "status", "--json"])
        if done.code != 0:
            raise RunError(f"the loader does not run in the guest: {done.errors.strip()}")
        found = ext.Status.from_json(done.output)
    hangs = known_hangs(found.release)
    if json:
        emit_json({**asdict(found), "hangs": hangs})
        return
    which = f"the sched_ext scheduler '{found.scheduler}'" if found.scheduler else "its own class"
    say(f"kernel {found.release}: {which} schedules")
    if found.possible:
        note_all(hangs)
    say(found.why or "a sched_ext scheduler can be loaded: schedlab ext run --weights pfs")


def _guest_of(on: str) -> str | None:
    if on == "host":
        return None
    if on.startswith("vm:") and on != "vm:":
        return on.removeprefix("vm:")
    raise InputError(f"--on is '{on}'; allowed: 'host', 'vm:KERNEL'")


def _refuse_if_impossible() -> None:
    found = ext.status()
    if found.why is not None:
        kind = NotPermittedError if "root" in found.why else InputError
        raise kind(found.why)


def _warnings(release: str) -> list[str]:
    """Return what to know before this machine's own kernel is scheduled so."""
    found = known_hangs(release)
    return [*found, "a guest hangs alone: --on vm:KERNEL"] if found else []


def _in_guest(
    kernel: str, cpus: int | None, command: list[str], rest: list[str], report: Path | None
) -> int:
    """Run the loader in a guest, and show what it and the command say as they say it."""
    if report is not None:
        command = [*command, "--report=/dev/shm/report"]
    count = facts().cpus if cpus is None else cpus
    with Guest.boot(kernel, cpus=count) as guest:
        note_all([*guest.notes, *known_hangs(guest.kernel.release)])
        over = threading.Event()
        tellers = []
        for name, to in (("output", sys.stdout), ("errors", sys.stderr)):
            guest.files.write(name, b"")
            said = guest.files.open(name)
            tellers.append(threading.Thread(target=_tell, args=(said, to, over), daemon=True))
        for teller in tellers:
            teller.start()
        script = 'cd "$0" 2>/dev/null; "$@" >$OUT/output 2>$OUT/errors; code=$?; '
        script += "cp /dev/shm/report $OUT/report 2>/dev/null; exit $code"
        try:
            words = ["sh", "-c", script, str(Path.cwd()), *command, *rest]
            code = guest.run(words, timeout=_LONG).code
        finally:
            over.set()
            for teller in tellers:
                teller.join()
        if report is not None:
            with suppress(FileNotFoundError), whole(report) as file, file.open("wb") as stream:
                guest.files.copy("report", stream.write, _REPORT)
    return code


def _tell(said: IO[bytes], to: TextIO, over: threading.Event) -> None:
    """Print what a file grows by until it is over."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    with said:
        while True:
            last = over.is_set()
            text = decoder.decode(said.read(_PIECE))
            if text:
                to.write(visible(text) if to.isatty() else text)
                to.flush()
            elif last:
                return
            else:
                over.wait(_LOOK)
