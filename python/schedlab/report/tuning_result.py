"""A tuning's result, on the terminal and in sentences."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from schedlab.design import Surface, canonical
from schedlab.model import quantity
from schedlab.model.direction import Better
from schedlab.report.terminal import heading, note, say, show
from schedlab.report.words import counted, merit, percent
from schedlab.tuning import Gain, Tuning


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
    over = f" over {len(gains)} workloads (geometric mean)" if len(gains) > 1 else ""
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
