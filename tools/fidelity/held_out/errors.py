"""How far predictions are from real runs, beside how far real runs are from each other."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from fidelity.held_out.collect import Predicted
from fidelity.held_out.plan import Goal
from fidelity.observation import Metric, Observation, distances


@dataclass(frozen=True, slots=True)
class Errors:
    """The errors of one metric over some workloads.

    Attributes:
        metric: of what.
        errors: of each workload that has the metric: how far the median of its simulated runs is
            from that of its real ones, see `fidelity.observation.distances`.
        own: of each of them, how far a real run is from the median of the others, in the middle.
    """

    metric: Metric
    errors: tuple[float, ...]
    own: tuple[float, ...]

    def within(self, limit: float) -> float:
        """Return the share of the workloads whose error is within a limit.

        >>> Errors("wait", (0.01, 0.2), (0.0, 0.0)).within(0.1)
        0.5
        """
        return float(np.mean(np.asarray(self.errors) <= limit)) if self.errors else float("nan")

    def meets(self, goal: Goal) -> bool:
        """Return whether enough workloads are predicted well enough."""
        return bool(self.errors) and self.within(goal.within) >= goal.share

    def chance(self, goal: Goal) -> float:
        """Return the chance of so few workloads predicted well, or fewer, if the goal held.

        Of four workloads each of which is predicted well with a chance of 0.8, none is with
        0.2**4; that is 1 without any workload.

        >>> round(Errors("wait", (0.2,) * 4, ()).chance(Goal(within=0.1, share=0.8)), 4)
        0.0016
        >>> Errors("wait", (), ()).chance(Goal(within=0.1, share=0.8))
        1.0
        """
        well = sum(error <= goal.within for error in self.errors)
        return float(stats.binom.cdf(well, len(self.errors), goal.share))

    def percentile(self, share: float) -> float:
        """Return the error that this share of the workloads does not exceed."""
        return float(np.quantile(self.errors, share)) if self.errors else float("nan")


def errors(metric: Metric, predicted: Sequence[Predicted]) -> Errors:
    """Return the errors of a metric over the workloads that have it."""
    found = [(error_of(metric, one), spread(metric, one.real)) for one in predicted]
    known = [(error, own) for error, own in found if error is not None and own is not None]
    return Errors(metric, tuple(one for one, _ in known), tuple(own for _, own in known))


def error_of(metric: Metric, one: Predicted) -> float | None:
    """Return how far a workload's prediction is from its real runs; None without the metric.

    A workload of a fixed duration has no turnaround of its own.
    """
    if metric == "turnaround" and one.drawn.workload.duration_ns is not None:
        return None
    if not one.real or not one.simulated:
        return None
    found = distances(metric, one.simulated, one.real, draws=None)
    return None if found is None else float(found[0])


def spread(metric: Metric, real: Sequence[Observation]) -> float | None:
    """Return how far a real run is from the median of the others, in the middle.

    >>> runs = [Observation({}, {"wait": value}) for value in (90.0, 100.0, 100.0, 100.0)]
    >>> spread("wait", runs)
    0.0
    """
    apart = []
    for place, run in enumerate(real):
        others = [other for number, other in enumerate(real) if number != place]
        found = distances(metric, [run], others, draws=None) if others else None
        if found is not None:
            apart.append(float(found[0]))
    return float(np.median(apart)) if apart else None
