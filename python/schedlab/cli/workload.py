"""``schedlab workload``."""

from typing import Annotated

import typer

from schedlab import _core
from schedlab.errors import InputError
from schedlab.model import Workload


def command(
    workload: Annotated[
        str | None, typer.Argument(help="A workload's name, or a file of one.", metavar="WORKLOAD")
    ] = None,
    *,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema of the language instead.")
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
        typer.echo(Workload.parse(workload).export(), nl=False)
