"""What a tuning came to, on the terminal and in sentences."""

import numpy as np

from schedlab import campaign
from schedlab.design import Surface, canonical
from schedlab.model import short_time
from schedlab.report.terminal import heading, say, show
from schedlab.report.words import counted, interval_words, percent
from schedlab.settings import Setting
from schedlab.stats import Verdict
from schedlab.tuning import Gain, Tuning


def describe_tuning(found: Tuning) -> None:
    """Print the best setting, and what it does for each workload."""
    where = f"{found.by} on {found.target}, rules of {found.release}"
    say(f"{where}, {counted(found.cpus, 'CPU')}; {counted(len(found.seeds), 'seed')}")
    say()
    if found.best.values:
        show(list(found.best.values.items()), ("setting", "best value found"))
    else:
        say("nothing that was tried beats what is set at present")
    say()
    show(
        [
            (
                gain.case,
                gain.metric,
                value(gain, gain.default),
                value(gain, gain.tuned),
                percent(gain.change),
            )
            for gain in found.gains
        ],
        ("workload", "metric", "with defaults", "best", "change"),
        left=2,
    )
    if len(found.gains) > 1:
        say(f"over all of them: {percent(found.effect)} (geometric mean, less is better)")
    if found.target != "sim":
        say(f"in pairs with the best so far, without the machine's drift: {percent(found.effect)}")
    if (minimum := found.minimum()) is not None:
        low, high = (percent(end) for end in (minimum.interval.low, minimum.interval.high))
        say(f"over seeds: median {percent(minimum.value)}, 95% interval {low} to {high}")
    tried, to_best = _over(found.executions), _over(found.executions_to_minimum)
    stored = f", {found.stored} of them from the store" if found.stored else ""
    say(f"settings tried {tried}, to the best {to_best}; {found.runs} runs{stored}")
    still = [name for name, moved in found.moved.items() if not moved]
    if still:
        say(f"moving {', '.join(still)} alone changes nothing here")
    surfaces = [stage.surface for stage in found.stages if stage.surface is not None]
    if surfaces:
        describe_surface(surfaces[0])


def describe_surface(surface: Surface) -> None:
    """Print a fitted surface: its significance table and its canonical analysis."""
    heading("the first response surface, in coded units (-1 to 1)")
    show(
        [
            (
                term.name,
                f"{term.estimate:.4g}",
                f"{term.standard_error:.3g}",
                f"{term.t:.2f}",
                f"{term.p:.2g}",
            )
            for term in surface.terms
        ],
        ("term", "estimate", "standard error", "t", "p"),
    )
    lack = surface.lack_of_fit
    said = "" if lack is None else f", lack of fit p = {lack.p:.2g}"
    say(f"R² = {surface.r_squared:.3f}{said}")
    try:
        found = canonical(surface)
    except ValueError as error:
        say(str(error))
        return
    point = ", ".join(
        f"{name} {one:.2f}" for name, one in zip(found.names, found.stationary, strict=True)
    )
    values = ", ".join(f"{one:.3g}" for one in np.asarray(found.eigenvalues).tolist())
    say(f"stationary point ({found.nature}): {point}; eigenvalues {values}")


def verdict_sentences(setting: Setting | None, certified: campaign.Result) -> list[str]:
    """Return a sentence a workload: what fresh interleaved runs say of a setting.

    Of each workload the metric that decides is told.
    """
    found = []
    group_of = {cell["name"]: cell["group"] for cell in certified.plan["cells"]}
    for answer in certified.settled.answers:
        question, judged = answer.question, answer.judged
        if not question.decisive:
            continue
        group = group_of[question.treatment]
        if judged.ratio is None:
            found.append(f"{group}: inconclusive ({judged.why})")
            continue
        change = f"{question.metric} {percent(judged.ratio.value)}"
        interval = f"{judged.ratio.interval.confidence:.1%} interval {interval_words(judged.ratio)}"
        words = {
            Verdict.BETTER: f"better with {setting}",
            Verdict.WORSE: f"worse with {setting}",
            Verdict.SAME: f"the same with {setting}, within {judged.band:.0%}",
            Verdict.INCONCLUSIVE: f"inconclusive for {setting}",
        }[judged.verdict]
        found.append(f"{group}: {words}: {change}, {interval}, {answer.blocks} interleaved pairs")
    for arm, why in certified.settled.failures.items():
        found.append(f"{arm}: could not be run on: {why}")
    return found


def value(gain: Gain, number: float) -> str:
    """Return a metric with its unit."""
    if gain.unit == "s":
        return short_time(number * 1e9)
    return f"{number:.6g}{' ' if gain.unit else ''}{gain.unit}"


def _over(values: tuple[int, ...]) -> str:
    if len(values) == 1:
        return str(values[0])
    ordered = sorted(values)
    return f"{ordered[len(ordered) // 2]} (median; {ordered[0]} to {ordered[-1]})"
