"""``schedlab why``."""

import json as jsonlib
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from schedlab.attribution import remedies
from schedlab.attribution.remedies import Effect
from schedlab.attribution.waiting import Cause, Wait, Waiting, why, why_recorded
from schedlab.boundary.errors import InputError, RunError
from schedlab.boundary.files import write_text
from schedlab.cli import options
from schedlab.measure.inference import infer
from schedlab.model import Machine, Scheduler, Workload, short_time
from schedlab.report import waits
from schedlab.report.terminal import emit_json, heading, note, say, show, waiting
from schedlab.report.waits import timeline_rows
from schedlab.report.words import counted, percent


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
    task: Annotated[
        str | None,
        typer.Option(
            "--task",
            metavar="NAME",
            help="A task, or the name of several; the one that waits longest otherwise.",
        ),
    ] = None,
    percentile: Annotated[
        float,
        typer.Option("--percentile", metavar="P", help="Percentile of the latencies to explain."),
    ] = 99,
    worst: Annotated[
        int, typer.Option("--worst", metavar="N", help="How many of the longest waits to show.")
    ] = 10,
    kernel: options.Kernel = None,
    cpus: options.Cpus = None,
    topology: options.Topology = None,
    speed: options.Speed = None,
    hz: options.Hz = None,
    knobs: options.Set = None,
    rule: options.Rule = None,
    group: options.Group = None,
    session: options.Session = None,
    costs: options.Costs = None,
    background: options.Background = None,
    seed: options.Seed = 1,
    runs: Annotated[
        int,
        typer.Option(
            "--runs", metavar="N", help="Seeds to simulate each change over; 0: no changes."
        ),
    ] = remedies.RUNS,
    level: Annotated[
        str | None,
        typer.Option("--level", metavar="LEVEL", help="Of a recording: L0, L0k or L1."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Report to write (.html)."),
    ] = None,
    json: options.Json = False,
) -> None:
    """Say why tasks waited, rule by rule, and which changes shorten the wait.

    Each nanosecond from runnable to running has one cause: behind which task, by which rule of the
    scheduler and by how much. The knobs, features and attributes that act on the leading causes are
    simulated, each alone, over several seeds.

    A recording is replayed for its causes; the changes are simulated on the workload inferred from
    it.

    Example: [bold]schedlab why schbench:duration=200ms --kernel 6.12 --cpus 2 --costs reference
    --worst 3[/bold]
    """
    if runs == 1:
        raise InputError("--runs is 1; allowed: 0, or 2 and more")
    if output is not None and output.suffix != ".html":
        raise InputError(f"--output is '{output}'; allowed: a name that ends in .html")
    if is_recording(source):
        _refuse(
            "a recording",
            topology=topology,
            speed=speed,
            background=background,
            hz=hz,
            rule=rule,
            cpus=cpus,
        )
        _refuse("a recording", set=knobs, group=group, session=session)
        with waiting("replaying"):
            found = why_recorded(
                Path(source),
                kernel=kernel,
                level=level,
                task=task,
                percentile=percentile,
                worst=worst,
            )
        effects, notes = _changes_of_recording(Path(source), found, costs, seed, runs)
    else:
        _refuse("a simulated workload", level=level)
        work = Workload.parse(source).with_groups(group or [], session or [])
        scheduler = options.scheduler_of(kernel, hz, knobs, None, rule)
        machine = options.machine_of(cpus, costs, topology, speed, background)
        options.note_costs(machine)
        with waiting("simulating"):
            found = why(
                work,
                scheduler=scheduler,
                machine=machine,
                task=task,
                percentile=percentile,
                worst=worst,
                seed=seed,
            )
            effects = _changes(found, work, scheduler, machine, (seed, runs))
        notes = list(scheduler.notes)
    for text in (*found.notes, *notes):
        note(text)
    if output is not None:
        write_text(output, waits.report(found, effects, source))
    if json:
        emit_json(_as_json(found, effects))
        return
    _print(found, effects)
    if output is not None:
        say(f"report: {output}")


def _refuse(what: str, **given: object) -> None:
    for name, value in given.items():
        if value is not None:
            raise InputError(f"--{name} means nothing with {what}: leave it out")


def is_recording(source: str) -> bool:
    """Return whether the words name a recording: a file that is no workload's."""
    return source.endswith((".gz", ".txt", ".dat")) or (
        not source.endswith(".json") and Path(source).is_file()
    )


def _changes(
    found: Waiting,
    work: Workload,
    scheduler: Scheduler,
    machine: Machine,
    sampled: tuple[int, int],
    *,
    name: str | None = None,
) -> list[Effect]:
    """Return the effects of changes; ``name`` is what the workload calls the task."""
    seed, runs = sampled
    if runs == 0 or found.task is None:
        return []
    called = name or found.task.name.partition("[")[0].partition(".")[0]
    return remedies.predict(
        remedies.remedies(found, work, scheduler, machine, name=called),
        called,
        work,
        scheduler,
        machine,
        percentile=found.percentile,
        seed=seed,
        runs=runs,
    )


