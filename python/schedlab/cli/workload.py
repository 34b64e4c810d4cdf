"""``schedlab workload``."""

import json as jsonlib
from typing import Annotated

import typer

from schedlab import _core
from schedlab.boundary.errors import InputError
from schedlab.model import Workload
from schedlab.report.terminal import emit, emit_json, heading, say, show


def command(
    workload: Annotated[
        str | None, typer.Argument(help="A workload's name, or a file of one.", metavar="WORKLOAD")
    ] = None,
    *,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema of the language instead.")
    ] = False,
    every: Annotated[
        bool, typer.Option("--list", help="List the workloads that have names, with their keys.")
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print the workload and its full name as JSON.")
    ] = False,
) -> None:
    """Print a workload in the language of workloads: rt-app's JSON, with further keys where needed.

    A file comes out as strict JSON, and says the same. What needs no further keys, rt-app runs too.

    Example: [bold]schedlab workload hackbench:groups=1,fds=2[/bold]

    All names and keys: [bold]schedlab workload --list[/bold]
    """
    if sum((schema, every, workload is not None)) > 1:
        raise InputError("give one of WORKLOAD, --schema and --list")
    if every:
        _list(json=json)
    elif schema:
        emit(_core.workload_schema())
    elif workload is None:
        raise InputError("which workload? Name one (--list has their names), or give --schema")
    else:
        read = Workload.parse(workload)
        if json:
            emit_json({"name": read.name, "workload": jsonlib.loads(read.export())})
        else:
            emit(read.export())


def _list(*, json: bool) -> None:
    builtin = jsonlib.loads(_core.workloads())
    if json:
        emit_json(builtin)
        return
    say("NAME or NAME:KEY=VALUE,…, wherever a command takes a WORKLOAD")
    for one in builtin:
        heading(one["name"])
        say(one["summary"])
        keys = [
            (key["name"], key["default"], key["allowed"], key["summary"]) for key in one["keys"]
        ]
        show(keys, ("key", "default", "allowed", "what it is"), left=4)
