"""How the columns of a table fit into a terminal: nothing is cut off, whatever its width."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len

GAP = 2
"""Blanks between two columns."""

_NARROWEST = 24
"""What a column of text is folded to before the columns are divided into blocks."""


@dataclass(frozen=True, slots=True)
class Block:
    """Columns that stand beside each other.

    Attributes:
        columns: which, by their numbers.
        widths: of each, in character cells.
    """

    columns: tuple[int, ...]
    widths: tuple[int, ...]


def blocks(
    rows: Sequence[Sequence[str]], headings: Sequence[str], *, left: int, width: int
) -> list[Block]:
    """Divide a table into blocks that fit into a width.

    One block is enough where headings go over several lines or columns of text are folded. Else the
    first column begins every block, and the others follow in their order.

    Args:
        rows: of texts.
        headings: of the columns.
        left: how many columns, from the first on, are text.
        width: of the terminal, in character cells.

    >>> blocks([("a", "1.5 ms", "2")], ("task", "longest delay", "runs"), left=1, width=80)
    [Block(columns=(0, 1, 2), widths=(4, 13, 4))]
    >>> blocks([("a", "1.5 ms", "2")], ("task", "longest delay", "runs"), left=1, width=20)
    [Block(columns=(0, 1, 2), widths=(4, 7, 4))]
    >>> blocks([("a", "1.5 ms", "2")], ("task", "longest delay", "runs"), left=1, width=15)
    [Block(columns=(0, 1), widths=(4, 7)), Block(columns=(0, 2), widths=(4, 4))]
    """
    every = range(len(headings))
    cells = [max((cell_len(row[column]) for row in rows), default=0) for column in every]
    whole = [max(cells[column], cell_len(headings[column])) for column in every]
    if _total(whole) <= width:
        return [Block(tuple(every), tuple(whole))]
    # No heading is broken within a word.
    least = [_longest_word(heading) for heading in headings]
    wide = [max(pair) for pair in zip(cells, least, strict=True)]
    texts = range(min(left, len(wide)))
    folded = _folded(wide, texts, width, [max(least[column], _NARROWEST) for column in texts])
    if _total(folded) <= width:
        return [Block(tuple(every), tuple(_widened(folded, whole, width)))]
    found = _divided(wide, width)
    # As many blocks, but of about one width, rather than a last one of a single column.
    narrower = (_divided(wide, less) for less in range(width // 2, width))
    return next((even for even in narrower if len(even) == len(found) and _fit(even, found)), found)


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def _longest_word(heading: str) -> int:
    return max((cell_len(word) for word in heading.split()), default=0)


def _folded(wide: Sequence[int], texts: range, width: int, least: Sequence[int]) -> list[int]:
    """Narrow the columns of text, the widest first, until all fit or each is at its least."""
    found = list(wide)
    while _total(found) > width:
        narrowing = [column for column in texts if found[column] > least[column]]
        if not narrowing:
            break
        found[max(narrowing, key=lambda column: found[column])] -= 1
    return found


def _widened(found: list[int], whole: Sequence[int], width: int) -> list[int]:
    """Give headings that were broken their line back where there is room."""
    for column, wanted in enumerate(whole):
        if found[column] < wanted and _total(found) + wanted - found[column] <= width:
            found[column] = wanted
    return found


def _fit(even: Sequence[Block], found: Sequence[Block]) -> bool:
    """Whether each column is as wide in both."""
    widths = [
        {
            column: width
            for block in parts
            for column, width in zip(block.columns, block.widths, strict=True)
        }
        for parts in (even, found)
    ]
    return widths[0] == widths[1]


def _divided(wide: Sequence[int], width: int) -> list[Block]:
    first = min(wide[0], width // 2)
    room = width - first - GAP
    found: list[Block] = []
    columns, widths = [0], [first]
    for column, wanted in enumerate(wide[1:], 1):
        needed = min(wanted, room) if room > 0 else wanted
        if len(columns) > 1 and _total([*widths, needed]) > width:
            found.append(Block(tuple(columns), tuple(widths)))
            columns, widths = [0], [first]
        columns.append(column)
        widths.append(needed)
    return [*found, Block(tuple(columns), tuple(widths))]
