"""``schedlab kernels`` and ``schedlab kernels get``."""

import json as jsonlib
from typing import Annotated

import typer

from schedlab import _core
from schedlab.cli import options
from schedlab.errors import SchedlabError
from schedlab.report.terminal import emit_json, heading, note, progress, say, show
from schedlab.targets.facts import facts
from schedlab.vm import archive, cached
from schedlab.vm.archive import Offer
from schedlab.vm.kernels import KernelImage

app = typer.Typer(invoke_without_command=True, no_args_is_help=False)


@app.callback(invoke_without_command=True)
def command(
    context: typer.Context,
    here: Annotated[
        bool, typer.Option("--here", help="Do not ask the distribution's archive.")
    ] = False,
    json: options.Json = False,
) -> None:
    """List the kernels whose rules are known, those in the cache, and those to be had.

    What is to be had is what the archive of this machine's apt offers, asked once a day.

    Example: [bold]schedlab kernels --here[/bold]
    """
    if context.invoked_subcommand is not None:
        return
    known = jsonlib.loads(_core.releases())
    host = facts()
    offers = [] if here else _offers()
    fetched = cached()
    if json:
        this = {"kernel": host.kernel, "release": host.release, "note": host.stand_in}
        emit_json({"known": known, "this": this, "cached": fetched, "archive": offers})
        return
    heading("rules known, for --kernel")
    show(
        [(row["series"], row["release"], "EEVDF" if row["eevdf"] else "CFS") for row in known],
        ("series", "newest known", "fair class"),
        left=3,
    )
    if host.stand_in:
        note(host.stand_in)
    heading("in the cache, for --on vm:SERIES")
    if fetched:
        show([_fetched(kernel) for kernel in fetched], ("series", "release", "suite"), left=3)
    else:
        say("none; 'schedlab kernels get SERIES' fetches one")
    if offers:
        heading("in the distribution's archive, for schedlab kernels get")
        show([_offer(offer) for offer in offers], ("series", "release", "suite", "size"), left=3)


@app.command("get")
def get_command(
    series: Annotated[
        str, typer.Argument(metavar="SERIES", help="Such as 6.1: the newest; or a whole release.")
    ],
    json: options.Json = False,
) -> None:
    """Fetch a kernel into the cache, without installing it.

    Example: [bold]schedlab kernels get 6.1[/bold]
    """
    notes: list[str] = []
    with progress(f"fetching {series}"):
        kernel = archive.get(series, notes)
    for line in notes:
        note(line)
    if json:
        emit_json(kernel)
    else:
        say(f"{kernel.release} from {kernel.suite}: {kernel.image}")


def _offers() -> list[Offer]:
    notes: list[str] = []
    try:
        return archive.offers(notes)
    except SchedlabError as error:
        notes = [str(error)]
        return []
    finally:
        for line in notes:
            note(line)


def _fetched(kernel: KernelImage) -> tuple[str, str, str]:
    return (kernel.series, kernel.release, kernel.suite)


def _offer(offer: Offer) -> tuple[str, str, str, str]:
    return (offer.series, offer.release, offer.suite, f"{offer.bytes / 1e6:.0f} MB")
