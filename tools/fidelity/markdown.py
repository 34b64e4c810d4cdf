"""What the pages of the fidelity suites have in common."""

import datetime as dt
from collections.abc import Iterable, Sequence

from schedlab.processes import processes
from schedlab.targets.facts import facts


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    r"""Return the lines of a table.

    >>> table(("a", "b"), [("1", "x|y")])
    ['| a | b |', '|---|---|', '| 1 | x\\|y |']
    """
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + [
        "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows
    ]


def listing(title: str, rows: Iterable[tuple[Sequence[str], str]]) -> list[str]:
    """Return a section that lists what lines are about, each with a text; nothing without any.

    >>> listing("Known divergences", [(("pipe", "host", "p99"), "the guest's clock")])
    ['## Known divergences', '', "* pipe, host, p99: the guest's clock", '']
    """
    lines = [f"* {', '.join(about)}: {text}" for about, text in rows]
    return [f"## {title}", "", *lines, ""] if lines else []


def section(title: str, head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    """Return a section that is a table.

    >>> section("Tolerances", ("name", "derived"), [("a", "b")])
    ['## Tolerances', '', '| name | derived |', '|---|---|', '| a | b |', '']
    """
    return [f"## {title}", "", *table(head, rows), ""]


def circumstances() -> str:
    """Return the day, the commit whose rules ran, and the CPU, as a sentence."""
    done = processes.run(["git", "describe", "--always", "--dirty", "--exclude", "*"])
    commit = done.output.strip() or "unknown"
    here = facts()
    today = dt.datetime.now(dt.UTC).date().isoformat()
    return f"{today}, commit {commit}, on {here.cpu_model} with kernel {here.kernel}."


def left_out(whole: int, part: int) -> list[str]:
    """Say that a run was about a part of the lines; nothing where it was about all.

    >>> left_out(7, 5)
    ['**2 of all 7 lines are about places or workloads that were no part of this run.**', '']
    >>> left_out(7, 7)
    []
    """
    if part == whole:
        return []
    text = f"{whole - part} of all {whole} lines are about places or workloads that were no part"
    return [f"**{text} of this run.**", ""]


def number(value: float | None, *, time: bool = False) -> str:
    """Return a number for people: a time in its unit, or a count; a dash where there is none.

    >>> number(2_500.0, time=True), number(12.0), number(None)
    ('2.50 us', '12', '-')
    """
    if value is None:
        return "-"
    if not time:
        return f"{value:g}"
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if value >= size:
            return f"{value / size:.{0 if value >= 100 * size else 2}f} {unit}"
    return f"{value:g} ns"
