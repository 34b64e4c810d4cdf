"""``schedlab demo``."""

from pathlib import Path
from typing import Annotated

import typer

from schedlab.cli import options
from schedlab.report.terminal import emit_json
from schedlab.studies.demo import demo


def command(
    output: Annotated[
        Path, typer.Option("--output", metavar="DIRECTORY", help="Directory of the results.")
    ] = Path("out/demo"),
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Few seeds and repeats: a demonstration, no evidence."),
    ] = False,
    json: options.Json = False,
) -> None:
    """Calibrate, validate, tune, verify and report, in under three minutes.

    Writes report.html, hackbench.pftrace and summary.json.

    Example: [bold]schedlab demo --quick --output out/quick[/bold]
    """
    if json:
        with options.silent():
            summary = demo.run(output, demo.QUICK if quick else demo.FULL)
        emit_json(summary)
        return
    demo.run(output, demo.QUICK if quick else demo.FULL)
