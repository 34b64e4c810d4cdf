"""When to stop measuring: looks at the data whose error rate is set beforehand.

Who looks at a comparison after every run and stops at the first difference finds one in the end,
whether there is any or not. Here there are few looks, after numbers of blocks that are fixed before
the first run, and each look spends a stated part of the error probability: a verdict at look k
needs an interval at confidence ``1 - alpha_k``, and the alphas add up to ``alpha``. All intervals
of all looks then hold the true ratio together with probability ``1 - alpha`` at least (Boole's
inequality), so no verdict, of a difference or of equivalence, at whatever look, is wrong more often
than that. The group sequential boundaries of the literature (K. K. G. Lan, D. L. DeMets, "Discrete
sequential boundaries for clinical trials", Biometrika 70:3, 1983) spend the same way and save a few
per cent of the runs by taking the looks' correlation into account, at the price of assuming it.

Several questions at once (more treatments, more metrics) share an error probability by S. Holm's
step-down rule ("A simple sequentially rejective multiple test procedure", Scandinavian Journal of
Statistics 6:2, 1979): of m open questions each is judged at ``alpha_k / m``; whatever is decided
leaves, and the rest is judged again with the smaller m, until a round decides nothing. A question
that is decided stays so at later looks. The union bound covers this as well: the first wrong
verdict comes while at least all questions of which none was wrongly decided are open.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.special import ndtri

from schedlab.experiment import stats
from schedlab.model.direction import Better

LOOKS = (12, 20, 32, 50, 80, 130, 200, 320)
"""Blocks after which there is a look, at the full budget."""

_FINAL_SHARE = 0.5
"""The last look's part of the error probability; the others share the rest evenly.

