"""A study's report as Markdown with its figures beside it, for pages kept with a project."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from schedlab.boundary.arguments import visible
from schedlab.boundary.files import make_directory, write_text
from schedlab.report import page as frame
from schedlab.report.markup import block, plain

Values = Mapping[str, Any]


def write(summary: Values, page: Path) -> None:
    """Write a page, and beside it an SVG file a figure, named after the page.

    Args:
        summary: what ``summary.json`` holds.
        page: where; its directory is made if it is missing.

    Raises:
        InputError: a file cannot be written.
        KeyError: it is not what a study writes.
    """
    pictures = [(f"{page.stem}-{one['name']}.svg", one) for one in summary["figures"]]
    directory = make_directory(page.parent)
    for file, figure in pictures:
        write_text(directory / file, frame.file(figure["chart"]))
    write_text(page, _page(summary, [(file, one["caption"]) for file, one in pictures]))


def _page(summary: Values, figures: Sequence[tuple[str, str]]) -> str:
    parts = [
        f"# {plain(summary['title'])}",
        *[_inline(sentence) for sentence in summary["answers"]],
        f"After: {_inline(summary['paper'])}.",
        *_claims(summary["claims"]),
        "## Figures",
        *[f"![{plain(caption)}]({file})\n\n*{_inline(caption)}*" for file, caption in figures],
        "## Numbers",
        *[
            f"{table['title']}\n\n{_table(table['columns'], table['rows'])}"
            for table in summary["tables"]
            if table["shown"]
        ],
        "## What is done otherwise, and why",
        "\n".join(f"- {_inline(note)}" for note in summary["notes"]),
        "## To repeat it",
        block(f"$ {summary['command']}", "console"),
        f"schedlab {summary['version']}, {summary['date']}, {summary['host']}.",
    ]
    return "\n\n".join(parts) + "\n"


def _claims(claims: Sequence[Values]) -> list[str]:
    if not claims:
        return []
    rows = [
        (one["claim"], one["paper"], one["ours"] + _interval(one), f"**{one['verdict']}**")
        for one in claims
    ]
    return ["## Claims", _table(("claim", "paper", "ours", "verdict"), rows)]


def _inline(text: object) -> str:
    """Return a sentence of a study, on one line and without HTML; its own emphasis stays."""
    return visible(" ".join(str(text).split())).replace("<", "&lt;")


def _interval(claim: Values) -> str:
    ends = claim["interval"]
    return "" if ends is None else f" (95 % interval {ends[0]:.4g} to {ends[1]:.4g})"


def _table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [_row(columns), "|" + "---|" * len(columns)]
    return "\n".join([*lines, *(_row(row) for row in rows)])


def _row(cells: Sequence[object]) -> str:
    return "| " + " | ".join(_cell(cell) for cell in cells) + " |"


def _cell(value: object) -> str:
    """Return a cell's text.

    >>> _cell(0.123456), _cell(None), len(_cell("a|b"))
    ('0.1235', '-', 4)
    """
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else _inline(value).replace("|", "\\|")
