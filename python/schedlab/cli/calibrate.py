"""``schedlab calibrate``."""

from pathlib import Path
from typing import Annotated

import typer

from schedlab import calibration
from schedlab.cli import options
from schedlab.report.terminal import emit_json, progress, say
from schedlab.report.text import describe_calibration


def command(
    quick: Annotated[bool, typer.Option("--quick", help="Two seconds instead of five.")] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="FILE", help="Write there, not to your data directory."),
    ] = None,
    disk: Annotated[
        Path | None,
        typer.Option("--disk", metavar="DIRECTORY", help="Measure files and the disk there too."),
    ] = None,
    json: options.Json = False,
) -> None:
    """Measure what this machine's operations cost, for --costs calibrated.

    No workload that validation uses is run for it. Working sets gone cold, files and the disk are
    measured and kept, but the simulator does not charge them yet.

    Example: [bold]schedlab calibrate --quick[/bold]
    """
    options.output(output)
    with progress("calibrating"):
        found = calibration.calibrate(quick=quick, disk=disk)
    file = calibration.save(found, output)
    if json:
        emit_json(
            {
                "file": str(file),
                "kernel": found.kernel,
                "cpu_model": found.cpu_model,
                "cpus": found.cpus,
                "hz": found.hz,
                "date": found.date,
                "costs_ns": found.costs.times,
                "spread": found.spread,
                "measured": found.measured,
                "later": found.later,
                "notes": found.notes,
            }
        )
        return
    describe_calibration(found)
    say()
    say(f"written to {file}")
