"""Results in words."""

from schedlab.experiment.blocks import Comparison
from schedlab.experiment.stats import Estimate, Verdict
from schedlab.model.direction import Better


def percent(ratio: float) -> str:
    """Return a ratio as a change.

    >>> percent(0.9), percent(1.0), percent(1.034)
    ('-10.0%', 'no change', '+3.4%')
    """
    change = ratio - 1
    return "no change" if abs(change) < 0.0005 else f"{change:+.1%}"


def merit(worth: float, better: Better | None) -> str:
    """Return what a setting is worth as the change of the metrics, and whether that is better.

    Args:
        worth: the geometric mean of the ratios to the default, those of metrics of which higher is
            better turned round: below 1 is better.
        better: the direction that all the metrics have; None where they differ.

    >>> merit(0.5, "lower"), merit(0.5, "higher"), merit(1.25, "lower"), merit(1.0, "higher")
    ('-50.0%, better', '+100.0%, better', '+25.0%, worse', 'no change')
    >>> merit(0.5, None)
    '2 times as good'
    """
    if better is None:
        return f"{1 / worth:.3g} times as good"
    change = percent(worth if better == "lower" else 1 / worth)
    if change == "no change":
        return change
    return f"{change}, {'better' if worth < 1 else 'worse'}"


def counted(number: int, what: str) -> str:
    """Return so many of something.

    >>> counted(1, "CPU"), counted(4, "CPU")
    ('1 CPU', '4 CPUs')
    """
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def interval_words(estimate: Estimate) -> str:
    """Return an interval of a ratio as changes."""
    low, high = estimate.interval.low, estimate.interval.high
    return f"{low - 1:+.1%} to {high - 1:+.1%}"


def verdict_words(comparison: Comparison) -> str:
    """Return a verdict on turnaround as a sentence.

    A difference is only claimed where the interval excludes none.
    """
    ratio = comparison.ratio
    interval = f"{ratio.interval.confidence:.0%} interval {interval_words(ratio)}"
    pairs = f"{ratio.size} interleaved pairs"
    match comparison.verdict:
        case Verdict.BETTER:
            told = f"{comparison.treatment} is faster than {comparison.baseline}"
        case Verdict.WORSE:
            told = f"{comparison.treatment} is slower than {comparison.baseline}"
        case Verdict.SAME:
            told = f"no difference beyond {comparison.band:.0%}"
        case Verdict.INCONCLUSIVE:
            told = "no difference shown; the runs scatter too much to exclude one"
    return f"{told}: turnaround {percent(ratio.value)}, {interval}, {pairs}"
