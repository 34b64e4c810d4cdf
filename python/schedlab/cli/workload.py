"""``schedlab workload``."""

import json as jsonlib
from typing import Annotated

import typer

from schedlab import _core
from schedlab.errors import InputError
from schedlab.model import Workload
from schedlab.report.terminal import emit_json


def command(
    workload: Annotated[
        str | None, typer.Argument(help="A workload's name, or a file of one.", metavar="WORKLOAD")
    ] = None,
    *,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema of the language instead.")
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print its full name, and the workload beside it.")
    ] = False,
) -> None:
    """Print a workload in the language of workloads: rt-app's JSON, with further keys where needed.

    A file comes out as strict JSON, and says the same. What needs no further keys, rt-app runs too.

    Example: [bold]schedlab workload hackbench:groups=1,fds=2[/bold]
    """
    if schema:
        typer.echo(_core.workload_schema(), nl=False)
    elif workload is None:
        raise InputError("which workload? Name one, or give --schema")
    else:
        read = Workload.parse(workload)
        if json:
            emit_json({"name": read.name, "workload": jsonlib.loads(read.export())})
        else:
            typer.echo(read.export(), nl=False)
