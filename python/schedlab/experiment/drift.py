"""Whether the machine changed while an experiment ran.

A drift that is slow against a block hits all arms of the block alike and cancels in pairs. It is
still worth knowing: single values then say little, and a machine that throttles or shares its CPUs
measures its neighbours too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr, stdtrit

from schedlab.experiment import stats


@dataclass(frozen=True, slots=True)
class Drift:
    """A trend over the time of an experiment.

    Attributes:
        change: by what factor the metric changed from the first run to the last, along the line
            fitted to its logarithm, with its interval.
        p: the probability of a slope as steep where there is no trend.
        found: whether there is one, at the confidence of the interval.
    """

    change: stats.Estimate
    p: float
    found: bool


def drift(
    runs: Mapping[str, Sequence[tuple[float, float]]], *, confidence: float = 0.99
) -> Drift | None:
    """Look for a common trend of all arms over time.

    The logarithms of each arm's values, less the arm's mean, are fitted by one line over time;
    the slope's interval is Student's t, each arm's mean costing a degree of freedom. Runs count
    as independent, so a slow wave shows as a trend too, which is what is asked for.

    Args:
        runs: by arm, each run's place in time (in any unit) and value above 0.
        confidence: of the interval.

    Returns:
        None where there are too few runs, or no time between them.

    >>> rising = {"a": [(t, 100 * 1.01**t) for t in range(20)], "b": [(0, 7.0), (19, 8.5)]}
    >>> found = drift(rising)
    >>> found.found, round(found.change.value, 2)
    (True, 1.21)
    """
    times, logs = [], []
    arms = 0
    for values in runs.values():
        usable = [(time, value) for time, value in values if value > 0]
        if len(usable) < 2:
            continue
        time = np.array([pair[0] for pair in usable], dtype=np.float64)
        log = np.log([pair[1] for pair in usable])
        times.append(time - time.mean())
        logs.append(log - log.mean())
        arms += 1
    if not times:
        return None
    x, y = np.concatenate(times), np.concatenate(logs)
    freedom = len(x) - arms - 1
    spread = float(x @ x)
    if freedom < 1 or spread == 0:
        return None
    slope = float(x @ y) / spread
    residual = y - slope * x
    deviation = float(np.sqrt(residual @ residual / freedom / spread))
    length = max(
        max(pair[0] for pair in values) for values in runs.values() if len(values) > 0
    ) - min(min(pair[0] for pair in values) for values in runs.values() if len(values) > 0)
    if deviation == 0:
        p = 1.0 if slope == 0 else 0.0
    else:
        p = float(2 * stdtr(freedom, -abs(slope) / deviation))
    reach = float(stdtrit(freedom, (1 + confidence) / 2)) * deviation
    low, high = (float(np.exp((slope + side * reach) * length)) for side in (-1, 1))
    estimate = stats.Estimate(
        float(np.exp(slope * length)), stats.Interval(low, high, confidence), len(x)
    )
    return Drift(estimate, p, p < 1 - confidence)
