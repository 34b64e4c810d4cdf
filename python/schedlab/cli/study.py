"""``schedlab study``."""

import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from schedlab import __version__
from schedlab.boundary import extras, files
from schedlab.boundary.errors import InputError, SchedlabError
from schedlab.cli import comparison, options
from schedlab.live import put_beside
from schedlab.report.study_progress import telling
from schedlab.report.terminal import emit_json, note, say, show
from schedlab.report.words import counted
from schedlab.store import Store
from schedlab.studies.measurement import Measuring
from schedlab.studies.study import Request, Study
from schedlab.targets.facts import facts

_LEAST, _MOST = 2, 10_000
"""Runs of each setting."""


def command(
    name: Annotated[
        str | None, typer.Argument(help="The study.", metavar="NAME", show_default=False)
    ] = None,
    *,
    every: Annotated[bool, typer.Option("--list", help="List the studies.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="The small version: a demonstration.")
    ] = False,
    on: Annotated[
        str, typer.Option("--on", metavar="A,B", help="Targets: sim, host, vm:KERNEL.")
    ] = "sim",
    small: Annotated[
        bool,
        typer.Option("--small", help="Real targets at the size of --quick, simulation in full."),
    ] = False,
    blocks: Annotated[
        str | None,
        typer.Option(
            "--blocks",
            metavar="N",
            help="Runs of each setting on real targets; 2,host=12 has others on one of them.",
        ),
    ] = None,
    levels: Annotated[
        str | None,
        typer.Option(
            "--levels",
            metavar="A,B",
            help="Real targets at these connections (cfs_parameters) or loads (policies) alone.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            metavar="DIRECTORY",
            help="Directory of the results; out/studies/NAME by default.",
        ),
    ] = None,
    store: comparison.File = None,
    afresh: comparison.Afresh = False,
    seed: options.Seed = 1,
    json: options.Json = False,
) -> None:
    """Reproduce a paper: its claims, figures and tables beside ours.

    Writes report.html, summary.json and the tables as CSV. Runs on real targets are kept in the
    store as they finish, and the same command continues where it was stopped.

    Example: [bold]schedlab study thread_fairness --quick[/bold]
    """
    # Figures load libraries that other commands do without.
    from schedlab.studies.catalogue import STUDIES, study  # noqa: PLC0415

    if every:
        if json:
            emit_json([{"name": one.name, "title": one.title} for one in STUDIES.values()])
            return
        show(
            [(one.name, one.summary, one.paper) for one in STUDIES.values()],
            ("study", "asks", "after"),
            left=3,
            wrap=True,
        )
        return
    if name is None:
        raise InputError(f"which study? known: {', '.join(STUDIES)}")
    chosen = study(name)
    names = tuple(name.strip() for name in on.split(",") if name.strip())
    request = Request(
        quick=quick,
        on=names,
        seed=seed,
        small=small,
        blocks=_blocks(names, blocks),
        levels=_levels(chosen, levels),
    )
    if (blocks or levels) and not request.real:
        raise InputError(
            "--blocks and --levels are for real targets: add host or vm:KERNEL to --on"
        )
    directory = files.make_directory(output or Path("out") / "studies" / chosen.name)
    summary = _carry_out(chosen, request, directory, store, afresh=afresh)
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


def _repeatable(words: Sequence[str]) -> list[str]:
    """Return a command without where its files go: that is of one machine alone.

    >>> _repeatable(["study", "policies", "--store", "/x/runs.db", "--quick", "--output=/y"])
    ['study', 'policies', '--quick']
    """
    found: list[str] = []
    left_out = ("--store", "--output")
    for place, word in enumerate(words):
        named = place > 0 and words[place - 1] in left_out
        if not named and word.partition("=")[0] not in left_out:
            found.append(word)
    return found


def _blocks(targets: Sequence[str], text: str | None) -> dict[str, int]:
    """Return the numbers of runs that a text names, by target, ``""`` for all others.

    Raises:
        InputError: no number, too small a one, or a target that is not run on.

    >>> _blocks(["sim", "host"], "2,host=12")
    {'': 2, 'host': 12}
    """
    found: dict[str, int] = {}
    for part in [] if text is None else text.split(","):
        target, equals, number = part.strip().rpartition("=")
        if equals and target not in targets:
            raise InputError(f"--blocks: '{target}' is none of --on's targets")
        if not number.isdecimal() or not _LEAST <= int(number) <= _MOST:
            raise InputError(f"--blocks: '{part}': allowed: {_LEAST} to {_MOST}, or TARGET=N")
        found[target] = int(number)
    return found


def _levels(chosen: Study, text: str | None) -> tuple[str, ...]:
    """Return the levels that a text names.

    Raises:
        InputError: the study has no such.
    """
    if text is None:
        return ()
    levels = tuple(level.strip() for level in text.split(","))
    for level in levels:
        if level not in chosen.levels:
            known = ", ".join(chosen.levels) or f"none, {chosen.name} has no levels of load"
            raise InputError(f"--levels: '{level}' is none; allowed: {known}")
    return levels


def _plain(blocks: Mapping[str, int]) -> int | dict[str, int]:
    """Return numbers of runs as a plan has them: one for all is a number."""
    return blocks[""] if set(blocks) == {""} else dict(blocks)


def _carry_out(
    chosen: Study, request: Request, directory: Path, file: Path | None, *, afresh: bool
) -> dict[str, Any]:
    from schedlab.report.study_page import report  # noqa: PLC0415
    from schedlab.studies.files import summary_of, write  # noqa: PLC0415

    # Said before hours of runs, not after.
    extras.require("charts")
    real = request.real
    where = {one.name: one for one in comparison.targets(",".join(real))}
    here, begun = facts(), time.monotonic()
    words, seed = sys.argv[1:], request.seed
    with Store(file) as store, comparison.ending(list(where.values())), telling() as tell:
        plan = {
            "study": chosen.name,
            "quick": request.quick,
            "on": list(request.on),
            "seed": seed,
        }
        for name in ("small", "blocks", "levels"):
            # What is left out is not in the plan: studies that were run before are found again.
            if value := getattr(request, name):
                plan[name] = value if name != "blocks" else _plain(value)
        kept = store.begin("study", chosen.title, plan, words, afresh=afresh)
        measuring = Measuring(store, where, seed=seed, command=words, tell=tell, afresh=afresh)
        request = replace(request, tell=tell, measure=measuring)
        try:
            result = chosen.run(request)
        except KeyboardInterrupt:
            store.finish(kept, "interrupted")
            raise
        except SchedlabError:
            store.finish(kept, "failed")
            raise
        summary = summary_of(
            chosen,
            result,
            {
                "command": "schedlab " + shlex.join(_repeatable(words)),
                "version": __version__,
                "date": datetime.now(UTC).isoformat(timespec="seconds"),
                "host": f"kernel {here.kernel}, {here.cpu_model}, {counted(here.cpus, 'CPU')}",
                "seconds": round(time.monotonic() - begun, 1),
            },
        )
        summary["notes"] += measuring.refusals
        if "host" in request.on and here.stand_in:
            summary["notes"].append(f"What is simulated of this machine: {here.stand_in}.")
            note(here.stand_in)
        for refusal in measuring.refusals:
            note(refusal)
        beside = bool((summary["timeline"] or {}).get("live")) and put_beside(directory)
        write(directory, summary, report(summary, beside=beside))
        store.finish(kept, "done", summary)
    if here.busy and real:
        note(f"other work was running (load average {here.load}): what was measured is disturbed")
    return summary
