"""``schedlab verify``."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from schedlab.boundary.errors import InputError, RunError, reading
from schedlab.cli import comparison, options, setting_file
from schedlab.experiment import campaign
from schedlab.programs import from_definition
from schedlab.programs.command import Command
from schedlab.report import verification as words_of
from schedlab.report.terminal import emit_json, note, running
from schedlab.store import Store
from schedlab.targets.target import label
from schedlab.tuning import verification
from schedlab.tuning.verification import Certified, Session


def command(
    setting: Annotated[
        str,
        typer.Argument(
            metavar="SETTING",
            help="A tuning's id or its beginning ('schedlab report --list'), for the setting that "
            "it certified; or that setting, as 'policy=batch, slice=3ms'.",
        ),
    ],
    *,
    later: Annotated[
        bool,
        typer.Option(
            "--later",
            help="Run the comparison that certified it again, now: in a new boot of the guest, or "
            "in whichever boot this kernel is.",
        ),
    ] = False,
    load: Annotated[
        list[str] | None,
        typer.Option(
            "--load",
            metavar="KEY=A,B",
            help="Of --later: loads to run it under, as concurrency=8,32,128. KEY is one of the "
            "workload's, or an option of the command. Given again, all combinations.",
        ),
    ] = None,
    boots: Annotated[
        int | None,
        typer.Option(
            "--boots",
            metavar="N",
            help="Of --later in a guest: boot so many guests and run it in each; 1 otherwise.",
            show_default=False,
        ),
    ] = None,
    blocks: Annotated[
        int | None,
        typer.Option(
            "--blocks",
            metavar="N",
            min=2,
            help="Of --later: pairs of setting and default at the most; as many as certified it "
            "otherwise.",
            show_default=False,
        ),
    ] = None,
    timeout: Annotated[
        str | None,
        typer.Option("--timeout", metavar="TIME", help="Of --later: time limit of a real run."),
    ] = None,
    store: comparison.File = None,
    exported: setting_file.Export = None,
    uncertified: setting_file.Uncertified = False,
    json: options.Json = False,
) -> None:
    """Show under what conditions a certified setting gains, and see with --later whether it lasts.

    The comparison that certified the setting runs again, with fresh seeds and orders, and is judged
    as then: on another day, in another boot, under each load of a grid. All verdicts of a session
    are right together. The store keeps each session with the setting, and the boot, kernel, time
    and load average of each run; --export names them in the file.

    A session that is stopped goes on with the same command; one that ended is followed by another.

    Example: [bold]schedlab verify 3f9a --later --load concurrency=8,32,128[/bold]
    """
    if not later:
        given = {"load": load, "boots": boots, "blocks": blocks, "timeout": timeout}
        for name, value in given.items():
            if value is not None:
                raise InputError(f"--{name} means nothing without --later: leave it out")
    file = setting_file.wanted(exported)
    if uncertified and file is None:
        raise InputError("--uncertified means nothing without --export: leave it out")
    with Store(store, create=False) as kept:
        damaged = f"store '{kept.path}' is damaged"
        with reading(damaged):
            of = verification.find(setting, kept)
        if file is not None:
            _check_exportable(of)
        if later:
            _run(of, kept, load or (), boots, blocks, timeout)
        with reading(damaged):
            first, found = verification.certification(of, kept), verification.sessions(of, kept)
    if json:
        emit_json(words_of.plain(of, first, found))
    else:
        words_of.describe(of, first, found)
    if file is not None:
        _write(file, of, found, words_of.conditions(of, first, found), uncertified=uncertified)


def _run(  # noqa: PLR0917 - all of them differ in kind
    of: Certified,
    kept: Store,
    load: Sequence[str],
    boots: int | None,
    blocks: int | None,
    timeout: str | None,
) -> Session:
    words = options.words()
    with ExitStack() as stack, running(f"comparing on {of.place['target']}") as tell:
        try:
            return verification.verify_later(
                of,
                kept,
                load=load,
                boots=1 if boots is None else boots,
                blocks=blocks,
                timeout=None if timeout is None else options.seconds(timeout, "timeout"),
                command=words,
                progress=comparison.telling_progress(tell),
                opened=lambda places: stack.enter_context(comparison.ending(places)),
            )
        except (campaign.Interrupted, RunError):
            comparison.note_kept(kept, words)
            raise


def _check_exportable(of: Certified) -> None:
    (place,) = verification.places(of)
    if label(place) != place.release:
        raise InputError(
            "--export writes settings of a kernel, and none has the rules under which this one was "
            "certified"
        )


def _write(
    file: tuple[str, Path],
    of: Certified,
    found: Sequence[Session],
    conditions: Sequence[str],
    *,
    uncertified: bool,
) -> None:
    """Write the setting with its conditions, unless its gain held nowhere in the last session."""
    lasts = not found or found[-1].holds > 0
    if not (lasts or uncertified):
        raise RunError(
            f"'{file[1]}' was not written: the gain of {of.setting} held in no condition of the "
            "last session; --uncertified writes it all the same"
        )
    (subject, *_) = (from_definition(one) for one in of.workloads.values())
    setting_file.write(
        file,
        of.setting,
        str(of.place["release"]),
        int(of.place["cpus"]),
        command=subject.words if isinstance(subject, Command) else (),
        why=f"for {'; '.join(of.workloads)}",
        certified=lasts,
        conditions=conditions,
    )
    if lasts and found and found[-1].holds < len(found[-1].conditions):
        note("the gain does not hold under every condition, as the file says")
