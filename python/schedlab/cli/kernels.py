"""``schedlab kernels``: kernels known, fetched and available, and the rules of each."""

import json as jsonlib
from typing import Annotated, Any

import typer

from schedlab import _core
from schedlab.boundary.errors import SchedlabError
from schedlab.cli import options
from schedlab.model import Scheduler
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
    """List the kernels whose rules are known, those in the cache, and those available.

    Available are those that the archive of this machine's apt offers, asked once a day.

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


@app.command("rules")
def rules_command(
    kernel: Annotated[str, typer.Argument(metavar="RELEASE", help="Such as 6.12 or 6.12.63.")],
    *,
    every: Annotated[
        bool, typer.Option("--all", help="Also the rules that the release does not have.")
    ] = False,
    json: options.Json = False,
) -> None:
    """List the scheduling rules that differ between kernels, and which a release has.

    Example: [bold]schedlab kernels rules 6.12[/bold]
    """
    known = _rules(kernel)
    release = Scheduler(kernel).release
    if json:
        emit_json({"release": release, "rules": known})
        return
    for text in Scheduler(kernel).notes:
        note(text)
    shown = [row for row in known if row["on"] or every]
    for kind, title in _KINDS.items():
        found = [row for row in shown if row["kind"] == kind]
        if found:
            heading(f"{title}, of {release}")
        for row in found:
            _show_rule(row, "" if row["on"] else " (off)")
    say(f"switch one in a simulation: schedlab run pipe --kernel {kernel} --rule NAME=on|off")


@app.command("diff")
def diff_command(
    one: Annotated[str, typer.Argument(metavar="A", help="A release, such as 6.1.")],
    other: Annotated[str, typer.Argument(metavar="B", help="Another, such as 6.12.")],
    json: options.Json = False,
) -> None:
    """List the rules by which two releases differ, with the kernel commit of each.

    Example: [bold]schedlab kernels diff 6.1 6.12[/bold]
    """
    before = {row["name"]: row["on"] for row in _rules(one)}
    changed = [row for row in _rules(other) if row["on"] != before[row["name"]]]
    releases = Scheduler(one).release, Scheduler(other).release
    if json:
        emit_json({"from": releases[0], "to": releases[1], "changed": changed})
        return
    for text in dict.fromkeys([*Scheduler(one).notes, *Scheduler(other).notes]):
        note(text)
    if not changed:
        say(f"{releases[0]} and {releases[1]} have the same rules")
    for kind, title in _KINDS.items():
        found = [row for row in changed if row["kind"] == kind]
        if found:
            heading(f"{title}, from {releases[0]} to {releases[1]}")
        for row in found:
            _show_rule(row, ": on" if row["on"] else ": off")


_KINDS = {
    "structure": "structures (switched with all that belongs to them)",
    "flag": "rules (each may be switched alone)",
    "fact": "facts (never switched)",
}


def _rules(release: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = jsonlib.loads(_core.rules(release))
    return found


def _show_rule(row: dict[str, Any], state: str) -> None:
    commit = row["commit"]
    points = [f"since {row['since']}", *([f"until {row['until']}"] if row["until"] else [])]
    points += [f"also {point} and later of its series" for point in row["backports"]]
    named = f"{commit['hash']} {commit['subject']}" if commit else f"commit: {row['no_commit']}"
    say(f"{row['name']}{state}")
    say(f"  {row['does']}")
    say(f"  {', '.join(points)}; {named}")


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
