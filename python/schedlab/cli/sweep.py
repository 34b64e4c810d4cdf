"""``schedlab sweep``."""

from typing import Annotated

import typer

from schedlab.boundary.errors import InputError
from schedlab.cli import comparison, options
from schedlab.experiment import settings
from schedlab.experiment.settings import Setting


@comparison.takes_options
def command(
    workloads: comparison.Workloads = None,
    *,
    given: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KNOB=A,B",
            help="Values of a knob, policy or slice to try; may be repeated.",
        ),
    ] = None,
    asked: comparison.Options,
) -> None:
    """Try values of one knob or several, each against the present setting.

    Example: [bold]schedlab sweep pipe --set latency=5ms,20ms --kernel 6.1 --costs reference[/bold]
    """
    axes = settings.axes(given or [])
    if not axes:
        raise InputError("nothing to sweep over: --set names a knob and values")
    tried = [Setting({}), *settings.combinations(axes)]
    comparison.carry_out("sweep", workloads, tried, asked, options.words())