def _changes_of_recording(
    trace: Path, found: Waiting, costs: str | None, seed: int, runs: int
) -> tuple[list[Effect], list[str]]:
    """Return the effects on the workload inferred from a recording, and what to know of them."""
    if runs == 0 or not found.worst:
        return [], []
    machine = options.machine_of(1, costs)
    pid = found.worst[0].task.rpartition("[")[2].removesuffix("]")
    try:
        inferred = infer(trace, costs=machine.costs)
        scheduler = inferred.scheduler or Scheduler(found.release)
        place = Machine.recorded(inferred.cpus or 1, machine.costs)
        work = inferred.workload
        names = [task["name"] for task in jsonlib.loads(work.json)["tasks"]]
        name = next((name for name in names if name.endswith(f"-{pid}")), None)
        if name is None:
            return [], [f"no changes are simulated: task {pid} is not in the inferred workload"]
        effects = _changes(found, work, scheduler, place, (seed, runs), name=name)
    except (InputError, RunError) as error:
        return [], [f"no changes are simulated: {error}"]
    return effects, [
        f"changes are simulated on the inferred workload, whose {name} stands for "
        f"{found.worst[0].task}; 'schedlab infer --check' says how far it may be relied on"
    ]


def _print(found: Waiting, effects: list[Effect]) -> None:
    say(found.answer)
    task = found.task
    if task is None:
        return
    heading(f"{task.name}: {counted(task.tail_waits, task.of[:-1])} from p{found.percentile:g} on")
    show([_cause_row(cause) for cause in task.tail], _CAUSE_COLUMNS, left=1)
    heading("All waits")
    rows = [
        (
            one.name,
            one.causes[0].label if one.causes else "",
            str(one.waits),
            short_time(one.wait_ns),
            short_time(one.p50_ns),
            short_time(one.percentile_ns),
            short_time(one.max_ns),
        )
        for one in found.tasks
    ]
    columns = ("task", "most for", "waits", "in total", "p50", f"p{found.percentile:g}", "longest")
    show(rows, columns, left=2)
    say(f"{found.attributed:.2%} of the waiting time has a cause; rules of {found.release}")
    for number, wait in enumerate(found.worst, 1):
        _print_wait(number, wait)
    if effects:
        heading("What would change it")
        show([_effect_row(effect) for effect in effects], _EFFECT_COLUMNS, left=1)


_CAUSE_COLUMNS = ("cause", "share", "time", "spans", "margin")
_EFFECT_COLUMNS = ("change", "percentile", "95% interval", "turnaround", "waits longer")


def _cause_row(cause: Cause) -> tuple[str, ...]:
    margin = short_time(cause.margin_ns) + (" virtual" if cause.margin_is_virtual else "")
    return (
        cause.label,
        f"{cause.share:.1%}",
        short_time(cause.wait_ns),
        str(cause.spans),
        margin if cause.margin_ns else "",
    )


def _effect_row(effect: Effect) -> tuple[str, ...]:
    low, high = effect.ratio.interval.low, effect.ratio.interval.high
    hurt = "" if effect.hurt is None else f"{effect.hurt} +{short_time(effect.hurt_ns)}"
    return (
        effect.name,
        percent(effect.ratio.value),
        f"{low - 1:+.1%} to {high - 1:+.1%}",
        percent(effect.turnaround.value),
        hurt,
    )


def _print_wait(number: int, wait: Wait) -> None:
    end = "" if wait.ran else ", until the run was over"
    heading(
        f"{number}. {wait.task}: {short_time(wait.length_ns)} at {wait.began_ns / 1e9:.6f} s, "
        f"CPU {wait.cpu}, {wait.kind}{end}"
    )
    rows = [
        (
            span.label,
            short_time(span.length_ns),
            (short_time(span.margin_ns) if span.margin_ns else "")
            + (" virtual" if span.margin_ns and span.margin_is_virtual else ""),
        )
        for span in wait.spans
    ]
    show(rows, ("cause", "time", "margin"), left=1)
    for line in timeline_rows(wait):
        say(line)


def _as_json(found: Waiting, effects: list[Effect]) -> dict[str, object]:
    return {
        "answer": found.answer,
        "attributed": found.attributed,
        **asdict(found),
        "changes": [
            {
                "change": effect.name,
                "ratio": effect.ratio.value,
                "low": effect.ratio.interval.low,
                "high": effect.ratio.interval.high,
                "turnaround": effect.turnaround.value,
                "hurt": effect.hurt,
                "hurt_ns": effect.hurt_ns,
            }
            for effect in effects
        ],
    }
