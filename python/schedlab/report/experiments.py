"""An experiment from the store as a page of Markdown, a table of its runs, or all of it as JSON."""

import csv
import io
import json
import shlex
from typing import TYPE_CHECKING, Any

from schedlab import campaign
from schedlab.frames import columns, run_columns
from schedlab.report import answers
from schedlab.report.words import interval_words, percent
from schedlab.store import Store, StoredExperiment

if TYPE_CHECKING:
    from collections.abc import Mapping

FORMATS = (".md", ".csv", ".json")
"""Endings of files that an experiment can be written to."""


def markdown(stored: StoredExperiment, store: Store) -> str:
    """Return what an experiment came to, and all that is needed to repeat it.

    Raises:
        InputError: the store cannot be read.
    """
    parts = [f"# {stored.kind}: {stored.title}", *_head(stored)]
    if stored.kind == "tune":
        parts += _tuned(stored, store)
    else:
        parts += _compared(campaign.recall(stored, store))
    parts += ["## Places", *_places(stored, store)]
    return "\n\n".join(parts) + "\n"


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


def medians(stored: StoredExperiment, store: Store) -> list[dict[str, Any]]:
    """Return each arm's runs and the median of each of its metrics."""
    values: dict[str, list[Mapping[str, float]]] = {}
    for (arm, _), metrics in store.values(stored.id).items():
        values.setdefault(arm, []).append(metrics)
    rows = []
    for arm, runs in values.items():
        table = columns(runs)
        row: dict[str, Any] = {"arm": arm, "runs": len(runs)}
        for name, numbers in table.items():
            present = sorted(number for number in numbers if number is not None)
            row[name] = present[len(present) // 2] if present else None
        rows.append(row)
    return rows


def _head(stored: StoredExperiment) -> list[str]:
    command = shlex.join(["schedlab", *stored.command])
    plan = stored.plan
    told = [f"seed {plan['seed']}" if "seed" in plan else f"seeds {plan.get('seeds')}"]
    if "looks" in plan:
        told.append(f"at most {plan['looks'][-1]} blocks, looked at after {plan['looks']}")
    told.append(f"what counts as the same: ± {plan['band']:.0%}")
    return [
        f"Experiment `{stored.id}`, session {stored.session}, {stored.state}; {stored.runs} runs, "
        f"begun {stored.begun}, schedlab {stored.version}; {'; '.join(told)}.",
        f"```console\n$ {command}\n```",
    ]


def _compared(result: campaign.Result) -> list[str]:
    parts = []
    for group in dict.fromkeys(cell["group"] for cell in result.plan["cells"]):
        metrics = result.plan["metrics"][group]
        parts.append(f"## {group}")
        for metric in metrics:
            unit = f" ({metric['unit']})" if metric["unit"] else ""
            lines = [
                f"| setting | {metric['name']}{unit} | change | interval | verdict | pairs |",
                "|---|---|---|---|---|---|",
            ]
            lines += [f"| {' | '.join(row)} |" for row in answers.rows(result, group, metric)]
            parts.append("\n".join(lines))
            if (trend := result.settled.drift(metric["name"])) is not None and trend.found:
                parts.append(
                    f"{metric['name']} drifted by {percent(trend.change.value)} meanwhile."
                )
    for name, judged in result.checks.items():
        ratio = judged.ratio
        told = judged.why if ratio is None else interval_words(ratio)
        parts.append(f"Compared with itself, `{name}`: {judged.verdict} ({told}).")
    for arm, why in result.settled.failures.items():
        parts.append(f"`{arm}` was left out: {why}.")
    return parts


def _tuned(stored: StoredExperiment, store: Store) -> list[str]:
    parts = []
    if stored.result is not None:
        best = ", ".join(f"{k}={v}" for k, v in stored.result["best"].items()) or "default"
        parts.append(
            f"Best by `{stored.result['by']}`: **{best}**, {percent(stored.result['effect'])} over "
            "all (less is better)."
        )
        rows = ["| workload | metric | default | best | change |", "|---|---|---|---|---|"]
        rows += [
            f"| {gain['case']} | {gain['metric']} | {gain['default']:.6g} | {gain['tuned']:.6g} "
            f"| {percent(gain['change'])} |"
            for gain in stored.result["gains"]
        ]
        parts.append("\n".join(rows))
    rows = ["| setting | runs | median |", "|---|---|---|"]
    metric_of = {case["name"]: case["metric"]["name"] for case in stored.plan["cases"]}
    for row in medians(stored, store):
        case = row["arm"].rpartition(" | ")[0]
        value = row.get(metric_of.get(case, ""))
        rows.append(
            f"| {row['arm']} | {row['runs']} | {'-' if value is None else f'{value:.6g}'} |"
        )
    parts.append("\n".join(rows))
    return parts


def _places(stored: StoredExperiment, store: Store) -> list[str]:
    """Return where it was run, each place once."""
    seen: dict[str, dict[str, Any]] = {}
    for run in store.runs(stored.id):
        seen.setdefault(json.dumps(run.facts, sort_keys=True), dict(run.facts))
    return [f"```json\n{json.dumps(facts, indent=1)}\n```" for facts in seen.values()]
