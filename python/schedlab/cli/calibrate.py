"""``schedlab calibrate``."""

from pathlib import Path
from typing import Annotated

import typer

from schedlab.boundary.errors import InputError, RunError
from schedlab.cli import options
from schedlab.measure import calibration
from schedlab.report.terminal import emit_json, note_all, progress, say
from schedlab.report.text import describe_calibration
from schedlab.vm.guest import Guest

_GUEST_CPUS = 2
"""Without a second CPU nothing can be measured across CPUs."""


def command(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Two seconds instead of five.")] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", metavar="FILE", help="File to write; in your data directory by default."
        ),
    ] = None,
    on: Annotated[
        str, typer.Option("--on", metavar="WHERE", help="host, or vm:KERNEL as with 'run'.")
    ] = "host",
    cpus: Annotated[
        int | None, typer.Option("--cpus", metavar="N", help="CPUs of the guest (2).")
    ] = None,
    clock: options.Clock = None,
    disk: Annotated[
        Path | None,
        typer.Option(
            "--disk", metavar="DIRECTORY", help="Measure files and the disk in this directory too."
        ),
    ] = None,
    repeat: Annotated[
        int,
        typer.Option(
            "--repeat", metavar="N", min=1, help="Calibrate N times and keep the medians."
        ),
    ] = 1,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Write costs even if other work took more than 20 % of the CPU time."
        ),
    ] = False,
    json: options.Json = False,
) -> None:
    """Measure what this machine's, or a guest's, operations cost, for --costs calibrated.

    No workload that validation uses is run for it. Memory is measured too, and with --disk the
    disk: simulated tasks that touch memory or wait for files then take as long. Working sets gone
    cold and files that the page cache has are measured and kept, but not charged yet. As root,
    kernel threads and other programs are watched too (six seconds, or three): simulations run
    them beside the workload. A guest's
    costs are kept in a separate file; give that to --costs. The costs of creating, starting and
    ending a process depend on memory layout: --repeat keeps the median of several calibrations,
    in a guest each after its own boot.

    Example: [bold]schedlab calibrate --quick[/bold]
    """
    options.output(output)
    kernel = options.guest_of(on)
    if on == options.Target.SIM:
        raise InputError("--on is 'sim'; allowed: 'host', 'vm:KERNEL'")
    if kernel is None:
        options.refuse(on, cpus=cpus, clock=clock)
    file = output
    calibrated = []
    for number in range(1, repeat + 1):
        with progress("calibrating" if repeat == 1 else f"calibrating: {number} of {repeat}"):
            if kernel is None:
                calibrated.append(calibration.calibrate(quick=quick, disk=disk))
                continue
            most = 1 if clock == "instructions" else _GUEST_CPUS
            with Guest.boot(
                kernel, cpus=most if cpus is None else cpus, clock=clock or "host"
            ) as guest:
                note_all(guest.notes)
                calibrated.append(calibration.calibrate(quick=quick, disk=disk, guest=guest))
                file = output or calibration.path(guest)
    if not force:
        try:
            calibration.check_calm(calibrated)
        except RunError as error:
            raise RunError(f"{error}, or use --force") from None
    found = calibration.median_of(calibrated)
    file = calibration.save(found, file)
    if json:
        emit_json(
            {
                "file": str(file),
                "kernel": found.kernel,
                "cpu_model": found.cpu_model,
                "cpus": found.cpus,
                "accelerator": found.accelerator,
                "hz": found.hz,
                "date": found.date,
                "costs_ns": found.costs.times,
                "unknown": found.costs.unknown,
                "devices_ns": found.costs.devices,
                "spread": found.spread,
                "measured": found.measured,
                "later": found.later,
                "background": found.background,
                "notes": found.notes,
            }
        )
        return
    describe_calibration(found)
    say()
    say(f"written to {file}")
