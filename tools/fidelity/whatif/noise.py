"""How far a kernel's recordings of the same are from each other, fixed before others are judged."""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path

from fidelity.noise import read_tables, write_tables
from fidelity.whatif.register import METRICS, Metric
from schedlab.measure.inference import Behaviour
from schedlab.measure.similarity import likeness

Key = tuple[str, str, str]
"""Place, workload and change."""

Noise = Mapping[Key, Mapping[Metric, float]]

_HEAD = """\
# How far what real kernels were recorded to do is from what they were recorded to do before, with
# the same set: the furthest two of the A/A recordings, fixed before anything else was judged.
# Shares in points of 100, all others as a part. Written by `make fidelity-what-if`, which measures
# what is missing here and changes nothing else.
"""


def apart(runs: Sequence[Behaviour]) -> dict[Metric, float]:
    """Return how far the furthest two of some runs are apart, by metric.

    One of a pair is taken for what is real and the other for what is predicted, both ways.
    """
    found: dict[Metric, float] = {}
    for one, other in itertools.permutations(runs, 2):
        figures = {figure.name: figure.difference for figure in likeness(one, other).figures}
        for metric in METRICS:
            difference = figures[metric]
            if difference is not None:
                found[metric] = max(difference, found.get(metric, 0.0))
    return found


def read(path: Path) -> dict[Key, dict[Metric, float]]:
    """Read what was fixed; nothing where there is no file yet.

    Raises:
        InputError: it is no such file.
    """
    return {
        (place, workload, change): {
            metric: values[metric] for metric in METRICS if metric in values
        }
        for (place, workload, change), values in read_tables(path, 3).items()
    }


def write(path: Path, noise: Noise) -> None:
    """Write what is fixed."""
    write_tables(path, _HEAD, noise)
