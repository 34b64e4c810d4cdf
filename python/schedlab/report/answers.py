"""What a comparison says of each of its settings, as texts for a table of any kind."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from schedlab.experiment import stats
from schedlab.experiment.campaign import Result
from schedlab.experiment.sequential_experiment import LimitedQuestion
from schedlab.experiment.settings import Setting
from schedlab.experiment.stats import Verdict
from schedlab.model import quantity
from schedlab.report.words import interval_words, percent

STATISTIC = (
    "Values are geometric means over the pairs of runs that the verdict rests on; "
    "change = value / baseline - 1."
)
"""What the columns of `rows` are."""

COLUMNS = ("baseline", "change", "interval", "verdict", "pairs")
"""Headings of `rows` behind the setting and the metric's name."""


class Row(NamedTuple):
    """A setting under one metric."""

    setting: str
    value: str
    baseline: str
    change: str
    interval: str
    verdict: str
    pairs: str


def heading(group: str, metric: Mapping[str, Any]) -> str:
    """Return what a table is about: group, metric and direction.

    >>> heading("pipe on sim", {"name": "turnaround", "better": "lower"})
    'pipe on sim: turnaround, lower is better'
    """
    return f"{group}: {metric['name']}, {metric['better']} is better"


def rows(result: Result, group: str, metric: Mapping[str, Any]) -> list[Row]:
    """Return a row a setting of a group: its mean, and how it differs from the baseline.

    Value and baseline of a row are means over the pairs that were judged, so that their ratio is
    the change that stands beside them.

    Args:
        result: of the comparison.
        group: subject and target.
        metric: ``name``, ``unit`` and ``better``.
    """
    answers = {
        answer.question.treatment: answer
        for answer in result.settled.answers
        if answer.question.metric == metric["name"]
    }

    def shown(value: float | None) -> str:
        return "-" if value is None else quantity(value, metric["unit"])

    single = "one run" if group in result.unvaried else ""
    found = []
    for cell in result.plan["cells"]:
        if cell["group"] != group:
            continue
        answer = answers.get(cell["name"])
        if answer is None:
            values = result.settled.of(cell["name"], metric["name"])
            middle = stats.centre(values) if values and np.isfinite(values).all() else None
            row = Row(cell["setting"], shown(middle), "", "", "", "(baseline)", str(len(values)))
        else:
            ratio = answer.judged.ratio
            row = Row(
                cell["setting"],
                shown(answer.treatment),
                shown(answer.baseline),
                "-" if ratio is None else percent(ratio.value),
                answer.judged.why if ratio is None else single or interval_words(ratio),
                str(answer.judged.verdict),
                str(answer.blocks),
            )
        found.append(row)
    return found


def sentences(result: Result, setting: Setting | None = None) -> list[str]:
    """Return a sentence a question: what the pairs of runs say of a setting.

    Args:
        result: of the comparison.
        setting: the setting that is asked about; None for all.
    """
    cells, unvaried = {cell["name"]: cell for cell in result.plan["cells"]}, result.unvaried
    found = []
    for answer in result.settled.answers:
        question, judged = answer.question, answer.judged
        cell, baseline = cells[question.treatment], cells[question.baseline]
        if setting is not None and Setting(cell["values"]) != setting:
            continue
        group, named = cell["group"], cell["setting"]
        if judged.ratio is None:
            found.append(f"{group}: inconclusive for {named} ({judged.why})")
            continue
        words = {
            Verdict.BETTER: f"better with {named}",
            Verdict.WORSE: f"worse with {named}",
            Verdict.SAME: f"the same with {named}, within {judged.band:.0%}",
            Verdict.KEPT: f"kept with {named}",
            Verdict.INCONCLUSIVE: f"inconclusive for {named}",
        }[judged.verdict]
        if isinstance(question, LimitedQuestion):
            words += f" (floor: {percent(question.limit)})"
        ratio = judged.ratio
        change = f"{question.metric} {percent(ratio.value)} against {baseline['setting']}"
        interval = f"{ratio.interval.confidence:.1%} interval {interval_words(ratio)}"
        kind = "pairs of seeds" if cell["simulated"] is not None else "interleaved pairs"
        on_what = f"{interval}, {answer.blocks} {kind}"
        if group in unvaried:
            on_what = "in one run, which every seed repeats"
        found.append(f"{group}: {words}: {change}, {on_what}")
    for arm, why in result.settled.failures.items():
        if setting is not None and Setting(cells[arm]["values"]) != setting:
            continue
        found.append(f"{arm}: could not be run on: {why}")
    return found
