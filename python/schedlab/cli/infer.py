"""``schedlab infer``."""

import shlex
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from schedlab.cli import options
from schedlab.measure.inference import Inferred, infer, simulated
from schedlab.measure.similarity import Figure, Likeness, likeness
from schedlab.model import Machine, Scheduler, settings, short_time
from schedlab.report.terminal import emit_json, note, say, show

MOST_HELD_UP = 0.05
"""The part of the recorded CPU time that may be without ticks before it is said."""


def command(
    trace: Annotated[
        Path,
        typer.Argument(
            metavar="TRACE",
            help="A recording of schedlab, perf, trace-cmd or Perfetto; or .gz.",
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
        typer.Option("--from", metavar="TIME", help="Leave out what comes before this time."),
    ] = None,
    end: Annotated[
        str | None,
        typer.Option("--to", metavar="TIME", help="Leave out what comes after this time."),
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
    """Infer a workload from a recording of a real system, to ask what other settings would do.

    Each task's CPU time and sleeps, wake-ups, timers, births, policies, groups and CPUs, as a
    workload that 'schedlab run' takes. --costs are taken off the recorded CPU time, as a simulated
    run charges them: give 'run' the same.

    With --check it is simulated under the recorded settings (those of --kernel, --cpus and --set
    where the recording does not say them) and compared: exits with 1 unless shares are within 2
    points, switches within 15 % and the 99th percentile of wake-up latencies within 30 %. It says
    which of these three the workload may be asked for, and why little follows from a figure.

    Example: [bold]schedlab infer crates/infer/tests/fixtures/serving-recorded.txt.gz --costs ideal
    --from 100ms --check -o /tmp/workload.json[/bold]
    """
    place = options.machine_of(1, costs)
    options.note_costs(place)
    options.output(output)
    inferred = infer(trace, costs=place.costs, start=start, end=end, ending=ending)
    scheduler, notes = _scheduler(inferred, kernel, knobs)
    notes = [*scheduler.notes, *notes, *inferred.limits, *_held_up(inferred), *_missing(inferred)]
    number = cpus or inferred.cpus or 1
    compared = None
    if check:
        machine = Machine.recorded(number, place.costs)
        phase = inferred.phase_ns
        found = simulated(inferred.workload, scheduler, machine, seed=seed, phase_ns=phase)
        compared = likeness(inferred.behaviour, found)
        notes += _notes(compared, inferred, place.costs.name)
        if not compared.holds and start is None:

            def later(begin: str) -> Likeness:
                part = infer(trace, costs=place.costs, start=begin, end=end, ending=ending)
                found = simulated(
                    part.workload, scheduler, machine, seed=seed, phase_ns=part.phase_ns
                )
                return likeness(part.behaviour, found)

            notes += start_up(inferred.counts["span_ns"], later)
    if output is not None:
        inferred.save(output)
    notes = list(dict.fromkeys([*scheduler.notes, *notes]))
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
                "check": None
                if compared is None
                else [asdict(one) | {"holds": one.holds} for one in compared.figures],
                "holds": None if compared is None else compared.holds,
                "trusted": None if compared is None else compared.trusted,
                "notes": notes,
            }
        )
    else:
        _print(inferred, under, told=output is not None)
        if compared is not None:
            _print_likeness(compared, scheduler)
    for text in notes:
        note(text)
    if compared is not None and not compared.holds:
        raise typer.Exit(1)


def _scheduler(
    inferred: Inferred, kernel: str | None, knobs: list[str] | None
) -> tuple[Scheduler, list[str]]:
    """Return the recorded settings, with those that were given in their place, and what to know."""
    found = inferred.scheduler
    given = settings(knobs or [])
    if found is None or (kernel is not None and kernel != found.release):
        stands_in = "the recording does not say its kernel: 6.1 stands in (--kernel says another)"
        return Scheduler(kernel or "6.1", knobs=given), [] if kernel else [stands_in]
    return found.with_knobs(given), []


def _held_up(inferred: Inferred) -> list[str]:
    """Return that the recorded machine did not run all the time, if it did not."""
    lost, span = inferred.counts["held_up_ns"], inferred.counts["span_ns"]
    if lost <= MOST_HELD_UP * span * (inferred.cpus or 1):
        return []
    return [
        f"timer ticks are missing for {short_time(lost)} of {short_time(span)}: the recorded CPUs "
        "were held up, as a guest's on a busy machine; record again, or in a guest whose clock "
        "counts instructions (--on vm:6.1 --clock instructions)"
    ]


def _missing(inferred: Inferred) -> list[str]:
    """Return that switches are missing, if any are."""
    missing = inferred.counts["switches_missing"]
    if not missing:
        return []
    return [
        f"{missing} switches are missing: the recorded kernel traces nothing of some tasks; each "
        "is taken to sleep once its CPU is seen to run another one, so its CPU time is an estimate"
    ]


def _command(output: Path | None, scheduler: Scheduler, cpus: int, costs: str) -> str:
    """Return the command that simulates it as recorded."""
    words = ["schedlab", "run", str(output or "WORKLOAD.json"), "--kernel", scheduler.release]
    words += ["--hz", str(scheduler.hz), "--cpus", str(cpus), "--costs", costs]
    for name, value in scheduler.knobs.items():
        words += ["--set", f"{name}={value}"]
    return shlex.join(words)


def _print(inferred: Inferred, under: str, *, told: bool) -> None:
    counts = inferred.counts
    threads = f", {counts['kernel_threads']} kernel threads" if counts["kernel_threads"] else ""
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
        ("unknown", counts["woken_by_unknown"]),
    ]
    say()
    show([(name, str(number)) for name, number in wakeups], ("woken by", "sleeps"))
    say()
    taken = short_time(counts["costs_ns"])
    left = f", {short_time(counts['uncovered_ns'])} not" if counts["uncovered_ns"] else ""
    say(f"costs that a simulation charges separately: {taken} subtracted{left}")
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

    say()
    if compared.holds:
        say("all three figures may be relied on under other settings")
    else:
        asked = f"ask it for {' and '.join(compared.trusted)}, " if compared.trusted else ""
        say(f"{asked}not for {' or '.join(compared.doubted)}, under other settings")


