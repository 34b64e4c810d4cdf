"""Output: tables for people on standard output, JSON for machines, everything else on stderr."""

import dataclasses
import json
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from schedlab.boundary.arguments import visible
from schedlab.report.columns import blocks

_WIDTH = 120
"""Columns of running text that goes to a file or a pipe."""

_UNLIMITED = 10_000


def out() -> Console:
    """Return the console of standard output as it is now."""
    return Console(width=None if sys.stdout.isatty() else _WIDTH, highlight=False)


def err() -> Console:
    """Return the console of standard error as it is now."""
    return Console(stderr=True, width=None if sys.stderr.isatty() else _WIDTH, highlight=False)


def safe(text: str) -> str:
    r"""Return text that a console prints as it is: no markup, and nothing that steers a terminal.

    >>> print(safe("[red]\x1b[31m"))
    \[red]\x1b[31m
    """
    return escape(visible(text))


def say(text: str = "") -> None:
    """Print a line of the result."""
    out().print(safe(text), soft_wrap=True)


def note(text: str) -> None:
    """Print a remark about the result on standard error."""
    err().print(f"[dim]note:[/dim] {safe(text)}", soft_wrap=True)


def note_all(texts: Iterable[str]) -> None:
    """Print several remarks, one a line."""
    for text in texts:
        note(text)


def complain(text: str) -> None:
    """Print what went wrong as one line on standard error."""
    line = " ".join(text.split())
    err().print(f"[bold red]error:[/bold red] {safe(line)}", soft_wrap=True)


def heading(text: str) -> None:
    """Print the heading of a part."""
    out().print(f"\n[bold]{safe(text)}[/bold]", soft_wrap=True)


def show(
    rows: Sequence[Sequence[str]],
    columns: Sequence[str],
    *,
    left: int = 1,
    title: str | None = None,
    wrap: bool = False,
) -> None:
    """Print a table; the first ``left`` columns are text, the others numbers.

    On a terminal that is too narrow for it, headings and texts go over several lines, and columns
    that still find no room stand in a further block below.

    Args:
        rows: of texts.
        columns: their headings.
        left: columns of text.
        title: over the table.
        wrap: fold long texts in a file or a pipe too, where lines otherwise are as long as need be.
    """
    columns = [visible(column) for column in columns]
    rows = [[visible(cell).replace("\n", "\\n") for cell in row] for row in rows]
    console = out()
    if not wrap and not console.is_terminal:
        console.width = _UNLIMITED
    for number, block in enumerate(blocks(rows, columns, left=left, width=console.width)):
        table = Table(
            title=safe(title) if number == 0 and title is not None else None,
            box=None,
            pad_edge=False,
            header_style="bold",
            title_justify="left",
        )
        for index, width in zip(block.columns, block.widths, strict=True):
            side: Literal["left", "right"] = "left" if index < left else "right"
            table.add_column(escape(columns[index]), justify=side, width=width, overflow="fold")
        for row in rows:
            table.add_row(*(escape(row[index]) for index in block.columns))
        if number:
            console.print()
        console.print(table)


def emit_json(value: Any) -> None:
    """Print a result for machines."""
    emit(to_json(value) + "\n")


def emit(text: str) -> None:
    """Print JSON; what would steer a terminal stands as JSON's escapes, which mean the same."""
    sys.stdout.write(visible(text, json=True))


def to_json(value: Any) -> str:
    """Return JSON text of data classes, mappings and sequences."""
    return json.dumps(value, default=_plain, indent=2)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        # A field called json holds the same once more, for the core.
        names = [f.name for f in dataclasses.fields(value) if f.name != "json"]
        return {name: getattr(value, name) for name in names}
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    return str(value)


_EVERY = 30.0
"""Seconds between lines of progress where there is no terminal."""


@contextmanager
def running(description: str) -> Iterator[Callable[[int, int, float | None, str], None]]:
    """Show how far many runs are, and how long the rest takes.

    On a terminal that is a bar; elsewhere a line on standard error now and then. Gives a function
    to tell the runs done, those there will be, the seconds left (None: from the pace so far), and
    what else is known.
    """
    console = err()
    began = time.monotonic()

    def left(done: int, most: int, seconds: float | None) -> str:
        if seconds is None:
            seconds = (time.monotonic() - began) / max(done, 1) * (most - done)
        return time_left(seconds)

    if not console.is_terminal:
        last = began

        def tell(done: int, most: int, seconds: float | None, more: str) -> None:
            nonlocal last
            if time.monotonic() - last >= _EVERY:
                last = time.monotonic()
                parts = [f"{done} of {most} runs", left(done, most, seconds), more]
                note(f"{description}: {', '.join(part for part in parts if part)}")

        yield tell
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[told]}"))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(safe(description), total=None, told="")

        def tell_bar(done: int, most: int, seconds: float | None, more: str) -> None:
            parts = [f"{done} of {most} runs", left(done, most, seconds), more]
            told = safe(", ".join(part for part in parts if part))
            bar.update(task, completed=done, total=most, told=told)

        yield tell_bar


def time_left(seconds: float) -> str:
    """Return a time left for people.

    >>> time_left(8.4), time_left(310), time_left(9000)
    ('8 s left', '5 min left', '2 h 30 min left')
    """
    if seconds < 100:
        return f"{seconds:.0f} s left"
    minutes = round(seconds / 60)
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest} min left" if hours else f"{minutes} min left"


PATIENCE = 2.0
"""Seconds after which a terminal shows a run's progress."""


@contextmanager
def waiting(description: str, patience: float = PATIENCE) -> Iterator[None]:
    """Say on a terminal that something runs, and for how long, once it took a while.

    Standard error alone is written to, and nothing where that is no terminal.

    Args:
        description: what runs.
        patience: seconds until then.
    """
    console = err()
    if not console.is_terminal:
        yield
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    bar = Progress(*columns, console=console, transient=True)
    bar.add_task(escape(description), total=None)
    timer = threading.Timer(patience, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # else it might begin after this end
        bar.stop()


@contextmanager
def progress(description: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """Show a bar on a terminal, and nothing elsewhere; gives a function to tell what is done."""
    console = err()
    if not console.is_terminal:
        yield lambda _: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(safe(description), total=total)
        yield lambda done: bar.update(task, completed=done)
