"""How far a kernel is from itself: the intervals that are fixed before anything is judged."""

import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fidelity.observation import METRICS, Metric, Observation, distances
from schedlab.boundary.errors import InputError
from schedlab.boundary.files import write_text

RESAMPLES = 2_000
CONFIDENCE = 0.95

Key = tuple[str, str]
"""Place and workload."""

Noise = Mapping[Key, Mapping[Metric, float]]

_HEAD = """\
# How far real kernels are from themselves, fixed from A/A runs before anything was judged: the
# distance that the medians of two sets of the same runs do not exceed 95 times in 100. Written by
# `make fidelity-behaviour`, which measures what is missing here and changes nothing else.
"""


def interval(metric: Metric, runs: Sequence[Observation], repeats: int) -> float | None:
    """Return how far the medians of two sets of the same runs are apart, 95 times in 100.

    Args:
        metric: of what.
        runs: A/A runs, from which the sets are drawn with replacement.
        repeats: runs of a set.

    >>> same = [Observation({}, {"turnaround": 100.0})] * 6
    >>> interval("turnaround", same, 3)
    0.0
    """
    found = distances(metric, runs, runs, draws=(RESAMPLES, repeats))
    return None if found is None else float(np.quantile(found, CONFIDENCE))


def intervals(runs: Sequence[Observation], repeats: int) -> dict[Metric, float]:
    """Return the interval of every metric that there is data of."""
    found = {metric: interval(metric, runs, repeats) for metric in METRICS}
    return {metric: value for metric, value in found.items() if value is not None}


def read(path: Path) -> dict[Key, dict[Metric, float]]:
    """Read what was fixed; nothing where there is no file yet.

    Raises:
        InputError: it is no such file.
    """
    return {
        (place, workload): {metric: values[metric] for metric in METRICS if metric in values}
        for (place, workload), values in read_tables(path, 2).items()
    }


def write(path: Path, noise: Noise) -> None:
    """Write what is fixed."""
    write_tables(path, _HEAD, noise)


def read_tables(path: Path, parts: int) -> dict[tuple[str, ...], dict[str, float]]:
    """Read numbers by name, in tables with names of several parts; nothing where there is no file.

    Args:
        path: the file.
        parts: how many parts a table's name has.

    Raises:
        InputError: it is no such file.
    """
    try:
        tables: dict[tuple[str, ...], Any] = {(): tomllib.loads(path.read_text(encoding="utf-8"))}
        for _ in range(parts):
            tables = {
                (*key, part): inner
                for key, table in tables.items()
                for part, inner in table.items()
            }
        return {
            key: {name: float(value) for name, value in table.items()}
            for key, table in tables.items()
        }
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: {error}") from None


def write_tables(path: Path, head: str, tables: Mapping[Any, Mapping[Any, float]]) -> None:
    """Write numbers by name, in tables with names of several parts.

    Args:
        path: the file.
        head: what comes first.
        tables: the numbers by name, by the parts of their tables' names.
    """
    lines = [head]
    for key, values in sorted(tables.items()):
        lines.append(f"[{'.'.join(json.dumps(part) for part in key)}]")
        lines += [f"{_key(name)} = {value:.6f}" for name, value in values.items()]
        lines.append("")
    write_text(path, "\n".join(lines))


def _key(name: str) -> str:
    return name if name.isidentifier() else json.dumps(name)
