"""Tables in Markdown."""

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    r"""Return the lines of a table.

    >>> table(("a", "b"), [("1", "x|y")])
    ['| a | b |', '|---|---|', '| 1 | x\\|y |']
    """
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + [
        "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows
    ]
