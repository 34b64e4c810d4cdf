"""``schedlab compare``."""

from typing import Annotated

import typer

from schedlab.cli import comparison, options
from schedlab.experiment import settings


@comparison.takes_options
def command(
    workloads: comparison.Workloads = None,
    *,
    policy: Annotated[
        str | None,
        typer.Option(
            "--policy",
            metavar="A,B",
            help="Policies to compare, ext:RULE among them; the first is the baseline.",
        ),
    ] = None,
    time_slice: Annotated[
        str | None, typer.Option("--slice", metavar="A,B", help="Slices to compare (6.12 on).")
    ] = None,
    given: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KNOB=A,B", help="Values of a knob to compare; may be repeated."
        ),
    ] = None,
    asked: comparison.Options,
) -> None:
    """Compare settings: every workload under every policy, slice and knob value, everywhere.

    Runs are interleaved until there is a verdict, or the blocks are used up. Each is kept in a
    store, and the same command continues where it was stopped.

    Example: [bold]schedlab compare pipe --policy other,fifo --kernel 6.1 --costs reference[/bold]

    In groups: [bold]schedlab compare hogs:tasks=4 --set latency=6ms,24ms --kernel 6.1
    --group /alice:tasks=1 --group /bob[/bold]
    """
    pairs = [f"policy={policy}"] if policy is not None else []
    pairs += [f"slice={time_slice}"] if time_slice is not None else []
    axes = settings.axes([*pairs, *(given or [])])
    combined = settings.combinations(axes)
    comparison.carry_out("compare", workloads, combined, asked, options.words())
