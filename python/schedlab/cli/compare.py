"""``schedlab compare``."""

import shlex
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import typer

from schedlab.boundary.errors import InputError
from schedlab.cli import comparison, options
from schedlab.experiment import campaign, settings
from schedlab.experiment.execution import Cell
from schedlab.experiment.plan import Plan, chosen
from schedlab.experiment.settings import Setting
from schedlab.experiment.stats import Verdict
from schedlab.programs.command import Command
from schedlab.programs.revision import revisions
from schedlab.report.terminal import note
from schedlab.report.words import counted


class FailIf(StrEnum):
    """Which verdict fails a command."""

    WORSE = "worse"


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
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="REF",
            help="Compare --command in this working tree with the same at a git revision.",
        ),
    ] = None,
    build: Annotated[
        str | None,
        typer.Option(
            "--build", metavar="WORDS", help="Of --against: a command that builds each tree first."
        ),
    ] = None,
    fail_if: Annotated[
        FailIf | None,
        typer.Option(
            "--fail-if", help="Exit with 1 where a metric has this verdict.", show_default=False
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

    Two revisions of a program: [bold]schedlab compare --on host --against main --build make
    --fail-if worse -- ./my-benchmark[/bold]
    """
    if against is not None:
        if policy is not None or time_slice is not None or given:
            raise InputError("--against compares revisions: leave out --policy, --slice and --set")
        result = _revisions(against, build, workloads, asked)
    else:
        if build is not None:
            raise InputError("--build means nothing without --against: leave it out")
        result = _settings(workloads, policy, time_slice, given, asked)
    if fail_if is None:
        return
    verdicts = [answer.judged.verdict for answer in result.settled.answers]
    if fail_if.value in verdicts:
        number = counted(verdicts.count(Verdict(fail_if.value)), "verdict")
        note(f"--fail-if {fail_if.value}: {number}")
        raise typer.Exit(1)


def _settings(
    workloads: Sequence[str] | None,
    policy: str | None,
    time_slice: str | None,
    given: Sequence[str] | None,
    asked: comparison.Options,
) -> campaign.Result:
    pairs = [f"policy={policy}"] if policy is not None else []
    pairs += [f"slice={time_slice}"] if time_slice is not None else []
    axes = settings.axes([*pairs, *(given or [])])
    combined = settings.combinations(axes)
    return comparison.carry_out("compare", workloads, combined, asked, options.words())


def _revisions(
    reference: str, build: str | None, workloads: Sequence[str] | None, asked: comparison.Options
) -> campaign.Result:
    """Compare a command in the working tree with the same command at a revision."""
    if workloads or asked.run is None:
        raise InputError("--against compares a command of this repository: name it after --")
    if asked.on != "host":
        raise InputError(f"--against runs a command, and --on is '{asked.on}': write --on host")
    ((name, command),) = comparison.subjects((), asked.run, asked.patterns, asked.simulation())
    assert isinstance(command, Command)
    (target,) = comparison.targets(asked.on, asked.simulation())
    metrics, group = chosen(command, asked.metric_names), f"{name} on {target.name}"
    try:
        first = tuple(shlex.split(build or ""))
    except ValueError as error:
        raise InputError(f"--build: {error}") from None
    with revisions(reference, command, first) as arms:
        plan = Plan(
            "compare",
            tuple(Cell(group, arm, Setting({}), target, arm.label) for arm in arms),
            {group: metrics},
            asked.protocol,
            asked.seed,
            options.seconds(asked.timeout, "timeout"),
            check=asked.check,
        )
        return comparison.run_plan(plan, [target], asked, options.words())
