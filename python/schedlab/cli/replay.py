"""``schedlab replay``."""

import json as jsonlib
from pathlib import Path
from typing import Annotated, Any

import typer

from schedlab import _core
from schedlab.cli import options
from schedlab.model import short_time
from schedlab.report.terminal import emit_json, say, show

DECISIONS = ("pick", "tick", "wakeup", "placement")


def command(
    trace: Annotated[Path, typer.Argument(help="'trace-cmd report -t -l' of one CPU, or its .gz.")],
    snapshot: Annotated[
        Path | None,
        typer.Option("--snapshot", metavar="FILE", help="A copy of sched/debug from its start."),
    ] = None,
    kernel: Annotated[
        str | None, typer.Option("--kernel", metavar="RELEASE", help="The recorded kernel (6.1).")
    ] = None,
    json: options.Json = False,
) -> None:
    """Compare a recorded kernel's decisions with our rules, one by one.

    Exits with 1 where any decision or virtual time differs.

    Example: [bold]schedlab replay crates/replay/tests/fixtures/k61-hackbench.txt.gz[/bold]
    """
    report = jsonlib.loads(_core.replay(trace, snapshot, kernel))
    if json:
        emit_json(report)
    else:
        _print(report)
    if not report["exact"]:
        raise typer.Exit(1)


def _print(report: dict[str, Any]) -> None:
    say(
        f"{report['records']} events of {report['tasks']} tasks in {short_time(report['span_ns'])}"
        f", rules of {report['release']}"
    )
    say()
    rows = []
    for name in DECISIONS:
        score = report["decisions"][name]
        rows.append(
            (
                name,
                str(score["compared"]),
                str(score["equal"]),
                str(score["naive_equal"]),
                str(score["unverifiable"]),
            )
        )
    show(rows, ("decision", "compared", "equal", "a naive rule's", "unverifiable"))
    say()
    state = report["state"]
    for name in ("vruntime", "min_vruntime"):
        part = state[name]
        say(f"{name}: {part['compared']} compared, largest error {part['max_error_ns']} ns")
    if report["exact"]:
        say("every decision and every virtual time is the kernel's")
        return
    say(f"resynchronised {report['resynchronisations']} times; the first differences:")
    for difference in report["differences"]:
        say(
            f"  line {difference['line']}, {difference['time']}: {difference['what']}: "
            f"ours {difference['ours']}, the kernel's {difference['kernels']}"
        )
