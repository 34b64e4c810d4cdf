"""``schedlab replay``."""

import json as jsonlib
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from schedlab import _core
from schedlab.boundary.errors import InputError
from schedlab.boundary.files import whole
from schedlab.cli import options
from schedlab.model import short_time
from schedlab.report.terminal import emit_json, note, say, show
from schedlab.report.words import counted
from schedlab.targets.sim import has_json_lines

DECISIONS = ("pick", "tick", "wakeup", "placement")
ON_SEVERAL_CPUS = ("select", "select_new", "newidle", "balance", "push")
AVERAGES = {
    "pelt": "load averages",
    "pelt_shown": "load averages in /proc and sched/debug",
    "group_weight": "weights of groups",
}
STATES = ("vruntime", "min_vruntime", "deadline", "lag", "budgets")


def command(
    traces: Annotated[
        list[Path],
        typer.Argument(
            metavar="TRACE...",
            help="Recordings ('schedlab record'; of one CPU 'trace-cmd report -t -l'), or .gz.",
        ),
    ],
    snapshot: Annotated[
        Path | None,
        typer.Option("--snapshot", metavar="FILE", help="A copy of sched/debug from its start."),
    ] = None,
    kernel: Annotated[
        str | None,
        typer.Option(
            "--kernel",
            metavar="RELEASE",
            help="The recorded kernel, where the recording does not say it; ~6.8 as with 'run'.",
        ),
    ] = None,
    level: Annotated[
        str | None,
        typer.Option(
            "--level",
            metavar="LEVEL",
            help="Read only so much of it: L0 tracepoints, L0k also place_entity, L1 all probes.",
        ),
    ] = None,
    *,
    perfetto: Annotated[
        Path | None,
        typer.Option(
            "--perfetto",
            metavar="FILE",
            help="Write both schedules for ui.perfetto.dev: the kernel's on CPU 0, ours on CPU 1.",
        ),
    ] = None,
    reasons: options.Reasons = None,
    invariants: Annotated[
        bool,
        typer.Option(
            "--invariants",
            help="Check only what holds under any rules, in any trace, of several CPUs too.",
        ),
    ] = False,
    bound: Annotated[
        str,
        typer.Option(
            "--bound",
            metavar="TIME",
            help="With --invariants: how long a task may wait beside an idle CPU.",
        ),
    ] = "10ms",
    json: options.Json = False,
) -> None:
    """Compare recorded kernels' decisions with our rules: a debugger for scheduler rules.

    After each decision the kernel's stands. Exits with 1 where a decision or virtual time differs.
    Where a pick differs, the trace of --perfetto has a mark with the recording's line. --reasons
    writes each decision of our rules with the rule that decided and by how much.

    With --invariants no rules are asked: one task a CPU, no task runs asleep or where it may not,
    and no CPU idles while a task that may run there waits longer than --bound.

    Example: [bold]schedlab replay crates/replay/tests/fixtures/k61-hackbench.txt.gz[/bold]
    """
    if invariants:
        _check(traces, bound, json=json)
        return
    if perfetto is not None and len(traces) > 1:
        raise InputError(f"--perfetto takes one recording, not {len(traces)}")
    if reasons is not None and len(traces) > 1:
        raise InputError(f"--reasons takes one recording, not {len(traces)}")
    json_lines = reasons is not None and has_json_lines(reasons)
    reports = []
    for trace in traces:
        with nullcontext() if reasons is None else whole(reasons) as file:
            text = _core.replay(
                trace,
                snapshot,
                kernel,
                level,
                perfetto=perfetto,
                decisions=file,
                json_lines=json_lines,
            )
        report = jsonlib.loads(text)
        reports.append(report)
        if not json:
            if len(traces) > 1:
                say(f"{trace}:")
            for text in report["notes"]:
                note(text)
            _print(report)
            if len(traces) > 1:
                say()
    if json:
        emit_json(reports[0] if len(reports) == 1 else reports)
    if not all(report["exact"] for report in reports):
        raise typer.Exit(1)


def _check(traces: list[Path], bound: str, *, json: bool) -> None:
    """Say of each trace whether it keeps what every scheduler keeps."""
    checks = [jsonlib.loads(_core.check_invariants(trace, bound)) for trace in traces]
    if json:
        emit_json(checks[0] if len(checks) == 1 else checks)
    else:
        for trace, check in zip(traces, checks, strict=True):
            cpus = f"{check['cpus']} CPU{'' if check['cpus'] == 1 else 's'}"
            what = f"{check['records']} events of {check['tasks']} tasks on {cpus}"
            say(f"{trace}: {what}: {check['broken'] or 'every invariant holds'}")
    if any(check["broken"] for check in checks):
        raise typer.Exit(1)


def _print(report: dict[str, Any]) -> None:
    # The level is told where it is not all there could be.
    level = "" if report["level"] == "L1" else f", level {report['level']}"
    say(
        f"{report['records']} events of {report['tasks']} tasks in {short_time(report['span_ns'])}"
        f", rules of {report['release']}{level}"
    )
    say()
    rows = []
    for name in (*DECISIONS, *ON_SEVERAL_CPUS):
        score = report["decisions"][name]
        if name in ON_SEVERAL_CPUS and score["compared"] + score["unverifiable"] == 0:
            continue
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
    for name in STATES:
        part = report["state"][name]
        if part["compared"]:
            say(f"{name}: {part['compared']} compared, largest error {part['max_error_ns']} ns")
    for name, what in AVERAGES.items():
        part = report["state"][name]
        if part["compared"]:
            say(
                f"{what}: {part['compared']} compared, mean error {part['mean_error']:.3%}, "
                f"largest {part['max_error']:.2%}"
            )
    if report["exact"]:
        say("every decision and every virtual time is the kernel's")
        return
    for name in ("pick", "tick", "wakeup"):
        if not report["decisions"][name]["compared"]:
            say(f"nothing was compared of: {name}")
    if report["unexplained"]:
        say(f"{counted(report['unexplained'], 'event')} that no rule explains")
    say(f"resynchronised {counted(report['resynchronisations'], 'time')}")
    if report["differences"]:
        say("the first differences:")
    for difference in report["differences"]:
        _print_difference(difference)


def _print_difference(difference: dict[str, Any]) -> None:
    """One difference: what, by which rule, our queue, and what the kernel did."""
    say(
        f"  line {difference['line']}, {difference['time']}: {difference['what']}: "
        f"ours {difference['ours']}, the kernel's {difference['kernels']}"
    )
    say(f"    decided by {difference['rule']}")
    for number, entity in enumerate(difference["queue"]):
        say(f"    {'our queue' if number == 0 else '         '} {entity}")
    for record in difference["recorded"]:
        say(f"    recorded  {record}")
