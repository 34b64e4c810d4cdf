"""``--export``: a setting in a file that makes it permanent."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from schedlab import tuning
from schedlab.boundary.errors import InputError
from schedlab.boundary.files import write_text
from schedlab.cli import options
from schedlab.experiment.settings import Setting
from schedlab.report.terminal import note
from schedlab.tuning.export_formats import FILES

Export = Annotated[
    str | None,
    typer.Option("--export", metavar="KIND[:FILE]", help=f"Write the setting: {', '.join(FILES)}."),
]
Uncertified = Annotated[
    bool,
    typer.Option(
        "--uncertified", help="Let --export write a setting that fresh runs do not certify."
    ),
]


def wanted(text: str | None) -> tuple[str, Path] | None:
    """Read ``kind:file``, and refuse a file that could not be written after hours of runs.

    Raises:
        InputError: an unknown format, or a file that cannot be written.
    """
    if text is None:
        return None
    kind, _, name = text.partition(":")
    if kind not in FILES:
        raise InputError(f"--export is '{text}'; allowed: {', '.join(FILES)}, each with :FILE")
    path = Path(name or FILES[kind])
    options.output(path)
    return kind, path


def write(
    file: tuple[str, Path],
    setting: Setting,
    release: str,
    cpus: int,
    *,
    command: Sequence[str],
    why: str,
    certified: bool,
    conditions: Sequence[str],
) -> None:
    """Write a setting, and say where the system looks for the file.

    Args:
        file: the format and the file.
        setting: what to write; other arguments are those of `schedlab.tuning.export`.
        release: the kernel it is for.
        cpus: of the machine it is for.
        command: what runs under its policy.
        why: what it was tuned for.
        certified: whether fresh runs certify it.
        conditions: under what they do.
    """
    kind, path = file
    made = tuning.export(
        kind,
        setting,
        release,
        cpus,
        command=command,
        why=why,
        certified=certified,
        conditions=conditions,
    )
    write_text(path, made.text)
    for sentence in made.left_out:
        note(sentence)
    note(f"written to {path}; the system looks for it in {made.place}")
    if not certified:
        note(f"{setting} is not certified, as the file says")
