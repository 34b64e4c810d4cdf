"""The figures of an experiment's report: what was found of each setting, with its interval."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from schedlab.experiment.campaign import Result
from schedlab.report import charts
from schedlab.report.charts import Chart
from schedlab.report.document import comparisons, means, setting_text
from schedlab.store import Store, StoredExperiment

VERDICT_COLORS = {
    "better": "#3f8f5f",
    "worse": "#b33a3a",
    "same": "#6b7280",
    "inconclusive": "#2563a8",
}
"""The colour of each verdict, in every figure."""

_TRIED_COLORS = {"tried": "#9fb3c8", "default": "#d9822b", "winner": "#3f8f5f"}
"""The winner over the default over the rest."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of a report.

    Attributes:
        name: its place in the page.
        chart: as Vega-Lite.
        caption: below it.
    """

    name: str
    chart: Chart
    caption: str


def pictures(stored: StoredExperiment, store: Store) -> list[Figure]:
    """Return an experiment's figures.

    Raises:
        InputError: the store cannot be read, or the library that draws is not installed.
    """
    found = [
        one
        for place, result in enumerate(comparisons(stored, store))
        for metric in _metrics(result)
        if (one := _changes(result, metric, f"changes_{place}_{metric['name']}")) is not None
    ]
    if stored.kind == "tune" and (searched := _tried(stored, store)) is not None:
        found.append(searched)
    return found


def _metrics(result: Result) -> list[Mapping[str, Any]]:
    by_name = {one["name"]: one for group in result.plan["metrics"].values() for one in group}
    return list(by_name.values())


def _changes(result: Result, metric: Mapping[str, Any], name: str) -> Figure | None:
    """Return each setting's ratio to its baseline under a metric, with its interval."""
    cells = {cell["name"]: cell for cell in result.plan["cells"]}
    groups = {cell["group"] for cell in cells.values()}
    rows = []
    for answer in result.settled.answers:
        ratio = answer.judged.ratio
        if answer.question.metric != metric["name"] or ratio is None:
            continue
        cell = cells[answer.question.treatment]
        setting = cell["setting"] if len(groups) == 1 else f"{cell['setting']}, {cell['group']}"
        rows.append(
            {
                "setting": setting,
                "ratio": ratio.value,
                "low": ratio.interval.low,
                "high": ratio.interval.high,
                "verdict": str(answer.judged.verdict),
            }
        )
    if not rows:
        return None
    title = f"{metric['name']} with the setting / with the baseline"
    chart = charts.intervals(
        rows,
        x="ratio",
        y="setting",
        low="low",
        high="high",
        names=("setting / baseline", ""),
        color="verdict",
        colors=VERDICT_COLORS,
    )
    side = "left" if metric["better"] == "lower" else "right"
    return Figure(name, chart, f"{title}, with its interval: {side} of 1 is better.")


def _tried(stored: StoredExperiment, store: Store) -> Figure | None:
    """Return the mean of each setting's runs in a search, from the best setting to the worst."""
    best = {} if stored.result is None else stored.result["best"]
    winner = set(setting_text(best).split(", ")) if best else None
    better = {case["name"]: case["metric"].get("better") for case in stored.plan["cases"]}
    by_case: dict[str, list[tuple[str, float, str]]] = {}
    for row in means(stored, store):
        case, _, setting = row["arm"].rpartition(" | ")
        if row["mean"] is not None:
            by_case.setdefault(case, []).append((setting, row["mean"], row["unit"]))
    rows, units = [], set()
    for case, found in by_case.items():
        ordered = sorted(found, key=lambda one: one[1], reverse=better.get(case) == "higher")
        for rank, (setting, mean, unit) in enumerate(ordered, start=1):
            kind = "default" if setting == setting_text({}) else "tried"
            # The store has a setting's values in another order than the result.
            if set(setting.split(", ")) == winner:
                kind = "winner"
            units.add(unit)
            rows.append({"case": case, "rank": rank, "mean": mean, "kind": kind})
    if not rows:
        return None
    metrics = dict.fromkeys(case["metric"]["name"] for case in stored.plan["cases"])
    unit = f" ({units.pop()})" if len(units) == 1 and units != {""} else ""
    chart = charts.dots(
        rows,
        x="rank",
        y="mean",
        color="kind",
        colors=_TRIED_COLORS,
        names=("settings, from the best to the worst", f"{' and '.join(metrics)}{unit}"),
        facet="case",
    )
    return Figure(
        "tried",
        chart,
        "All that the search tried: the geometric mean of each setting's runs. They chose the "
        "winner and flatter it.",
    )
