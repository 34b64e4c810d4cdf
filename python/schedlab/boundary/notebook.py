"""Results in a notebook: a table as HTML, and charts that load their library when first drawn."""

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from schedlab.boundary.extras import Lazy

if TYPE_CHECKING:
    import altair as alt
else:
    alt = Lazy("altair")

__all__ = ["alt", "rows_of", "table"]


def rows_of(values: Sequence[Mapping[str, Any]]) -> "alt.Data":
    """Return rows of plain values as the data of a chart."""
    data: alt.Data = alt.Data(values=[dict(row) for row in values])  # type: ignore[no-untyped-call]
    return data


def table(
    title: str, head: Sequence[str], rows: Iterable[Sequence[str]], notes: Iterable[str] = ()
) -> str:
    """Return a table with a caption and notes below it, all text escaped.

    >>> table("a < b", ["x"], [["1"]], ["seed 1"])[:33]
    '<table><caption>a &lt; b</caption'
    """
    cells = "".join(f"<th>{html.escape(one)}</th>" for one in head)
    lines = "".join(
        "<tr>" + "".join(f"<td>{html.escape(one)}</td>" for one in row) + "</tr>" for row in rows
    )
    below = "".join(f"<p>{html.escape(note)}</p>" for note in notes)
    return (
        f"<table><caption>{html.escape(title)}</caption><thead><tr>{cells}</tr></thead>"
        f"<tbody>{lines}</tbody></table>{below}"
    )
