"""A tuning's result, on the terminal and in sentences."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from schedlab.design import Surface, canonical
from schedlab.experiment.campaign import Result
from schedlab.experiment.settings import Setting
from schedlab.experiment.stats import Verdict
from schedlab.model import quantity
from schedlab.model.direction import Better
from schedlab.report.terminal import heading, note, say, show
from schedlab.report.words import counted, merit, percent
from schedlab.tuning import Aims, Certificate, Gain, Tuning
from schedlab.tuning.aims import Part
from schedlab.tuning.result import summary


def describe_tuning(found: Tuning, certified: bool) -> None:
    """Print the best setting, and what the runs of the search say of it.

    Args:
        found: the tuning.
        certified: whether fresh runs follow, which say what it does for each workload.
    """
    where = f"{found.by} on {found.target}, rules of {found.release}"
    say(f"{where}, {counted(found.cpus, 'CPU')}; {counted(len(found.seeds), 'seed')}")
    say()
    if found.best.values:
        show(list(found.best.values.items()), ("setting", "best value found"))
    else:
        say("no setting tried beats the present setting")
    say()
    if not certified:
        show([gain_row(asdict(gain)) for gain in found.gains], GAIN_COLUMNS, left=2)
        say(UNCERTIFIED)
    for text in found.notes:
        note(text)
    if len(found.aims.aims) > 1:
        heading(FRONT)
        points = summary(found)["front"]
        show(front_rows(points), front_columns(found.aims), left=1)
        say()
    say(f"in the search: {search_words(found.effect, found.gains, found.better)}")
    if (minimum := found.minimum()) is not None:
        ends = (minimum.interval.low, minimum.interval.high)
        low, high = (
            merit(end, found.better) for end in sorted(ends, reverse=found.better != "lower")
        )
        say(
            f"over seeds: median {merit(minimum.value, found.better)}, 95% interval {low} to {high}"
        )
    tried, to_best = _over(found.executions), _over(found.executions_to_minimum)
    stored = f", {found.stored} of them from the store" if found.stored else ""
    say(f"settings tried {tried}, to the best {to_best}; {found.runs} runs{stored}")
    still = [name for name, moved in found.moved.items() if not moved]
    if still:
        say(f"moving {', '.join(still)} alone changes nothing here")
    surfaces = [stage.surface for stage in found.stages if stage.surface is not None]
    if surfaces:
        describe_surface(surfaces[0])


FRONT = "The Pareto front: no setting that was tried is better for one aim and as good for the rest"
"""The title of a table of `front_rows`."""


def front_columns(aims: Aims) -> tuple[str, ...]:
    """Return the headings of `front_rows`."""
    return ("setting", *(part_name(part, aims) for part in aims.parts))


def part_name(part: Part, aims: Aims) -> str:
    """Return the name of a metric, with its workload where there are several."""
    several = len({one.workload for one in aims.parts}) > 1
    return str(part) if several else part.metric.name


def front_rows(front: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """Return the points of a front as plain data, each with its change of each metric."""
    return [
        (
            str(Setting(point["setting"])),
            *(
                f"{quantity(gain['tuned'], gain['unit'])} ({percent(gain['change'] + 1)})"
                for gain in point["gains"]
            ),
        )
        for point in front
    ]


def trade(certificate: Certificate, aims: Aims) -> str:
    """Return what a setting gives for what, in fresh runs: first what is better, then its price.

    A metric is named with its workload where there are several.
    """
    better, price, rest = [], [], []
    for part in aims.parts:
        answer = certificate.answers.get((part.workload, part.metric.name))
        name = part_name(part, aims)
        if answer is None or answer.judged.ratio is None:
            rest.append(f"{name} unknown")
            continue
        said = f"{name} {percent(answer.judged.ratio.value)}"
        verdict = answer.judged.verdict
        lower = answer.judged.ratio.value < 1
        if verdict is Verdict.BETTER:
            better.append(said)
        elif verdict is Verdict.WORSE or (
            verdict is Verdict.KEPT and lower != (part.metric.better == "lower")
        ):
            price.append(said)
        else:
            rest.append(f"{said} ({verdict})")
    gained = " and ".join(better) or "nothing certain"
    paid = f" for {' and '.join(price)}" if price else ""
    return f"{gained}{paid}" + (f"; {', '.join(rest)}" if rest else "")


def family(results: Sequence[Result]) -> dict[str, Any]:
    """Return how many verdicts are right together, and with which confidence, as plain data."""
    if not results:
        return {"verdicts": 0, "confidence": None}
    last = results[-1]
    return {"verdicts": len(last.settled.answers), "confidence": last.plan["confidence"]}


def conclusion(told: Mapping[str, Any]) -> list[str]:
    """Return what is recommended of several aims, and how sure all verdicts are together.

    Args:
        told: what `schedlab tune` keeps of a certification.
    """
    found = [
        f"{'certified' if one['certified'] else 'not certified'}: {Setting(one['setting'])}: "
        f"{one['trade']}"
        for one in told["points"]
    ]
    family = told["family"]
    found.append(
        f"all {family['verdicts']} verdicts are right together with {family['confidence']:.0%} "
        "confidence (Holm's rule over settings, metrics and looks)"
    )
    if told["recommended"] is None:
        return [*found, "recommended: none, for no point is certified as better on the whole"]
    best = next(one for one in told["points"] if one["setting"] == told["recommended"])
    return [*found, f"recommended: {Setting(best['setting'])}: {best['trade']}"]


GAIN_COLUMNS = ("workload", "metric", "default", "best", "change")
"""Headings of `gain_row`."""

UNCERTIFIED = (
    "These are the runs that chose the setting (geometric means), which flatter it; "
    "no fresh runs certify it."
)
"""What such a table says of itself."""


def gain_row(gain: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what the search saw of a workload, from a gain as plain data."""
    return (
        gain["case"],
        f"{gain['metric']} ({gain['better']} is better)",
        quantity(gain["default"], gain["unit"]),
        quantity(gain["tuned"], gain["unit"]),
        percent(gain["change"] + 1),
    )


def search_words(effect: float, gains: Sequence[Gain], better: Better | None) -> str:
    """Return what a setting is worth in the runs that chose it."""
    metrics = " and ".join(dict.fromkeys(gain.metric for gain in gains))
    workloads = len({gain.case for gain in gains})
    over = f" over {workloads} workloads" if workloads > 1 else ""
    over += " (geometric mean)" if len(gains) > 1 else ""
    return f"{metrics} {merit(effect, better)}{over}"


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


def _over(values: tuple[int, ...]) -> str:
    if len(values) == 1:
        return str(values[0])
    ordered = sorted(values)
    return f"{ordered[len(ordered) // 2]} (median; {ordered[0]} to {ordered[-1]})"
