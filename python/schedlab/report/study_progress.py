"""Progress of a study: what is being done, how much of it, and the time left."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, TextColumn

from schedlab.report.pace import Pace
from schedlab.report.terminal import err, note, safe, time_left

EVERY = 30.0
"""Seconds between lines where there is no terminal."""


@contextmanager
def telling(every: float = EVERY) -> Iterator[Callable[[str, int, int], None]]:
    """Give a function that is told what is being done, how much of it is done, of how much.

    On a terminal that is a bar with the time left, elsewhere a line on standard error now and then.

    Args:
        every: seconds between such lines.
    """
    console = err()
    current, pace, last = "", Pace(time.monotonic()), time.monotonic()

    def left(what: str, done: int, total: int) -> str:
        nonlocal current, pace
        now = time.monotonic()
        if what != current:
            current, pace = what, Pace(now)
        seconds = pace.left(done, total, now)
        return "" if seconds is None else time_left(seconds)

    if not console.is_terminal:

        def tell(what: str, done: int, total: int) -> None:
            nonlocal last
            rest = left(what, done, total)
            if time.monotonic() - last >= every:
                last = time.monotonic()
                note(", ".join(part for part in (f"{what}: {done} of {total}", rest) if part))

        yield tell
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[told]}"))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None, told="")

        def tell_bar(what: str, done: int, total: int) -> None:
            rest = left(what, done, total)
            told = safe(", ".join(part for part in (f"{done} of {total}", rest) if part))
            bar.update(task, description=safe(what), completed=done, total=total, told=told)

        yield tell_bar
