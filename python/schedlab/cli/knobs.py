"""``schedlab knobs``, ``schedlab knobs set`` and ``schedlab knobs restore``."""

import re
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import Annotated

import typer

from schedlab.boundary.errors import InputError, RunError
from schedlab.cli import options
from schedlab.knobs import (
    Knob,
    PutBack,
    Reading,
    applied,
    commands,
    pending,
    read_all,
    restore,
    table,
)
from schedlab.knobs.journal import Entry
from schedlab.model import Scheduler, settings
from schedlab.processes import processes
from schedlab.report.terminal import emit_json, note, say, show
from schedlab.report.text import by_reason
from schedlab.targets.facts import facts

_SETTING = re.compile(r"[a-z_]+(\.[A-Z_]+)?=.*")

app = typer.Typer(invoke_without_command=True, no_args_is_help=False)


@app.callback(invoke_without_command=True)
def command(
    context: typer.Context,
    kernel: options.Kernel = None,
    cpus: options.Cpus = None,
    json: options.Json = False,
) -> None:
    """List the scheduler's knobs: value, place, and whether it may be set here.

    With --kernel: another release's knobs, with their ranges and defaults.

    Example: [bold]schedlab knobs --kernel 6.1 --cpus 4[/bold]
    """
    if context.invoked_subcommand is not None:
        return
    if kernel is not None:
        _list_release(Scheduler(kernel), facts().cpus if cpus is None else cpus, json=json)
    else:
        _list_present(facts().cpus if cpus is None else cpus, json=json)


@app.command(
    "set",
    context_settings={"allow_interspersed_args": False, "ignore_unknown_options": True},
)
def set_command(
    words: Annotated[
        list[str],
        typer.Argument(
            help="Settings, then the command to run under them.", metavar="KNOB=VALUE… COMMAND…"
        ),
    ],
) -> None:
    """Run a command with knobs set, and put them back at its end, whatever ends it.

    Exits with the command's own exit code.

    Example: [bold]schedlab knobs set rr_timeslice=10ms -- sleep 1[/bold]
    """
    pairs = list(takewhile(_SETTING.fullmatch, words))
    run = words[len(pairs) :]
    if run[:1] == ["--"]:
        del run[0]
    if not pairs or not run:
        raise InputError("write settings and then a command: rr_timeslice=10ms -- ./my-benchmark")
    here = facts()
    with applied(settings(pairs), here.release, here.cpus):
        code = processes.attend(run)
    raise typer.Exit(code)


@app.command("restore")
def restore_command(
    forget: Annotated[
        bool,
        typer.Option("--forget", help="Give up what cannot be put back; the journal is kept."),
    ] = False,
    printed: Annotated[
        bool,
        typer.Option("--print", help="Print the commands that would do it, and change nothing."),
    ] = False,
    json: options.Json = False,
) -> None:
    """Put back the knobs that a run which was killed had set.

    A knob that another process has set since then is left as it is. Exits with 1 if there is one.

    Example: [bold]schedlab knobs restore --print[/bold]
    """
    if printed:
        if forget:
            raise InputError("--print changes nothing: leave --forget out")
        _print_commands(json=json)
        return
    done = restore(forget=forget)
    back = [one for one in done if not one.left]
    left = [one for one in done if one.left]
    if json:
        emit_json({"restored": [_restored(one) for one in back], "left": [*map(_restored, left)]})
    elif not done:
        say("nothing to put back")
    elif back:
        cells = [(one.knob, one.place, one.found or "?", one.original) for one in back]
        show(cells, ("knob", "place", "found", "put back"), left=2)
    if left:
        raise RunError(f"another process has set knobs: {'; '.join(map(str, left))}")


def _print_commands(*, json: bool) -> None:
    lines, left = commands(), pending()
    if json:
        emit_json({"commands": lines})
        return
    for line in lines:
        say(line)
    if not left:
        say("# nothing to put back")
    elif _runs(left):
        note(_who_set(left))


def _restored(one: PutBack) -> dict[str, str | None]:
    names = ("knob", "place", "found", "original", "setting")
    return {name: getattr(one, name) for name in names}


def _list_release(scheduler: Scheduler, count: int, *, json: bool) -> None:
    release, notes = scheduler.release, scheduler.notes
    rows = [knob for knob in table(release, count) if knob.exists]
    if json:
        plain = [{**_plain(knob), "present": None} for knob in rows]
        emit_json({"release": release, "cpus": count, "notes": notes, "knobs": plain})
        return
    for text in notes:
        note(text)
    say(f"knobs of {release} on {count} CPUs")
    say()
    cells = [(knob.name, _path(knob), knob.range, knob.default_text or "") for knob in rows]
    show(cells, ("knob", "place", "range", "default"), left=2)


def _list_present(count: int, *, json: bool) -> None:
    here = facts()
    readings = read_all(here.release, count)
    lacking = [knob for knob in table(here.release, count) if not knob.exists]
    left = pending()
    if json:
        emit_json(
            {
                "release": here.release,
                "cpus": count,
                "notes": [] if here.stand_in is None else [here.stand_in],
                "knobs": [_reading(reading) for reading in readings],
                "lacking": [{"name": knob.name, "instead": knob.instead} for knob in lacking],
                "pending": [
                    {
                        "name": entry.knob,
                        "place": str(entry.place),
                        "original": entry.original,
                        "setting": entry.setting,
                        "pid": entry.pid,
                    }
                    for entry in left
                ],
            }
        )
        return
    say(f"knobs of this kernel, {here.kernel}, on {count} CPUs")
    say()
    cells = [
        (
            reading.knob.name,
            _path(reading.knob),
            reading.value or "?",
            reading.knob.default_text or "",
            reading.knob.range,
            "yes" if reading.settable else "no",
        )
        for reading in readings
    ]
    show(cells, ("knob", "place", "value", "default", "range", "may be set"), left=2)
    say()
    for why, names in by_reason(reading for reading in readings if not reading.settable):
        say(f"cannot be set: {', '.join(names)}")
        say(f"  for {why}")
    if here.stand_in:
        note(here.stand_in)
    say("this kernel lacks:")
    for knob in lacking:
        if not knob.is_feature:
            say(f"  {knob.name}: {knob.instead}")
    others = [knob.name for knob in lacking if knob.is_feature]
    if others:
        say(f"  features of other kernels: {', '.join(others)}")
    if left:
        note(_who_set(left))


def _who_set(left: Sequence[Entry]) -> str:
    pid = left[0].pid
    names = ", ".join(sorted({entry.knob for entry in left}))
    if _runs(left):
        return f"{names}: set by a run that is going on (pid {pid})"
    return (
        f"{names}: left set by a run that was killed (pid {pid}); 'schedlab knobs restore' puts "
        "back what they were"
    )


def _runs(left: Sequence[Entry]) -> bool:
    return Path(f"/proc/{left[0].pid}").exists()


def _reading(reading: Reading) -> dict[str, object]:
    return {
        **_plain(reading.knob),
        "present": reading.value,
        "settable": reading.settable,
        "obstacle": reading.obstacle,
        "why": reading.why,
    }


def _path(knob: Knob) -> str:
    return (knob.path or "").replace("/cpu0/", "/cpu*/")


def _plain(knob: Knob) -> dict[str, object]:
    return {name: getattr(knob, name) for name in Knob.__dataclass_fields__}
