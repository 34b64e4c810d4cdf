"""Scatter plots of real against simulated runs, as SVG."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from schedlab.boundary.extras import Lazy
from schedlab.report import charts as look
from schedlab.report import page

if TYPE_CHECKING:
    import altair as alt
else:
    alt = Lazy("altair")


@dataclass(frozen=True, slots=True)
class Dot:
    """One thing that was simulated and really run.

    Attributes:
        panel: the plot it belongs to.
        group: what gives its colour.
        real: the real number.
        simulated: the simulated one.
        holds: whether it is as it should be.
    """

    panel: str
    group: str
    real: float
    simulated: float
    holds: bool = True


@dataclass(frozen=True, slots=True)
class Picture:
    """A drawing with its alternative text.

    Attributes:
        svg: the drawing.
        alternative: the text.
    """

    svg: str
    alternative: str


def scatter(
    dots: Sequence[Dot],
    *,
    band: float = 0.0,
    logarithmic: bool = True,
    columns: int = 3,
    size: int = 210,
) -> Picture:
    """Draw a panel of real against simulated numbers for each kind, with the line where both agree.

    The picture follows its reader's light or dark screen; a kernel's colour is that of all figures.

    Args:
        dots: what is drawn; hollow where it does not hold.
        band: the relative difference at which two further, dashed lines are drawn.
        logarithmic: whether both axes are.
        columns: panels in a row.
        size: side of a panel in pixels.
    """
    panels = list(dict.fromkeys(dot.panel for dot in dots))
    groups = look.colours_of(list(dict.fromkeys(dot.group for dot in dots)))
    charts = [
        _panel(
            [dot for dot in dots if dot.panel == panel],
            groups,
            band=band,
            logarithmic=logarithmic,
            size=size,
        ).properties(title=panel)
        for panel in panels
    ]
    rows = [alt.hconcat(*charts[at : at + columns]) for at in range(0, len(charts), columns)]
    styled = (
        alt.vconcat(*rows)
        .configure(font="sans-serif", background="transparent")
        .configure_axis(
            gridOpacity=0.4, labelFontSize=11, titleFontSize=11, titleFontWeight="normal"
        )
        .configure_title(fontSize=12, fontWeight="normal")
    )
    return Picture(page.follows_screen(page.svg(styled.to_dict())), _described(dots))


def _described(dots: Sequence[Dot]) -> str:
    """Return the alternative text: how many points each panel has, and how many of them are hollow.

    >>> _described([Dot("shares", "vm:6.1", 1.0, 1.1), Dot("shares", "host", 2.0, 4.0, False)])
    'Scatter of real (across) against simulated (up). shares: 2 points, 1 hollow.'
    """
    parts = []
    for panel in dict.fromkeys(dot.panel for dot in dots):
        holding = [dot.holds for dot in dots if dot.panel == panel]
        hollow = f", {holding.count(False)} hollow" if not all(holding) else ""
        parts.append(f"{panel}: {len(holding)} points{hollow}")
    return f"Scatter of real (across) against simulated (up). {'; '.join(parts)}."


def _panel(
    dots: Sequence[Dot], groups: Mapping[str, str], *, band: float, logarithmic: bool, size: int
) -> "alt.LayerChart | alt.FacetChart":
    # A logarithmic axis has no place for zero.
    shown = [dot for dot in dots if not logarithmic or (dot.real > 0 and dot.simulated > 0)]
    numbers = [number for dot in shown for number in (dot.real, dot.simulated)] or [1.0]
    low, high = min(numbers), max(numbers)
    if logarithmic:
        low, high = low / 1.3, high * 1.3
    scale = alt.Scale(type="log" if logarithmic else "linear", domain=[low, high], nice=False)
    x = alt.X("real:Q", scale=scale, title="real", axis=alt.Axis(tickCount=5, format="~s"))
    y = alt.Y(
        "simulated:Q", scale=scale, title="simulated", axis=alt.Axis(tickCount=5, format="~s")
    )
    lines = []
    for factor in (1.0, 1 + band, 1 - band) if band else (1.0,):
        ends = [{"real": end, "simulated": end * factor} for end in (low, high)]
        mark = alt.Chart({"values": ends}).mark_line(
            color="#9ca3af", strokeDash=[1, 0] if factor == 1.0 else [4, 3], clip=True
        )
        lines.append(mark.encode(x, y))
    rows = [
        {"real": dot.real, "simulated": dot.simulated, "group": dot.group, "holds": dot.holds}
        for dot in shown
    ]
    colours = alt.Scale(domain=list(groups), range=list(groups.values()))
    points = (
        alt.Chart({"values": rows})
        .mark_point(size=45, strokeWidth=1.5, clip=True)
        .encode(
            x,
            y,
            color=alt.Color("group:N", scale=colours, title=None, legend=alt.Legend(orient="top")),
            fill=alt.condition(
                "datum.holds",
                alt.Color("group:N", scale=colours, legend=None),
                alt.value("transparent"),
            ),
        )
    )
    return alt.layer(*lines, points).properties(width=size, height=size)
