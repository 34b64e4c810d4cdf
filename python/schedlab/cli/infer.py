"""``schedlab infer``."""

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from schedlab.cli import options
from schedlab.inference import Inferred, infer, simulated
from schedlab.likeness import Figure, Likeness, likeness
from schedlab.model import Machine, Scheduler, settings, short_time
from schedlab.report.terminal import emit_json, note, say, show


def command(
    trace: Annotated[
        Path,
        typer.Argument(
            metavar="TRACE",
            help="A recording (schedlab record), or the text of 'trace-cmd report -t -l'; or .gz.",
        ),
    ],
    *,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Workload to write (.json)."),
    ] = None,
    costs: options.Costs = None,
    start: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", help="Look at it from then on, since its start."),
    ] = None,
    end: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="Look at it until then.")
    ] = None,
    ending: Annotated[
        Literal["work", "time"] | None,
        typer.Option(
            "--ends",
            help="When a run of it is over: with the work that was recorded, or after the time; "
            "with the work if the recorded command ended.",
        ),
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Simulate it under the recorded settings, and compare."),
    ] = False,
    kernel: options.Kernel = None,
    cpus: options.Cpus = None,
    knobs: options.Set = None,
    seed: options.Seed = 1,
    json: options.Json = False,
) -> None:
    """Infer a workload from a recording of a real system, to ask what would have been.

    Each task's CPU time and sleeps, who wakes whom, timers, births, policies, groups and CPUs, as a
    workload that 'schedlab run' takes. --costs are taken off the recorded CPU time, as a simulated
    run charges them: give 'run' the same.

    With --check it is simulated under the recorded settings (those of --kernel, --cpus and --set
    where the recording does not say them) and compared: exits with 1 unless shares are within 2
    points, switches within 15 % and the 99th percentile of wake-up latencies within 30 %.

    Example: [bold]schedlab infer crates/replay/tests/fixtures/k61-hackbench.txt.gz --costs ideal
    -o /tmp/workload.json[/bold]
    """
    place = options.machine_of(1, costs)
    options.output(output)
    inferred = infer(trace, costs=place.costs, start=start, end=end, ending=ending)
    scheduler = _scheduler(inferred, kernel, knobs)
    number = cpus or inferred.cpus or 1
    compared = None
    if check:
        machine = Machine(number, place.costs)
        phase = inferred.phase_ns
        found = simulated(inferred.workload, scheduler, machine, seed=seed, phase_ns=phase)
        compared = likeness(inferred.behaviour, found)
    if output is not None:
        inferred.save(output)
    under = _command(output, scheduler, number, place.costs.name)
    if json:
        emit_json(
            {
                "counts": dict(inferred.counts),
                "ending": inferred.ending,
                "release": scheduler.release,
                "cpus": number,
                "knobs": dict(scheduler.knobs),
                "run": under,
                "check": None if compared is None else [asdict(one) for one in compared.figures],
                "holds": None if compared is None else compared.holds,
            }
        )
    else:
        _print(inferred, under, told=output is not None)
        if compared is not None:
            _print_likeness(compared, scheduler)
    if compared is not None and not compared.holds:
        raise typer.Exit(1)


def _scheduler(inferred: Inferred, kernel: str | None, knobs: list[str] | None) -> Scheduler:
    """Return the recorded settings, with those that were given in their place."""
    found = inferred.scheduler
    given = settings(knobs or [])
    if found is None or (kernel is not None and kernel != found.release):
        scheduler = Scheduler(kernel or "6.1", knobs=given)
        if kernel is None:
            note("the recording does not say its kernel: 6.1 stands in (--kernel says another)")
        return scheduler
    return found.with_knobs(given)


def _command(output: Path | None, scheduler: Scheduler, cpus: int, costs: str) -> str:
    """Return the command that simulates it as recorded."""
    words = ["schedlab", "run", str(output or "WORKLOAD.json"), "--kernel", scheduler.release]
    words += ["--hz", str(scheduler.hz), "--cpus", str(cpus), "--costs", costs]
    for name, value in scheduler.knobs.items():
        words += ["--set", f"{name}={value}"]
    return shlex.join(words)


def _print(inferred: Inferred, under: str, *, told: bool) -> None:
    counts = inferred.counts
    threads = f", {counts['kernel_threads']} of the kernel's" if counts["kernel_threads"] else ""
    say(
        f"{counts['events']} events in {short_time(counts['span_ns'])}: {counts['tasks']} tasks"
        f"{threads}, {counts['steps']} steps, {counts['forks']} forks, {counts['exits']} ends"
    )
    at = [
        (f"  of those at {name}", counts[f"at_{name}"])
        for name in ("locks", "channels", "children")
        if counts[f"at_{name}"]
    ]
    wakeups = [
        ("another task", counts["woken_by_tasks"]),
        *at,
        ("its timer", counts["woken_by_timers"]),
        ("an interrupt", counts["woken_by_interrupts"]),
        ("not known", counts["woken_by_unknown"]),
    ]
    say()
    show([(name, str(number)) for name, number in wakeups], ("woken by", "sleeps"))
    say()
    taken = short_time(counts["costs_ns"])
    left = f", {short_time(counts['uncovered_ns'])} not" if counts["uncovered_ns"] else ""
    say(f"costs that are charged by themselves: {taken} taken off{left}")
    ends = "its tasks have done their work" if inferred.ending == "work" else "its time is over"
    say(f"a run ends when {ends}")
    if told:
        say(f"as recorded: {under}")


def _print_likeness(compared: Likeness, scheduler: Scheduler) -> None:
    say()
    say(f"simulated as recorded, {scheduler}:")
    rows = [
        (
            figure.name,
            figure.subject,
            _value(figure, figure.real),
            _value(figure, figure.simulated),
            _difference(figure, figure.difference),
            _difference(figure, figure.limit),
            "yes" if figure.holds else "no",
        )
        for figure in compared.figures
    ]
    show(rows, ("", "of", "recorded", "simulated", "off by", "allowed", "holds"))


def _value(figure: Figure, value: float) -> str:
    if figure.name == "shares":
        return f"{value:.1%}"
    return f"{value:.0f}" if figure.name == "switches" else short_time(value)


def _difference(figure: Figure, value: float | None) -> str:
    if value is None:
        return "nothing to compare"
    return f"{value:.2f} points" if figure.name == "shares" else f"{value:.1%}"
