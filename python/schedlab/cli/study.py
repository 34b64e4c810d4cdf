"""``schedlab study``."""

import sys
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from schedlab import files
from schedlab.cli import comparing, options
from schedlab.errors import InputError
from schedlab.report.terminal import emit_json, note, progress, say, show
from schedlab.store import Store
from schedlab.targets.facts import facts


def command(
    name: Annotated[
        str | None, typer.Argument(help="The study.", metavar="NAME", show_default=False)
    ] = None,
    *,
    every: Annotated[bool, typer.Option("--list", help="List the studies.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="The small version: shows how it goes.")
    ] = False,
    on: Annotated[
        str, typer.Option("--on", metavar="A,B", help="Targets: sim, host, vm:KERNEL.")
    ] = "sim",
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="DIRECTORY", help="Where the files go; out/studies/NAME."),
    ] = None,
    store: comparing.File = None,
    afresh: comparing.Afresh = False,
    seed: options.Seed = 1,
    json: options.Json = False,
) -> None:
    """Reproduce a paper: its claims, figures and tables beside ours.

    Writes report.html, summary.json and the tables as CSV. Runs on real targets are kept in the
    store as they finish, and the same command goes on where it was stopped.

    Example: [bold]schedlab study thread_fairness --quick[/bold]
    """
    # Figures load libraries that other commands do without.
    from schedlab.studies.catalogue import STUDIES, study  # noqa: PLC0415

    if every:
        if json:
            emit_json([{"name": one.name, "title": one.title} for one in STUDIES.values()])
            return
        show([(one.name, one.summary, one.paper) for one in STUDIES.values()],
             ("study", "asks", "after"), left=3, wrap=True)
        return
    if name is None:
        raise InputError(f"which study? known: {', '.join(STUDIES)}")
    chosen = study(name)
    directory = files.make_directory(output or Path("out") / "studies" / chosen.name)
    summary = _carry_out(chosen, directory, quick, on, store, seed, afresh=afresh)
    if json:
        emit_json({key: value for key, value in summary.items() if key != "timeline"})
        return
    for sentence in summary["answers"]:
        say(sentence)
    say()
    show(
        [(one["claim"], one["paper"], one["ours"], one["verdict"]) for one in summary["claims"]],
        ("claim", "paper", "ours", "verdict"),
        left=4,
        wrap=True,
    )
    say()
    say(f"{directory / 'report.html'}: the report")
