"""Runs, verdicts and outcomes as data frames, of pandas or of polars.

Neither library is needed for anything else, so neither is loaded before it is asked for.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal

from schedlab.boundary import extras
from schedlab.boundary.errors import InputError
from schedlab.experiment import campaign
from schedlab.model.outcome import Outcome
from schedlab.store import Store

Library = Literal["pandas", "polars"]

Columns = dict[str, list[Any]]
"""A table by columns, all of one length."""


def run_columns(store: Store, experiment: str | None = None) -> Columns:
    """Return the runs of an experiment, or of all, a row a run: what it was, and its metrics.

    Args:
        store: where they are.
        experiment: its id; None for all.

    Returns:
        ``experiment``, ``group``, ``setting``, ``block``, ``position``, ``seed``, ``begun``,
        ``seconds``, ``load``, ``version``, ``target``, ``release``, a column ``set.NAME`` for what
        was set, and one for each metric (None where a run has it not).
    """
    rows = []
    for run in store.runs(experiment):
        group, _, setting = run.arm.rpartition(" | ")
        rows.append(
            {
                "experiment": run.experiment,
                "group": group,
                "setting": setting,
                "block": run.block,
                "position": run.position,
                "seed": str(run.seed),
                "begun": run.begun,
                "seconds": run.seconds,
                "load": run.load,
                "version": run.version,
                "target": run.definition.get("target"),
                "release": run.outcome.get("release", run.definition.get("release")),
                **{f"set.{k}": v for k, v in run.definition.get("values", {}).items()},
                **run.values,
            }
        )
    return columns(rows)


def answer_columns(result: campaign.Result) -> Columns:
    """Return the verdicts of an experiment, a row a question."""
    rows = []
    group_of = {cell["name"]: cell for cell in result.plan["cells"]}
    for answer in result.settled.answers:
        cell, ratio = group_of[answer.question.treatment], answer.judged.ratio
        rows.append(
            {
                "group": cell["group"],
                "setting": cell["setting"],
                "metric": answer.question.metric,
                "better": answer.question.better,
                "change": answer.change,
                "ratio": None if ratio is None else ratio.value,
                "low": None if ratio is None else ratio.interval.low,
                "high": None if ratio is None else ratio.interval.high,
                "confidence": None if ratio is None else ratio.interval.confidence,
                "blocks": answer.blocks,
                "verdict": str(answer.judged.verdict),
            }
        )
    return columns(rows)


def task_columns(outcome: Outcome) -> Columns:
    """Return the tasks of a run, a row a task.

    >>> from schedlab import Machine, simulate
    >>> outcome = simulate("pipe", scheduler="6.1", machine=Machine(1, "reference"))
    >>> len(task_columns(outcome)["name"]) == len(outcome.tasks)
    True
    """
    return columns([asdict(task) for task in outcome.tasks])


def columns(rows: Iterable[Mapping[str, Any]]) -> Columns:
    """Return rows as columns, in the order in which names turn up; what is missing is None.

    >>> columns([{"a": 1}, {"a": 2, "b": 3}])
    {'a': [1, 2], 'b': [None, 3]}
    """
    listed = list(rows)
    names = dict.fromkeys(name for row in listed for name in row)
    return {name: [row.get(name) for row in listed] for name in names}


def frame(table: Mapping[str, Sequence[Any]], library: Library = "pandas") -> Any:
    """Return a table as a data frame.

    Args:
        table: what one of the functions here returned.
        library: ``pandas`` or ``polars``.

    Raises:
        InputError: the library is unknown, or not installed.

    >>> frame({"a": [1, 2]}).shape, frame({"a": [1, 2]}, "polars").shape
    ((2, 1), (2, 1))
    """
    if library not in ("pandas", "polars"):
        raise InputError(f"library is '{library}'; allowed: pandas, polars")
    return extras.load(library).DataFrame(dict(table))