Large effects are found early at any price, so the last look, which decides whether a difference of
a per cent is there, gets the larger part.
"""


_TELLING = 4
"""Pairs from which on their scatter tells something."""


@dataclass(frozen=True, slots=True)
class Protocol:
    """How a comparison is judged.

    Attributes:
        looks: numbers of blocks after which the data are looked at, rising; the last is the budget.
        band: half-width of the equivalence band, 0.01 for one per cent.
        confidence: with which all verdicts of an experiment are right together.
        resamples: of each bootstrap.

    Raises:
        ValueError: a number out of range.

    >>> Protocol.within(50).looks
    (12, 20, 32, 50)
    >>> [round(alpha, 4) for alpha in Protocol.within(50).alphas]
    [0.0083, 0.0083, 0.0083, 0.025]
    """

    looks: tuple[int, ...] = LOOKS
    band: float = 0.01
    confidence: float = 0.95
    resamples: int = 10_000
    alphas: tuple[float, ...] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        if not self.looks or self.looks[0] < 2 or list(self.looks) != sorted(set(self.looks)):
            raise ValueError(f"looks are {self.looks}: rising whole numbers from 2 on are needed")
        if not (np.isfinite(self.band) and self.band >= 0):
            raise ValueError(f"band is {self.band}: a number of at least 0 is needed")
        if not 0 < self.confidence < 1:
            raise ValueError(f"confidence is {self.confidence}: a number between 0 and 1 is needed")
        alpha = 1 - self.confidence
        early = len(self.looks) - 1
        last = alpha * _FINAL_SHARE if early else alpha
        spent = tuple(alpha * (1 - _FINAL_SHARE) / early for _ in range(early))
        object.__setattr__(self, "alphas", (*spent, last))

    @property
    def budget(self) -> int:
        """The most blocks that are run."""
        return self.looks[-1]

    def projected_blocks(self, pairs: "Pairs", done: int, questions: int = 1) -> int:
        """Return the blocks after which a question is likely to be decided, from the pairs so far.

        Its effect and its scatter are taken for those of the pairs there are; of fewer than four
        pairs nothing is known, and the next look may be the last.

        Args:
            pairs: the measurements so far.
            done: complete blocks.
            questions: that are open together, among which each look's error probability is shared.

        >>> steady = Pairs([10.0, 10.1] * 4, [5.0, 5.1] * 4)
        >>> Protocol().projected_blocks(steady, 8)
        12
        """
        looks = zip(self.looks, self.alphas, strict=True)
        left = [(look, alpha) for look, alpha in looks if look > done]
        if not left:
            return self.budget
        if len(pairs.baseline) < _TELLING:
            return left[0][0]
        baseline, treatment = (np.asarray(one) for one in (pairs.baseline, pairs.treatment))
        if (baseline == treatment).all():
            return left[0][0]
        both = np.concatenate([baseline, treatment])
        if not np.isfinite(both).all() or (both <= 0).any():
            return self.budget  # there is no ratio, and no verdict
        logs = np.log(treatment) - np.log(baseline)
        mean, deviation = abs(float(logs.mean())), float(logs.std(ddof=1))
        for look, alpha in left:
            half = -float(ndtri(alpha / questions / 2)) * deviation / look**0.5
            same = np.log1p(self.band) if pairs.limit is None else abs(np.log(pairs.limit))
            if mean > half or mean + half < same:
                return look
        return self.budget

    @classmethod
    def within(cls, blocks: int, *, band: float = 0.01, confidence: float = 0.95) -> "Protocol":
        """Return the protocol that ends after so many blocks at the latest.

        Raises:
            ValueError: fewer than two blocks, or another number out of range.
        """
        early = [look for look in LOOKS if look < blocks]
        return cls((*early, blocks), band, confidence)


@dataclass(frozen=True, slots=True)
class Judged:
    """What one question came to.

    Attributes:
        ratio: treatment / baseline with the interval that the verdict rests on; None where the
            measurements have no ratio.
        verdict: see `schedlab.experiment.stats.judge`.
        band: half-width of the equivalence band.
        why: why there is no ratio; empty where there is one.
    """

    ratio: stats.Estimate | None
    verdict: stats.Verdict
    band: float
    why: str = ""

    @property
    def decided(self) -> bool:
        """Whether there is a verdict."""
        return self.verdict is not stats.Verdict.INCONCLUSIVE


@dataclass(frozen=True, slots=True)
class Pairs:
    """The measurements that a question is about, one pair a block.

    Attributes:
        baseline: measurements of the arm compared with.
        treatment: of the arm compared, of the same blocks.
        better: whether a lower or a higher value is better.
        limit: the worst ratio that is allowed, see `schedlab.experiment.stats.judge`.
    """

    baseline: Sequence[float]
    treatment: Sequence[float]
    better: Better = "lower"
    limit: float | None = None


def judge_all(
    questions: Mapping[str, Pairs], alpha: float, *, band: float = 0.01, resamples: int = 10_000
) -> dict[str, Judged]:
    """Judge questions together, so that with probability ``1 - alpha`` no verdict is wrong.

    Args:
        questions: the measurements by the question's name.
        alpha: the error probability they share.
        band: half-width of the equivalence band.
        resamples: of each bootstrap.

    Returns:
        By name, in the order given.

    >>> pairs = Pairs([10.0, 11.0, 10.5] * 5, [9.0, 9.9, 9.4] * 5)
    >>> str(judge_all({"turnaround": pairs}, 0.05)["turnaround"].verdict)
    'better'
    """
    found: dict[str, Judged] = {}
    open_names = list(questions)
    while open_names:
        level = alpha / len(open_names)
        judged = {name: _judge(questions[name], level, band, resamples) for name in open_names}
        found |= judged
        left = [name for name in open_names if not judged[name].decided]
        if len(left) == len(open_names):
            break
        open_names = left
    return {name: found[name] for name in questions}


def _judge(pairs: Pairs, alpha: float, band: float, resamples: int) -> Judged:
    baseline = np.asarray(pairs.baseline, dtype=np.float64)
    treatment = np.asarray(pairs.treatment, dtype=np.float64)
    undecided = stats.Verdict.INCONCLUSIVE
    if len(baseline) < 2:
        return Judged(None, undecided, band, "fewer than two pairs of runs")
    if not (np.isfinite(baseline).all() and np.isfinite(treatment).all()):
        return Judged(None, undecided, band, "a value is not a finite number")
    if (baseline == treatment).all():
        # Also where both are 0, of which there is no ratio.
        point = stats.Interval(1.0, 1.0, 1 - alpha)
        estimate = stats.Estimate(1.0, point, len(baseline))
        return Judged(estimate, _verdict(estimate, pairs, band), band)
    if (baseline <= 0).any() or (treatment <= 0).any():
        return Judged(None, undecided, band, "a value is 0 or less, so there is no ratio")
    logs = np.log(treatment) - np.log(baseline)
    low, high = stats.mean_intervals(logs, confidence=1 - alpha, resamples=resamples)[0]
    interval = stats.Interval(float(np.exp(low)), float(np.exp(high)), 1 - alpha)
    estimate = stats.Estimate(float(np.exp(logs.mean())), interval, len(logs))
    return Judged(estimate, _verdict(estimate, pairs, band), band)


def _verdict(estimate: stats.Estimate, pairs: Pairs, band: float) -> stats.Verdict:
    return stats.judge(estimate, band=band, better=pairs.better, limit=pairs.limit)
