"""What a study leaves behind: a report, a table a file, and every number in one."""

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from schedlab.boundary import files
from schedlab.report.terminal import to_json
from schedlab.studies.study import Result, Study, Table


def summary_of(study: Study, result: Result, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return all of a study's result as plain data.

    Args:
        study: which.
        result: its result.
        facts: command, version, date, host and seconds.
    """
    whole = {
        "study": study.name,
        "title": study.title,
        "paper": study.paper,
        **asdict(result),
        **facts,
    }
    plain: dict[str, Any] = json.loads(to_json(whole))
    return plain


def write(directory: Path, summary: Mapping[str, Any], page: str) -> None:
    """Write report.html, summary.json, and a CSV file a table.

    Args:
        directory: where; it exists.
        summary: see `summary_of`.
        page: the report's text.

    Raises:
        InputError: a file cannot be written.
    """
    for table in summary["tables"]:
        files.write_text(directory / f"{table['name']}.csv", csv_of(table))
    files.write_text(directory / "summary.json", json.dumps(summary, indent=1) + "\n")
    files.write_text(directory / "report.html", page)


def csv_of(table: Mapping[str, Any] | Table) -> str:
    r"""Return a table as CSV.

    >>> csv_of({"columns": ["a", "b"], "rows": [["x, y", 1], [None, 0.5]]})
    'a,b\n"x, y",1\n,0.5\n'
    """
    value = asdict(table) if isinstance(table, Table) else table
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(value["columns"])
    writer.writerows(value["rows"])
    return text.getvalue()
