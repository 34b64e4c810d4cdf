"""What ``schedlab tune --metric``, ``--better`` and ``--keep`` ask for."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from schedlab import tuning
from schedlab.boundary.errors import InputError
from schedlab.cli import comparison
from schedlab.experiment.subjects import Subject
from schedlab.model.direction import direction_of, pattern_words
from schedlab.programs.command import OWN
from schedlab.tuning.aims import split_floor


@dataclass(frozen=True, slots=True)
class Asked:
    """What is run, and what it is judged by.

    Attributes:
        subjects: what is run, each with a name.
        metrics: the aims, as `schedlab.tune` takes them.
        keep: the floors, as `schedlab.tune` takes them.
        aims: both, read.
    """

    subjects: list[tuple[str, Subject]]
    metrics: list[str]
    keep: list[str]
    aims: tuning.Aims


def read(
    workloads: Sequence[str],
    run: str | None,
    simulation: comparison.Simulation,
    *,
    single: str | None = None,
    metrics: Sequence[str] = (),
    better: Sequence[str] = (),
    keep: Sequence[str] = (),
) -> Asked:
    """Return what options ask for.

    Args:
        workloads: workloads and programs.
        run: a command.
        simulation: what is simulated.
        single: ``--metrics``: the metric of all workloads.
        metrics: each ``--metric``: an aim of workloads, or a pattern of the command.
        better: each ``--better``, of those patterns.
        keep: each ``--keep``; one of no known metric is a pattern of the command.

    Raises:
        InputError: nothing to run, or what no workload or command has.
    """
    if run is None:
        if better:
            raise InputError(
                "--better is for metrics of --command: a workload's are known to be better lower "
                "or higher"
            )
        if single is not None and metrics:
            raise InputError("--metrics says what --metric says: leave one of them out")
        what = comparison.subjects(workloads, None, (), simulation)
        wanted = list(metrics) or ([] if single is None else [single])
        return Asked(what, wanted, list(keep), tuning.parse_aims(what, wanted, keep))
    of_workloads = [text for text in metrics if text.endswith(tuple(f" of {w}" for w in workloads))]
    patterns = comparison.directed([text for text in metrics if text not in of_workloads], better)
    named = max(1, len(patterns))
    floors, added = _floors(keep, workloads, [pattern for pattern, _ in patterns])
    if added and not patterns:
        patterns = [("seconds", None)]
    what = comparison.subjects(workloads, run, [*patterns, *added], simulation)
    own = iter(metric.name for metric in what[-1][1].metrics)
    tail = f" of {run}" if workloads else ""
    first = [next(own) for _ in range(named)]
    names = iter(first)
    wanted = [] if single is None else [single]
    if len(metrics) > 1 or of_workloads:
        wanted = [text if text in of_workloads else f"{next(names)}{tail}" for text in metrics]
    kept = [f"{next(own)}{tail}{limit}" if limit else text for text, limit in floors]
    return Asked(what, wanted, kept, tuning.parse_aims(what, wanted, kept))


def _floors(
    keep: Sequence[str], workloads: Sequence[str], patterns: Sequence[str]
) -> tuple[list[tuple[str, str]], list[tuple[str, str | None]]]:
    """Return floors, and patterns of a command among them, each with its direction.

    Returns:
        Each floor with its limit where it is one of a pattern, and those patterns. Where a
        pattern's words do not tell its direction, its floor does: ``>=`` says that higher is
        better.
    """
    floors: list[tuple[str, str]] = []
    added: list[tuple[str, str | None]] = []
    groups = {name for pattern in patterns for name in _groups(pattern)}
    names = {metric.name for metric in OWN} | groups | {"metric"}
    names |= {f"metric {place}" for place in range(2, len(patterns) + 1)}
    for text in keep:
        pattern, sign, limit = split_floor(text)
        if pattern in names or pattern.endswith(tuple(f" of {w}" for w in workloads)):
            floors.append((text, ""))
            continue
        direction = direction_of(pattern_words(pattern)) or ("lower" if sign == "<=" else "higher")
        floors.append((text, sign + limit))
        added.append((pattern, direction))
    return floors, added


def _groups(pattern: str) -> list[str]:
    try:
        return list(re.compile(pattern).groupindex)
    except re.error:
        return []  # said where the pattern is read
