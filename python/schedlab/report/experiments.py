"""An experiment from the store as a page, a table of its runs, or all of it as JSON."""

import csv
import io
import json

from schedlab.boundary import extras
from schedlab.experiment.frames import run_columns
from schedlab.live import runs
from schedlab.report import page
from schedlab.report.document import Table, comparisons, document
from schedlab.report.markup import block, plain
from schedlab.report.pictures import pictures
from schedlab.store import Store, StoredExperiment

FORMATS = (".md", ".csv", ".json", ".html")
"""Endings of files that an experiment can be written to."""


def markdown(stored: StoredExperiment, store: Store) -> str:
    """Return what an experiment came to, and all that is needed to repeat it, as Markdown.

    Raises:
        InputError: the store cannot be read.
    """
    told = document(stored, store)
    parts = [f"# {plain(told.title)}"]
    parts += ["\n".join(f"- {plain(sentence)}" for sentence in told.answers)]
    parts += ["## Next", plain(told.why), _console(told.next_command)]
    for table in [*told.tables, *([told.searched] if told.searched else [])]:
        parts += [f"## {plain(table.title)}", markdown_table(table)]
    if told.remarks:
        parts += ["\n".join(f"- {plain(remark)}" for remark in told.remarks)]
    parts += ["## To repeat it", plain(told.about), _console(told.command)]
    parts += ["## Places", *(f"```json\n{facts}\n```" for facts in told.places)]
    return "\n\n".join(parts) + "\n"


def markdown_table(table: Table) -> str:
    r"""Return a table, with as many cells in each row as there are columns.

    >>> print(markdown_table(Table("t", ("a", "b"), [("x | y", "1")])))
    | a | b |
    |---|---|
    | x \| y | 1 |
    """
    lines = [table.columns, *table.rows]
    made = ["| " + " | ".join(map(plain, cells)) + " |" for cells in lines]
    return "\n".join([made[0], "|" + "---|" * len(table.columns), *made[1:]])


def addresses(stored: StoredExperiment, store: Store) -> dict[str, str]:
    """Return what the live page can show of an experiment: its address by workload and target.

    Raises:
        InputError: the store cannot be read.
    """
    found: dict[str, str] = {}
    for result in comparisons(stored, store):
        found |= runs.compared(result)
    if not found and stored.kind == "tune" and stored.result is not None:
        return runs.tuned(stored.plan, stored.result["best"])
    return found


def html(stored: StoredExperiment, store: Store, *, beside: bool = False) -> str:
    """Return what an experiment came to as one HTML page, its answers first, then its figures.

    Args:
        stored: the experiment.
        store: where its runs are.
        beside: whether the live page is beside the report.

    Raises:
        InputError: the store cannot be read.
    """
    told = document(stored, store)
    sure = "\n".join(map(_html_table, told.tables))
    places = "\n".join(f"<pre>{page.text(one)}</pre>" for one in told.places)
    command = ("schedlab", "live", stored.id[:8])
    live = runs.links(addresses(stored, store), command, beside=beside)
    parts = [
        page.answers(told.answers),
        _figures(stored, store),
        page.section("How sure that is", sure, "sure"),
        page.section(
            "What to do next",
            f"<p>{page.text(told.why)}</p>{page.command(told.next_command)}{live}",
            "next",
        ),
        page.folded(told.searched.title, _html_table(told.searched), "tried")
        if told.searched
        else "",
        page.folded("Limits", page.items(told.remarks), "limits"),
        page.folded(
            "To repeat it", f"<p>{page.text(told.about)}</p>{page.command(told.command)}", "repeat"
        ),
        page.folded("Where it ran", places, "places"),
    ]
    return page.page(told.title, parts)


def _figures(stored: StoredExperiment, store: Store) -> str:
    if not extras.installed("charts"):
        return "<p>Figures need an extra: pip install 'schedlab[charts]'.</p>"
    return "\n".join(
        page.figure(one.chart, one.caption, one.caption, f"figure_{one.name}")
        for one in pictures(stored, store)
    )


def csv_text(stored: StoredExperiment, store: Store) -> str:
    """Return the runs, a line a run."""
    table = run_columns(store, stored.id)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table)
    writer.writerows(zip(*table.values(), strict=True))
    return text.getvalue()


def json_text(stored: StoredExperiment, store: Store) -> str:
    """Return all that the store has of an experiment."""
    runs = [
        {name: getattr(run, name) for name in run.__dataclass_fields__}
        for run in store.runs(stored.id)
    ]
    head = {name: getattr(stored, name) for name in stored.__dataclass_fields__}
    return json.dumps({**head, "number": stored.runs, "runs": runs}, indent=1) + "\n"


def _console(command: str) -> str:
    return block(f"$ {command}", "console")


def _html_table(table: Table) -> str:
    return page.table(table.title, table.columns, table.rows)
