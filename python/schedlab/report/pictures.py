"""The figures of an experiment's report: what was found of each setting, with its interval."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from typing import Any

from schedlab.experiment.campaign import Result
from schedlab.experiment.settings import Setting
from schedlab.experiment.stats import Interval
from schedlab.report import charts
from schedlab.report.charts import Chart
from schedlab.report.document import comparisons, means, setting_text
from schedlab.store import Store, StoredExperiment
from schedlab.tuning import Certificate, certificates
from schedlab.tuning.aims import Aim, Aims

VERDICT_COLORS = {
    "better": "#3f8f5f",
    "worse": "#b33a3a",
    "same": "#6b7280",
    "kept": "#7a8f3f",
    "inconclusive": "#2563a8",
}
"""The colour of each verdict, in every figure."""

_TRIED_COLORS = {"tried": "#9fb3c8", "default": "#d9822b", "winner": "#3f8f5f"}
"""The winner over the default over the rest."""


_FRONT_COLORS = {
    "tried": "#c4cfdb",
    "front": "#2563a8",
    "default": "#d9822b",
    "compared": "#7a8f3f",
    "recommended": "#3f8f5f",
}
"""The recommended point over the front over the rest."""

_OF = " of "


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
    if stored.kind == "tune":
        found = [*_fronts(stored, store), *found]
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


def _fronts(stored: StoredExperiment, store: Store) -> list[Figure]:
    """Return the Pareto front of each pair of aims, over all that was tried.

    Points that were compared in fresh runs have the change and the interval that those found.
    """
    outcome = stored.result
    if outcome is None or len(outcome.get("aims", ())) < 2:
        return []
    judged_by = Aims.from_data(outcome)
    tried = _changes_tried(stored, store, judged_by)
    front = {_values(str(Setting(one["setting"]))) for one in outcome["front"]}
    results = comparisons(stored, store)
    settings = [Setting(one["setting"]) for one in outcome.get("points", ())]
    fresh = certificates(results, settings, judged_by) if results else []
    best = outcome.get("recommended")
    found: list[Figure] = []
    for first, second in combinations(judged_by.aims, 2):
        rows: list[dict[str, Any]] = [
            {
                "x": changes[first.name],
                "y": changes[second.name],
                "kind": _kind(setting, front),
                "setting": setting,
                "joined": _values(setting) in front,
            }
            for setting, changes in tried.items()
        ]
        for one in fresh:
            ends = [_interval(one, aim) for aim in (first, second)]
            if None not in ends:
                (x, low_x, high_x), (y, low_y, high_y) = (end for end in ends if end is not None)
                kind = "recommended" if dict(one.setting.values) == best else "compared"
                rows.append(
                    {"x": x, "y": y, "kind": kind, "setting": str(one.setting), "joined": False}
                    | {"low_x": low_x, "high_x": high_x, "low_y": low_y, "high_y": high_y}
                )
        chart = charts.front(
            rows,
            colors=_FRONT_COLORS,
            names=(f"change of {first.name} (%)", f"change of {second.name} (%)"),
            rightward=first.parts[0].metric.better == "lower",
        )
        directions = " and ".join(
            f"{aim.parts[0].metric.better} {aim.name}" for aim in (first, second)
        )
        caption = (
            f"The front of {first.name} and {second.name}: {directions} is better. Settings that "
            "were tried, by the runs of the search; with intervals those that fresh runs compared "
            "with the default."
        )
        found.append(Figure(f"front_{len(found)}", chart, caption))
    return found


def _values(setting: str) -> frozenset[str]:
    """Return a setting's values: the store has them in another order than the result."""
    return frozenset(setting.split(", "))


def _kind(setting: str, front: Collection[frozenset[str]]) -> str:
    if setting == setting_text({}):
        return "default"
    return "front" if _values(setting) in front else "tried"


def _changes_tried(
    stored: StoredExperiment, store: Store, judged_by: Aims
) -> dict[str, dict[str, float]]:
    """Return the change of each aim, in per cent, of each setting that was run, by its text.

    It is that of the first workload's metric, and over several workloads of the geometric mean.
    """
    by_setting: dict[str, dict[tuple[str, str], float]] = {}
    for row in means(stored, store):
        case, _, setting = row["arm"].rpartition(" | ")
        if row["mean"] is not None and row["mean"] > 0:
            by_setting.setdefault(setting, {})[case, row["metric"]] = row["mean"]
    base = by_setting.get(setting_text({}), {})
    found: dict[str, dict[str, float]] = {}
    for setting, values in by_setting.items():
        keys = [[(p.workload, p.metric.name) for p in aim.parts] for aim in judged_by.aims]
        if all(key in values and key in base for group in keys for key in group):
            found[setting] = {
                aim.name: _percent(fmean(math.log(values[key] / base[key]) for key in group))
                for aim, group in zip(judged_by.aims, keys, strict=True)
            }
    return found


def _interval(one: Certificate, aim: Aim) -> tuple[float, float, float] | None:
    """Return the change of an aim in fresh runs and its interval, in per cent.

    Of several workloads it is the geometric mean of their ratios, and that of the ends of their
    intervals, which hold together: no less sure, and wider than need be.
    """
    logs = []
    for part in aim.parts:
        answer = one.answers.get((part.workload, part.metric.name))
        if answer is None or answer.judged.ratio is None or answer.judged.ratio.interval.low <= 0:
            return None
        ratio = answer.judged.ratio
        logs.append([math.log(each) for each in (ratio.value, *_ends(ratio.interval))])
    value, low, high = (_percent(fmean(column)) for column in zip(*logs, strict=True))
    return value, low, high


def _ends(interval: Interval) -> tuple[float, float]:
    return interval.low, interval.high


def _percent(log: float) -> float:
    return 100 * math.expm1(log)


def _tried(stored: StoredExperiment, store: Store) -> Figure | None:
    """Return the mean of each setting's runs in a search, from the best setting to the worst."""
    best = {} if stored.result is None else stored.result["best"]
    winner = _values(setting_text(best)) if best else None
    real = all(case["simulated"] is None for case in stored.plan["cases"])
    better = {}
    for case in stored.plan["cases"]:
        metric = case["metric"]
        better[case["name"]] = better[f"{metric['name']}{_OF}{case['name']}"] = metric.get("better")
    by_case: dict[str, list[tuple[str, float, str]]] = {}
    metrics = dict.fromkeys(case["metric"]["name"] for case in stored.plan["cases"])
    for row in means(stored, store):
        case, _, setting = row["arm"].rpartition(" | ")
        if len(metrics) > 1:
            case = f"{row['metric']}{_OF}{case}"
        if row["mean"] is not None:
            by_case.setdefault(case, []).append((setting, row["mean"], row["unit"]))
    rows, units = [], set()
    for case, found in by_case.items():
        ordered = sorted(found, key=lambda one: one[1], reverse=better.get(case) == "higher")
        for rank, (setting, mean, unit) in enumerate(ordered, start=1):
            kind = "default" if setting == setting_text({}) else "tried"
            if _values(setting) == winner:
                kind = "winner"
            units.add(unit)
            rows.append({"case": case, "rank": rank, "mean": mean, "kind": kind})
    if not rows:
        return None
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
        "The geometric mean of each setting's runs. Those of the search chose the winner and "
        "flatter it."
        + ("" if real else " After a search each parameter is also moved alone over its range."),
    )
