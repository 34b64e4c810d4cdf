"""Kinds of figures that several studies draw, as Vega-Lite specifications."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from schedlab.boundary.errors import InputError
from schedlab.boundary.extras import Lazy
from schedlab.model import parse_time

if TYPE_CHECKING:
    import altair as alt
else:
    alt = Lazy("altair")


Values = Sequence[Mapping[str, Any]]
Chart = dict[str, Any]

PALETTE = ("#2563a8", "#d9822b", "#3f8f5f", "#8a4fa3", "#b33a3a", "#6b7280", "#0f766e", "#a16207")
_WIDTH, _HEIGHT = 420, 240

DARK = ("#6aa9e9", "#eda55d", "#6cc08d", "#c08fd6", "#e57f7f", "#9aa4af", "#45b8ac", "#d2a03c")
"""The same colours for a dark ground, on which each has a contrast of 4 to 1 at the least."""

_OF_POLICIES = ("CFS", "EEVDF", "PFS", "DW-CFS", "autogroup", "cgroups")
_OF_CLASSES = ("SCHED_OTHER", "SCHED_FIFO", "SCHED_RR")
_OF_KERNELS = ("2.6.24", "5.10", "6.1", "6.12", "6.18", "7.2", "7.3")


@contextmanager
def drawing() -> Iterator[None]:
    """Turn the library's refusal of values into a `ValueError` of one line.

    Raises:
        ValueError: of the values no figure can be drawn.
    """
    try:
        yield
    except Exception as error:
        if type(error).__name__ != "SchemaValidationError":
            raise
        said = " ".join(str(error).split())[:200]
        raise ValueError(f"no figure can be drawn of it: {said}") from None


def facets(values: Values, *, x: str, y: str, color: str, facet: str, title: str = "") -> Chart:
    """Draw stacked bars, a panel a value of ``facet``; ``y`` are shares from 0 to 1."""
    bars = (
        alt.Chart(_data(values))
        .mark_bar()
        .encode(
            x=alt.X(f"{x}:N", title=None, sort=None),
            y=alt.Y(f"{y}:Q", title=title or None, axis=alt.Axis(format="%")),
            color=_color(color, values),
            order=alt.Order(f"{color}:N"),
        )
        .properties(width=110, height=160)
    )
    return chart_of(bars.facet(facet=_panels(facet, values), columns=4))


def lines(
    values: Values,
    points: Values = (),
    *,
    x: str,
    y: str,
    names: tuple[str, str],
    color: str = "who",
    log: bool = False,
    zero: bool = False,
    log_y: bool = False,
    facet: str | None = None,
    free: bool = False,
    colors: Mapping[str, str] | None = None,
) -> Chart:
    """Draw lines, one a value of ``color``, and points beside them that no line joins.

    The first line is the widest and the last the narrowest, so that lines that coincide all show.

    Args:
        values: of the lines.
        points: shown as crosses, a paper's numbers.
        x: field of the horizontal axis.
        y: field of the vertical axis.
        names: titles of the axes.
        color: field that tells lines apart.
        log: whether the horizontal axis is logarithmic.
        zero: whether the vertical axis begins at zero.
        log_y: whether it is logarithmic, for lines that are far apart; then all are above zero.
        facet: field with a panel a value; none otherwise.
        free: each panel has its own vertical axis.
        colors: of the lines; those of their kernels or policies by default.

    Rows with ``low`` and ``high`` have a bar between the two: an interval, or a standard error on
    either side.
    """
    everything = [*values, *points]
    horizontal = alt.X(
        f"{x}:Q",
        title=names[0],
        scale=alt.Scale(type="log" if log else "linear", zero=False, nice=False, padding=8),
        axis=_ticks(everything, x, log=log),
    )
    upward = alt.Scale(type="log") if log_y else alt.Scale(zero=zero)
    vertical = alt.Y(f"{y}:Q", title=names[1], scale=upward)
    shade = _color(color, everything, colors)
    base = alt.Chart(_data(values)).mark_line(point=alt.OverlayMarkDef(size=25))
    layers = [base.encode(horizontal, vertical, shade, _width(color, values))]
    if points:
        crosses = alt.Chart(_data(points)).mark_point(shape="cross", size=90, filled=True)
        layers.append(crosses.encode(horizontal, vertical, shade))
    if spread := [value for value in everything if value.get("low") is not None]:
        bars = alt.Chart(_data(spread)).mark_rule(strokeWidth=1.5)
        ends = {"y": alt.Y("low:Q", title=names[1], scale=upward), "y2": "high:Q"}
        layers.insert(0, bars.encode(x=horizontal, color=shade, **ends))
    whole = alt.layer(*layers)
    if facet is None:
        return chart_of(whole.properties(width=_WIDTH, height=_HEIGHT))
    panel = alt.layer(*layers, data=_data(everything)) if not points else whole
    for layer in panel.layer:
        layer.data = alt.Undefined
    panels = panel.properties(width=200, height=150).facet(
        facet=_panels(facet, everything), columns=3
    )
    panels = panels.resolve_axis(x="independent")
    return chart_of(panels.resolve_scale(y="independent") if free else panels)


def _ticks(values: Values, field: str, *, log: bool) -> "alt.Axis":
    """Return an axis with ticks at the values of a log scale, and at whole numbers where few."""
    numbers = {value[field] for value in values}
    if log and len(numbers) <= 12:
        return alt.Axis(values=sorted(numbers), labelOverlap=True, labelSeparation=6, format="d")
    few = all(float(one).is_integer() for one in numbers) and max(numbers, default=0) <= 20
    return alt.Axis(tickMinStep=1, format="d") if few else alt.Axis()


def _width(field: str, values: Values) -> "alt.StrokeWidth":
    """Return widths that fall from the first line to the last."""
    order = list(dict.fromkeys(str(value[field]) for value in values))
    widths = [1.5 + 0.6 * place for place in reversed(range(len(order)))]
    return alt.StrokeWidth(f"{field}:N", scale=alt.Scale(domain=order, range=widths), legend=None)


def intervals(
    values: Values,
    *,
    x: str,
    y: str,
    low: str,
    high: str,
    names: tuple[str, str],
    color: str,
    colors: Mapping[str, str] | None = None,
) -> Chart:
    """Draw points with their intervals, categories along the vertical axis, a rule at 1.

    Args:
        values: a point each.
        x: field of the horizontal axis.
        y: field of the vertical axis.
        low: field of an interval's lower end.
        high: field of its upper end.
        names: titles of the axes.
        color: field that tells points apart.
        colors: of its values; those of `PALETTE` in turn by default.
    """
    vertical = alt.Y(f"{y}:N", title=names[1] or None, sort=None)
    shade = _color(color, values, colors)
    rule = alt.Chart(_data([{"one": 1}])).mark_rule(color="#6b7280").encode(x="one:Q")
    base = alt.Chart(_data(values))
    offset = alt.YOffset(f"{color}:N")
    bars = base.mark_rule(strokeWidth=2).encode(
        x=alt.X(f"{low}:Q", title=names[0], scale=alt.Scale(zero=False)),
        x2=f"{high}:Q",
        y=vertical,
        yOffset=offset,
        color=shade,
    )
    dots = base.mark_point(filled=True, size=50).encode(
        x=f"{x}:Q", y=vertical, yOffset=offset, color=shade
    )
    count = len({value[y] for value in values})
    return chart_of(
        alt.layer(rule, bars, dots).properties(width=_WIDTH, height=max(80, 34 * count))
    )


_DECADES = [0, 1, 10, 100, 1_000, 10_000, 100_000]


def bars(
    values: Values,
    *,
    x: str,
    y: str,
    color: str,
    names: tuple[str, str],
    facet: str,
    small: bool = False,
) -> Chart:
    """Draw bars side by side, a panel a value of ``facet``, each with its own axis.

    Rows with ``low`` and ``high`` have their interval over the bar.

    Args:
        values: a bar each.
        x: field of the categories.
        y: field of the height.
        color: field that tells the bars of a category apart.
        names: titles of the axes.
        facet: field with a panel a value.
        small: for heights of 0 and of thousands: a symmetric log scale, the same for all panels.
    """
    scale = alt.Scale(type="symlog") if small else alt.Scale()
    axis = alt.Axis(values=_DECADES) if small else alt.Axis()
    horizontal = alt.X(f"{x}:N", title=names[0] or None, sort=None)
    offset = alt.XOffset(f"{color}:N", sort=None)
    height = alt.Y(f"{y}:Q", title=names[1], scale=scale, axis=axis)
    base = alt.Chart()
    layers = [base.mark_bar().encode(horizontal, height, offset, _color(color, values))]
    if any(value.get("low") is not None for value in values):
        ends = base.mark_rule(strokeWidth=1.5, color=PALETTE[5])
        layers.append(ends.encode(horizontal, offset, y=alt.Y("low:Q"), y2="high:Q"))
    chart = (
        alt.layer(*layers, data=_data(values))
        .properties(width=170, height=140)
        .facet(facet=_panels(facet, values), columns=3)
    )
    return chart_of(chart if small else chart.resolve_scale(y="independent"))


def stacked(values: Values, *, x: str, y: str, color: str, title: str) -> Chart:
    """Draw horizontal bars, the parts of each stacked, the longest bar first."""
    chart = (
        alt.Chart(_data(values))
        .mark_bar()
        .encode(
            x=alt.X(f"sum({x}):Q", title=title),
            y=alt.Y(f"{y}:N", title=None, sort="-x"),
            color=_color(color, values),
        )
        .properties(width=_WIDTH)
    )
    return chart_of(chart)


def heat(
    values: Values,
    points: Values = (),
    *,
    x: str,
    y: str,
    color: str,
    names: tuple[str, str, str],
) -> Chart:
    """Draw a table of shades: two ordered axes and a quantity.

    Args:
        values: of the cells.
        points: drawn over them, coloured by ``who``.
        x: field of the horizontal axis.
        y: field of the vertical axis.
        color: field of the shade.
        names: titles of the axes and of the shade.
    """
    horizontal = alt.X(f"{x}:O", title=names[0])
    vertical = alt.Y(f"{y}:O", title=names[1], sort="descending")
    cells = (
        alt.Chart(_data(values))
        .mark_rect()
        .encode(
            horizontal,
            vertical,
            alt.Color(f"{color}:Q", title=names[2], scale=alt.Scale(scheme="blues")),
        )
    )
    if not points:
        return chart_of(cells.properties(width=_WIDTH, height=_HEIGHT))
    who = list(dict.fromkeys(str(value["who"]) for value in points))
    shades = alt.Scale(domain=who, range=list(PALETTE[1 : len(who) + 1]))
    legend = alt.Legend(orient="top", symbolStrokeWidth=0, columns=4, columnPadding=14)
    # Each a few pixels apart, so that executions at the same place all show.
    dots = [
        alt.Chart(_data([value for value in points if str(value["who"]) == name]))
        .mark_point(size=45, opacity=1, stroke="white", strokeWidth=0.5, xOffset=6 * place - 9)
        .encode(horizontal, vertical, alt.Fill("who:N", title=None, scale=shades, legend=legend))
        for place, name in enumerate(who)
    ]
    return chart_of(alt.layer(cells, *dots).properties(width=_WIDTH, height=_HEIGHT))


def _panels(field: str, values: Values) -> "alt.Facet":
    """Return panels in the order in which their values come."""
    order = list(dict.fromkeys(str(value[field]) for value in values))
    return alt.Facet(f"{field}:N", title=None, sort=order)


def dots(
    values: Values,
    *,
    x: str,
    y: str,
    color: str,
    colors: Mapping[str, str],
    names: tuple[str, str],
    facet: str,
) -> Chart:
    """Draw points, those of the last colours over the others, a panel a value of ``facet``.

    Args:
        values: a point each.
        x: field of the horizontal axis, whole numbers.
        y: field of the vertical axis.
        color: field that tells points apart.
        colors: of its values.
        names: titles of the axes.
        facet: field with a panel a value.
    """
    order = list(colors)
    points = (
        alt.Chart(_data(sorted(values, key=lambda value: order.index(str(value[color])))))
        .mark_point(filled=True, size=60, opacity=0.9)
        .encode(
            x=alt.X(
                f"{x}:Q",
                title=names[0],
                axis=alt.Axis(tickMinStep=1, format="d"),
                scale=alt.Scale(zero=False),
            ),
            y=alt.Y(f"{y}:Q", title=names[1], scale=alt.Scale(zero=False)),
            color=_color(color, values, colors),
        )
    )
    panels = list(dict.fromkeys(str(value[facet]) for value in values))
    if len(panels) == 1:
        return chart_of(points.properties(width=_WIDTH, height=_HEIGHT))
    panel = points.properties(width=200, height=150)
    whole = panel.facet(facet=_panels(facet, values), columns=3).resolve_scale(y="independent")
    return chart_of(whole)


def front(
    values: Values, *, colors: Mapping[str, str], names: tuple[str, str], rightward: bool
) -> Chart:
    """Draw a Pareto front over all that was tried, with intervals where there are some.

    Args:
        values: a point each: ``x``, ``y``, ``kind``, ``setting``, ``joined`` for the front's,
            and of a point that was measured again ``low_x``, ``high_x``, ``low_y``, ``high_y``.
        colors: of the kinds, those drawn last at the end.
        names: titles of the axes.
        rightward: whether what a point attains is attained to the right of it too, as where lower
            values of ``x`` are better.
    """
    order = list(colors)
    rows = sorted(values, key=lambda value: order.index(str(value["kind"])))
    color = _color("kind", rows, colors)
    scale = alt.Scale(zero=False, nice=True)
    x, y = alt.X("x:Q", title=names[0], scale=scale), alt.Y("y:Q", title=names[1], scale=scale)
    points = alt.Chart(_data(rows)).mark_point(filled=True, size=60, opacity=0.9)
    layers: list[alt.Chart] = [points.encode(x=x, y=y, color=color, tooltip=["setting:N"])]
    joined = [row for row in rows if row["joined"]]
    if len(joined) > 1:
        step = alt.Chart(_data(joined)).mark_line(
            interpolate="step-after" if rightward else "step-before", strokeDash=[4, 3], opacity=0.6
        )
        layers.insert(0, step.encode(x=x, y=y, color=alt.value(colors["front"])))
    measured = [row for row in rows if "low_x" in row]
    if measured:
        rules = alt.Chart(_data(measured)).mark_rule()
        layers += [
            rules.encode(x=alt.X("low_x:Q", title=names[0]), x2="high_x:Q", y=y, color=color),
            rules.encode(x=x, y=alt.Y("low_y:Q", title=names[1]), y2="high_y:Q", color=color),
        ]
    return chart_of(alt.layer(*layers).properties(width=_WIDTH, height=_HEIGHT))


def _color(field: str, values: Values, chosen: Mapping[str, str] | None = None) -> "alt.Color":
    domain = list(dict.fromkeys(str(value[field]) for value in values))
    for known in (_OF_POLICIES, _OF_CLASSES, _OF_KERNELS):
        if set(domain) <= set(known):
            chosen = chosen or dict(zip(known, PALETTE, strict=False))
    chosen = chosen or _of_kernels(domain)
    with suppress(InputError):
        domain.sort(key=parse_time)
    colors = [PALETTE[place % len(PALETTE)] for place in range(len(domain))]
    if chosen is None and _PAPER in domain:
        chosen = _in_turn(domain, {})
    if chosen is not None:
        domain = [value for value in chosen if value in domain]
        colors = [chosen[value] for value in domain]
    return alt.Color(
        f"{field}:N",
        title=None,
        scale=alt.Scale(domain=domain, range=colors),
        legend=_legend(domain) if len(domain) > 1 else None,
    )


def _legend(names: Sequence[str]) -> "alt.Legend":
    """Return a legend above the figure, of fewer columns where its names are long."""
    columns = 4 if max(map(len, names)) <= 24 else 2
    padding = 14 if columns == 4 else 40
    return alt.Legend(orient="top", columns=columns, labelLimit=380, columnPadding=padding)


def colours_of(names: Sequence[str]) -> dict[str, str]:
    """Return the colours of a legend's names, kernels in the order of their releases.

    >>> list(colours_of(["host", "vm:6.12", "vm:6.1"]))
    ['vm:6.1', 'vm:6.12', 'host']
    """
    found = _of_kernels(names) or _in_turn(names, {})
    places = {shade: place for place, shade in enumerate(PALETTE)}
    kernels = [name for name in names if _kernel(name)]
    kernels.sort(key=lambda name: places[found[name]])
    others = [name for name in names if name not in kernels]
    return {name: found[name] for name in [*kernels, *others]}


def _of_kernels(names: Sequence[str]) -> dict[str, str] | None:
    """Return colours of names such as ``fio, vm:6.1``: each kernel's, the others' in turn.

    None where no two of them name different kernels.
    """
    kernels = dict(zip(_OF_KERNELS, PALETTE, strict=False))
    found = {name: kernels[one] for name in names if (one := _kernel(name))}
    if len(set(found.values())) < max(2, len(found)):
        return None
    return _in_turn(names, found)


def _kernel(name: str) -> str:
    """Return the kernel that a legend's name has, such as ``6.1`` of ``vm:6.1``; else nothing."""
    found = re.findall(r"(?:^|[ :])(\d+\.\d+(?:\.\d+)?)(?=$|[ ,@])", name)
    return found[0] if found and found[0] in _OF_KERNELS else ""


_PAPER = "paper"
_OF_PAPER = PALETTE[4]


def _in_turn(names: Sequence[str], fixed: Mapping[str, str]) -> dict[str, str]:
    """Return the colours of names: the fixed ones, the paper's, and others in turn."""
    known = {_PAPER: _OF_PAPER, **fixed}
    others = iter([shade for shade in PALETTE if shade not in known.values()])
    return {name: known.get(name) or next(others, PALETTE[5]) for name in names}


def _data(values: Values) -> dict[str, Any]:
    return {"values": [dict(value) for value in values]}


def chart_of(chart: Any) -> Chart:
    """Return the specification of a chart in the look that all have."""
    styled = (
        chart.configure(font="sans-serif", background="transparent")
        .configure_axis(
            gridOpacity=0.4, labelFontSize=11, titleFontSize=11, titleFontWeight="normal"
        )
        # Labels are measured in a font that is narrower than some browsers'.
        .configure_axisY(titlePadding=12)
        .configure_legend(columnPadding=20)
    )
    made: Chart = styled.to_dict()
    return made
