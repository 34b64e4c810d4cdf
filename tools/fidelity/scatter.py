"""Scatter plots of real against simulated runs, as SVG."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from schedlab.boundary.extras import Lazy

if TYPE_CHECKING:
    import altair as alt
    import vl_convert
else:
    alt = Lazy("altair")
    vl_convert = Lazy("vl_convert")


_PALETTE = ("#2563a8", "#d9822b", "#3f8f5f", "#8b5fbf", "#6b7280")


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


def scatter(
    dots: Sequence[Dot],
    *,
    band: float = 0.0,
    logarithmic: bool = True,
    columns: int = 3,
    size: int = 210,
) -> str:
    """Draw a panel of real against simulated numbers for each kind, with the line where both agree.

    Args:
        dots: what is drawn; hollow where it does not hold.
        band: the relative difference at which two further, dashed lines are drawn.
        logarithmic: whether both axes are.
        columns: panels in a row.
        size: side of a panel in pixels.
    """
    panels = list(dict.fromkeys(dot.panel for dot in dots))
    groups = list(dict.fromkeys(dot.group for dot in dots))
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
        .configure(font="sans-serif", background="white")
        .configure_axis(
            gridOpacity=0.4, labelFontSize=11, titleFontSize=11, titleFontWeight="normal"
        )
        .configure_title(fontSize=12, fontWeight="normal")
    )
    return vl_convert.vegalite_to_svg(styled.to_dict())


def _panel(
    dots: Sequence[Dot], groups: Sequence[str], *, band: float, logarithmic: bool, size: int
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
    colours = alt.Scale(domain=list(groups), range=list(_PALETTE[: len(groups)]))
    points = (
        alt.Chart({"values": rows})
        .mark_point(size=45, strokeWidth=1.5, clip=True)
        .encode(
            x,
            y,
            color=alt.Color(
                "group:N", scale=colours, title=None, legend=alt.Legend(orient="bottom")
            ),
            fill=alt.condition(
                "datum.holds",
                alt.Color("group:N", scale=colours, legend=None),
                alt.value("transparent"),
            ),
        )
    )
    return alt.layer(*lines, points).properties(width=size, height=size)
