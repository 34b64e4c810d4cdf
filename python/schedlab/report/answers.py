"""What a comparison says of each of its settings, as texts for a table of any kind."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from schedlab.campaign import Result
from schedlab.report.words import interval_words, percent


class Row(NamedTuple):
    """A setting under one metric."""

    setting: str
    middle: str
    change: str
    interval: str
    verdict: str
    pairs: str


def rows(result: Result, group: str, metric: Mapping[str, Any]) -> list[Row]:
    """Return a row a setting of a group: its median, and how it differs from the baseline.

    Args:
        result: of the comparison.
        group: subject and target.
        metric: ``name`` and ``unit``.
    """
    answers = {
        answer.question.treatment: answer
        for answer in result.settled.answers
        if answer.question.metric == metric["name"]
    }
    found = []
    for cell in result.plan["cells"]:
        if cell["group"] != group:
            continue
        values = sorted(result.settled.of(cell["name"], metric["name"]))
        middle = f"{values[len(values) // 2]:.6g}" if values else "-"
        answer = answers.get(cell["name"])
        if answer is None:
            row = Row(cell["setting"], middle, "", "", "(baseline)", "")
        else:
            ratio = answer.judged.ratio
            row = Row(
                cell["setting"],
                middle,
                "-" if ratio is None else percent(ratio.value),
                answer.judged.why if ratio is None else interval_words(ratio),
                str(answer.judged.verdict),
                str(answer.blocks),
            )
        found.append(row)
    return found
