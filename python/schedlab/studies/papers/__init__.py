"""The papers' tables, as printed (facts, with their source in each study), and how to read them."""

import csv
from importlib.resources import files


def table(name: str) -> list[dict[str, str]]:
    """Return the rows of a paper's table by their headings.

    >>> len(table("tuning_meta_optimization"))
    14
    """
    text = (files("schedlab.studies.papers") / f"{name}.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))
