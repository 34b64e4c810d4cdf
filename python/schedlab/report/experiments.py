"""An experiment from the store as a page, a table of its runs, or all of it as JSON."""

import csv
import html as text_of_html
import io
import json

from schedlab.experiment.frames import run_columns
from schedlab.report.document import Document, Table, document
from schedlab.report.markup import block, plain
from schedlab.store import Store, StoredExperiment

FORMATS = (".md", ".csv", ".json", ".html")
"""Endings of files that an experiment can be written to."""

_STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1f2933; background: #fff; margin: 0 auto;
       max-width: 64rem; padding: 1rem; overflow-wrap: break-word; }
h1 { font-size: 1.6rem; margin: 0 0 .5rem; } h2 { font-size: 1.2rem; margin: 2rem 0 .5rem; }
p.answer { border-left: 4px solid #2563a8; padding-left: .8rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .85rem; }
th, td { text-align: right; padding: .2rem .6rem; border-bottom: 1px solid #e4e7eb; }
th:first-child, td:first-child { text-align: left; }
pre { font-size: .85rem; overflow-x: auto; background: #f5f7fa; padding: .6rem; }
footer { margin-top: 2rem; font-size: .8rem; color: #52606d; }
"""


def markdown(stored: StoredExperiment, store: Store) -> str:
    """Return what an experiment came to, and all that is needed to repeat it, as Markdown.

    Raises:
        InputError: the store cannot be read.
    """
    told = document(stored, store)
    parts = [f"# {plain(told.title)}"]
    parts += ["\n".join(f"- {plain(sentence)}" for sentence in told.answers)]
    parts += ["## Next", plain(told.why), _console(told.next_command)]
    for table in told.tables:
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


def html(stored: StoredExperiment, store: Store) -> str:
    """Return what an experiment came to as one HTML page, its answers and the next command first.

    Raises:
        InputError: the store cannot be read.
    """
    told = document(stored, store)
    parts = [
        f"<h1>{_text(told.title)}</h1>",
        *(f'<p class="answer">{_text(sentence)}</p>' for sentence in told.answers),
        f"<p>{_text(told.why)}</p>",
        f"<pre>$ {_text(told.next_command)}</pre>",
        *map(_html_table, told.tables),
        _html_list(told),
        f"<h2>To repeat it</h2><p>{_text(told.about)}</p><pre>$ {_text(told.command)}</pre>",
        *(
            f"<details><summary>Place</summary><pre>{_text(one)}</pre></details>"
            for one in told.places
        ),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>{_text(told.title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(part for part in parts if part)
        + "\n</main>\n</body>\n</html>\n"
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


def _text(value: str) -> str:
    return text_of_html.escape(value)


def _html_table(table: Table) -> str:
    head = "".join(f"<th>{_text(column)}</th>" for column in table.columns)
    rows = "".join(
        "<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in row) + "</tr>" for row in table.rows
    )
    return (
        f'<h2>{_text(table.title)}</h2><div class="wide"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _html_list(told: Document) -> str:
    items = "".join(f"<li>{_text(remark)}</li>" for remark in told.remarks)
    return f"<ul>{items}</ul>" if items else ""
