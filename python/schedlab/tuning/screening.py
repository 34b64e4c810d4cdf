"""Screening: the candidates that a simulation cannot separate from the best go to the real kernel.

A simulation ranks candidates, and its ranking has a known error: `RANKING` is the rank correlation
with real kernels that ``validation/prediction.toml`` demands of each line. The best candidate on
the real kernel is therefore not the first one in simulation, but among the first few, and this is
how few: let both rankings have normal scores with correlation r. The score that simulation gives
the best of n candidates is ``r * m + sqrt(1 - r**2) * e``, where m is the least of n normal scores
and e another normal score. All ranks up to the upper quantile of that are kept (`cut`).

Ranks that differ by chance, or by what no user would choose by, are no ranks: a candidate is
screened out only where simulation is certain that it is worse than the last rank that is kept, by
its own interval over several seeds and by more than `DIFFERENCE`.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from schedlab.boundary.errors import RunError
from schedlab.experiment import stats
from schedlab.experiment.settings import Setting
from schedlab.experiment.subjects import Subject
from schedlab.search.space import FloatArray
from schedlab.targets.target import Simulated
from schedlab.tuning.aims import parse_aims
from schedlab.tuning.objective import Batched
from schedlab.tuning.result import Tuning, ranking
from schedlab.tuning.runs import Case, Runs

RANKING = 0.8
"""Spearman's correlation of simulated with real rankings (``correlation`` in
``validation/prediction.toml``)."""

DIFFERENCE = 0.02
"""Ratios up to which settings are equally good in practice (``difference`` there)."""

ERROR = 0.05
"""Probability with which the best candidate is screened out at the most."""

CONFIDENCE = 0.95
"""Of the interval of a simulated difference."""

SEEDS = 8
"""Seeds with which each candidate is simulated, none of them of the search."""

STEPS = 8
"""Steps of a dimension: settings nearer to each other than one are neighbours."""

_QUANTILES = 2_000
"""Of the distribution of the least score."""


def cut(candidates: int, *, error: float = ERROR, ranking: float = RANKING) -> int:
    """Return how many ranks of a simulation the best candidate is among.

    Args:
        candidates: how many are ranked.
        error: probability with which it is not.
        ranking: Spearman's correlation with the real ranking.

    >>> cut(24), cut(24, ranking=0.95), cut(377)
    (9, 4, 35)
    """
    if candidates < 2:
        return candidates
    r = 2 * math.sin(math.pi * ranking / 6)  # Pearson's correlation of normal scores, by Spearman's
    shares = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
    least = ndtri(-np.expm1(np.log1p(-shares) / candidates))

    def missed(rank: int) -> bool:
        score = ndtri(rank / candidates)
        return bool(ndtr((r * least - score) / math.sqrt(1 - r * r)).mean() > error)

    return bisect_left(range(1, candidates), True, key=lambda rank: not missed(rank)) + 1


@dataclass(frozen=True, slots=True)
class Screened:
    """Candidates, divided by a simulation.

    Attributes:
        kept: those it cannot separate from the best, the best in simulation first.
        out: those that are certain to be worse than the last rank that is kept.
        failed: those that cannot be simulated, or break a floor.
        ranks: how many ranks are kept, see `cut`.
    """

    kept: tuple[Setting, ...]
    out: tuple[Setting, ...]
    failed: tuple[Setting, ...]
    ranks: int

    def as_data(self) -> dict[str, object]:
        """Return it as plain data."""
        return {
            "kept": [dict(one.values) for one in self.kept],
            "screened_out": len(self.out),
            "failed": len(self.failed),
            "ranks": self.ranks,
            "ranking": RANKING,
            "error": ERROR,
        }

    def sentence(self) -> str:
        """Say how many candidates are left, and by what the others are out."""
        tried = len(self.kept) + len(self.out) + len(self.failed)
        broken = f", {len(self.failed)} break a floor or cannot be run" if self.failed else ""
        return (
            f"simulation screened out {len(self.out)} of {tried} candidates{broken}: certain to be "
            f"worse than rank {self.ranks} by more than {100 * DIFFERENCE:.0f} %, and the best is "
            f"among the first {self.ranks} with {100 * (1 - ERROR):.0f} % where rankings correlate "
            f"by {RANKING}; {len(self.kept)} race"
        )


def screen(candidates: Sequence[Setting], costs: FloatArray) -> Screened:
    """Divide candidates into those that go to the real kernel and those that do not.

    Args:
        candidates: what could be set.
        costs: logarithms of what each is worth, less being better, a row a candidate, a column a
            seed; infinite where it cannot be run. All rows have the same seeds.

    Raises:
        ValueError: another shape, or fewer than two seeds.

    >>> from schedlab.experiment.settings import combinations
    >>> slices = combinations({"slice": [f"{number}ms" for number in range(1, 25)]})
    >>> steady = np.log(np.arange(1.0, 25.0))[:, None] + np.zeros((24, 2))
    >>> [len(part) for part in (lambda one: (one.kept, one.out))(screen(slices, steady))]
    [9, 15]
    """
    table = np.asarray(costs, dtype=np.float64)
    if table.ndim != 2 or len(table) != len(candidates) or table.shape[1] < 2:
        raise ValueError(f"costs have shape {table.shape}: a row a candidate, two seeds at least")
    means = table.mean(axis=1)
    able = [place for place in np.argsort(means, kind="stable") if np.isfinite(means[place])]
    failed = tuple(one for place, one in enumerate(candidates) if not np.isfinite(means[place]))
    if not able:
        return Screened((), (), failed, 0)
    ranks = cut(len(able))
    behind = able[ranks:]
    out: set[int] = set()
    if behind:
        excess = table[behind] - table[able[ranks - 1]]
        least = stats.mean_intervals(excess, confidence=CONFIDENCE)[:, 0]
        out = {
            place
            for place, low in zip(behind, least.tolist(), strict=True)
            if low > math.log1p(DIFFERENCE)
        }
    return Screened(
        tuple(candidates[place] for place in able if place not in out),
        tuple(candidates[place] for place in able if place in out),
        failed,
        ranks,
    )


def simulated_costs(
    subjects: Sequence[tuple[str, Subject]],
    place: Simulated,
    settings: Sequence[Setting],
    *,
    metrics: Sequence[str] = (),
    keep: Sequence[str] = (),
    seeds: int = SEEDS,
    first_seed: int = 1,
) -> FloatArray:
    """Return the logarithm of what each setting is worth in simulation, a column a seed.

    Args:
        subjects: what is simulated, each with a name.
        place: the rules and the machine.
        settings: what is set.
        metrics: the aims, as for `schedlab.tune`.
        keep: floors, as for `schedlab.tune`; a setting that breaks one costs infinitely much.
        seeds: how many.
        first_seed: the first of them.

    Raises:
        InputError: something that cannot be simulated.
        RunError: the present setting cannot be.

    >>> from schedlab.experiment.subjects import Described
    >>> from schedlab.model import Machine, Scheduler, Workload
    >>> place = Simulated(Scheduler("6.1"), Machine(1, "reference"))
    >>> one = Described(Workload.parse("hackbench:groups=1,fds=2,loops=1"))
    >>> simulated_costs([("one", one)], place, [Setting({})], seeds=2).tolist()
    [[0.0, 0.0]]
    """
    aims = parse_aims(subjects, metrics, keep)
    cases = [Case(name, one, aims.metrics_of(name)) for name, one in subjects]
    simulated = Batched(cases, aims, Runs(place, seed=first_seed), repeats=seeds)
    rows = np.full((len(settings), seeds), np.inf)
    for row, one in enumerate(settings):
        try:
            rows[row] = simulated.worths(one)
        except RunError:
            continue  # it comes to no end there
    return rows


def candidates(found: Tuning) -> list[Setting]:
    """Return settings that stand for all that a simulated tuning tried, the best first.

    Settings that share a cell of a grid with `STEPS` steps a dimension are neighbours, of which the
    best stands for all.
    """
    space = found.parameters.space
    worths = dict(ranking(found))
    cells: dict[tuple[int, ...], Setting] = {}
    for history in found.histories:
        for position in history.positions:
            one = found.parameters.setting(position)
            if one not in worths:
                continue
            cell = tuple(
                round(value - dimension.low)
                if dimension.integer and dimension.high - dimension.low < STEPS
                else min(
                    STEPS - 1,
                    int(STEPS * (value - dimension.low) / (dimension.high - dimension.low)),
                )
                for value, dimension in zip(position.tolist(), space.dimensions, strict=True)
            )
            if cell not in cells or worths[one] < worths[cells[cell]]:
                cells[cell] = one
    return sorted(dict.fromkeys(cells.values()), key=lambda one: worths[one])
