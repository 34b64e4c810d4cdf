"""``schedlab regress``."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from schedlab.boundary.errors import InputError
from schedlab.cli import options
from schedlab.cli.why import is_recording
from schedlab.experiment.stats import Estimate
from schedlab.measure.inference import infer
from schedlab.model import Machine, Workload, short_time
from schedlab.regression import verification
from schedlab.regression.regress import RUNS, Contribution, Regression, metric_of, regress
from schedlab.regression.verification import Check
from schedlab.report.terminal import emit_json, heading, note, say, show, waiting
from schedlab.report.words import percent


def command(
    source: Annotated[
        str,
        typer.Argument(
            metavar="WORKLOAD|RECORDING",
            help="name:key=value,… or a JSON file; or a recording ('schedlab record', perf, "
            "trace-cmd, Perfetto), or .gz.",
        ),
    ],
    *,
    old: Annotated[str, typer.Option("--from", metavar="RELEASE", help="The kernel before.")],
    new: Annotated[str, typer.Option("--to", metavar="RELEASE", help="The kernel after.")],
    metric: Annotated[
        str,
        typer.Option(
            "--metric",
            metavar="METRIC",
            help="turnaround, switches, wait:NAME, run:NAME, or p99:NAME, of a task's latencies.",
        ),
    ] = "turnaround",
    cpus: options.Cpus = None,
    topology: options.Topology = None,
    hz: options.Hz = None,
    costs: options.Costs = None,
    group: options.Group = None,
    session: options.Session = None,
    seed: options.Seed = 1,
    runs: Annotated[
        int, typer.Option("--runs", metavar="N", help="Seeds of each figure, 2 or more.")
    ] = RUNS,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify",
            help="Also run both kernels in guests, and the settings that undo it, and compare.",
        ),
    ] = False,
    json: options.Json = False,
) -> None:
    """Say which change between two kernels makes a workload slower or faster.

    Both kernels are simulated over seeds and phases, then each change between them alone, added to
    the old kernel and taken back from the new one. The few that matter share the difference by
    their Shapley values. A recording is simulated as the workload inferred from it.

    With --verify both kernels run in guests, with the settings that a real kernel has: it says
    whether the measured factors agree with the predicted ones. Percentiles are those of recordings
    of the guests.

    Example: [bold]schedlab regress schbench:duration=100ms --from 6.1 --to 6.12 --metric
    p99:worker --cpus 2 --costs reference --runs 4[/bold]
    """
    metric_of(metric)
    if runs < 2:
        raise InputError(f"--runs is {runs}; allowed: 2 or more")
    machine = options.machine_of(cpus, costs, topology)
    options.note_costs(machine)
    if is_recording(source):
        inferred = infer(Path(source), costs=machine.costs)
        work = inferred.workload
        number = machine.cpus if cpus is not None else inferred.cpus or 1
        machine = Machine.recorded(number, machine.costs, machine.topology)
        for limit in inferred.limits:
            note(limit)
        if cpus is None and inferred.cpus is None:
            note("the recording does not say its kernel, so 1 CPU is simulated: --cpus sets others")
        note("the workload is inferred: 'schedlab infer --check' says how well it stands in")
    else:
        work = Workload.parse(source)
    work = work.with_groups(group or [], session or [])
    with waiting("simulating"):
        found = regress(
            work,
            old=old,
            new=new,
            machine=machine,
            metric=metric,
            hz=250 if hz is None else hz,
            seed=seed,
            runs=runs,
        )
    checks: tuple[Check, ...] = ()
    if verify:
        with waiting("running both kernels in guests"):
            checks = verification.verify(found, work, cpus=machine.cpus, seed=seed)
    if json:
        emit_json(as_json(found, checks))
        return
    _print(found)
    if checks:
        heading("In guests")
        show(
            [
                (
                    one.what,
                    percent(one.predicted.value),
                    _interval(one.predicted),
                    percent(one.measured.value),
                    _interval(one.measured),
                    one.verdict,
                )
                for one in checks
            ],
            ("kernel", "predicted", "95% interval", "measured", "95% interval", "reality"),
            left=1,
        )


def answer(found: Regression) -> str:
    """Return what came out, in one sentence."""
    low, high = found.total.interval.low, found.total.interval.high
    total = (
        f"{found.metric} is {_value(found, found.before)} on {found.old} and "
        f"{_value(found, found.after)} on {found.new}: {percent(found.total.value)} "
        f"({low - 1:+.1%} to {high - 1:+.1%})"
    )
    if low <= 1 <= high:
        return f"{total}, which chance explains."
    if not found.contributions:
        return f"{total}; no change that can be switched makes it alone."
    first = found.contributions[0]
    return f"{total}, most by {first.change.label}: {percent(first.ratio.value)}."


def _value(found: Regression, value: float) -> str:
    return f"{value:,.0f}" if found.metric == "switches" else short_time(value)


def _interval(estimate: Estimate) -> str:
    return f"{estimate.interval.low - 1:+.1%} to {estimate.interval.high - 1:+.1%}"


def _print(found: Regression) -> None:
    say(answer(found))
    if found.contributions:
        heading("Changes")
        rows = [_row(one) for one in found.contributions]
        rest = ("other changes and what is not attributed", percent(found.rest.value))
        rows.append((*rest, _interval(found.rest), "", ""))
        show(rows, ("change", "effect", "95% interval", "added alone", "taken back"), left=1)
    if found.undo:
        heading(f"Settings of {found.new} that bring it back")
        show(
            [
                (
                    one.setting,
                    percent(one.ratio.value),
                    _interval(one.ratio),
                    "" if one.cost is None else f"{one.cost} +{short_time(one.cost_ns)}",
                )
                for one in found.undo
            ],
            ("setting", f"against {found.old}", "95% interval", "waits longer"),
            left=1,
        )
    untried = f"; not switched: {', '.join(found.untried)}" if found.untried else ""
    say(f"{found.switched} changes tried{untried}")


def _row(one: Contribution) -> tuple[str, ...]:
    return (
        one.change.label,
        percent(one.ratio.value),
        _interval(one.ratio),
        percent(one.added),
        percent(one.reverted),
    )


def as_json(found: Regression, checks: Sequence[Check] = ()) -> dict[str, object]:
    """Return a regression as plain data, its answer first."""
    verified = [asdict(one) for one in checks]
    return {"answer": answer(found), **asdict(found), "verified": verified}