def _notes(compared: Likeness, inferred: Inferred, costs: str) -> list[str]:
    """Return what to know before relying on the check, or on what failed in it."""
    notes = [f"{figure.name}: {figure.caution}" for figure in compared.figures if figure.caution]
    if inferred.level in ("L0k", "L1"):
        notes.append(
            f"recorded at level {inferred.level}: its probes take CPU time and delay preemption; "
            "record with --level L0"
        )
    if not compared.holds and inferred.scheduler is not None and costs == "ideal":
        notes.append(
            "--costs ideal: switches, wake-ups and preemption take no time in the simulation; "
            "costs measured on the recorded machine (schedlab calibrate) may bring it closer"
        )
    return notes


START_UPS = (100_000_000, 300_000_000, 1_000_000_000)
"""How much of a recording may be start-up, in nanoseconds; at most half of it."""


def start_up(span_ns: int, later: Callable[[str], Likeness]) -> list[str]:
    """Return from when on a check holds that fails from the start, if there is such a time.

    Args:
        span_ns: how long the recording is.
        later: compares the part of the recording that begins then.
    """
    for begin in START_UPS:
        if 2 * begin <= span_ns and later(f"{begin}ns").holds:
            return [
                f"without its first {short_time(begin)} all three hold: what a program does while "
                f"it starts is not all recorded; leave it out (--from {begin // 1_000_000}ms)"
            ]
    return []


def _value(figure: Figure, value: float) -> str:
    if figure.name == "shares":
        return f"{value:.1%}"
    return f"{value:.0f}" if figure.name == "switches" else short_time(value)


def _difference(figure: Figure, value: float | None) -> str:
    if value is None:
        return "nothing to compare"
    return f"{value:.2f} points" if figure.name == "shares" else f"{value:.1%}"
