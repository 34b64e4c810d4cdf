"""The demo's figures, as Vega-Lite specifications."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from schedlab.boundary.extras import Lazy
from schedlab.report.charts import Chart, chart_of

if TYPE_CHECKING:
    import altair as alt
else:
    alt = Lazy("altair")

Values = Mapping[str, Any]

_SEARCHES = {
    "pso_optimized": "PSO, optimised",
    "pso_default": "PSO, default",
    "golden_section_1": "golden section 1",
    "golden_section_2": "golden section 2",
}
_BLUE, _ORANGE, _GREY = "#2563a8", "#d9822b", "#6b7280"


def search_name(key: str) -> str:
    """Return a search's name for people."""
    return _SEARCHES.get(key, key)


def validation_line(validation: Values) -> Chart:
    """Draw measured against simulated turnarounds with the fitted line: the paper's figure 1."""
    points = _milliseconds(validation["points"])
    longest = max(point["simulated"] for point in points)
    line = [
        {
            "simulated": x,
            "measured": validation["intercept_ns"] / 1e6 + validation["slope"] * x,
        }
        for x in (0.0, longest)
    ]
    x = alt.X("simulated:Q", title="simulated turnaround (ms)")
    y = alt.Y("measured:Q", title="measured turnaround (ms)")
    fit = alt.Chart(_data(line)).mark_line(color=_GREY, strokeDash=[4, 3]).encode(x, y)
    dots = alt.Chart(_data(points)).mark_point(filled=True, size=60, color=_BLUE)
    return chart_of(alt.layer(fit, dots.encode(x, y)).properties(width=300, height=240))


def validation_errors(validation: Values) -> Chart:
    """Draw each point's error on a log scale, the simulator's and the constant-cost model's."""
    rows = []
    for point in validation["points"]:
        for model, key in (
            ("simulator", "log_error"),
            ("constant cost", "constant_cost_log_error"),
        ):
            rows.append({"messages": point["messages"], "model": model, "error": point[key]})
    zero = alt.Chart(_data([{"error": 0}])).mark_rule(color=_GREY).encode(y="error:Q")
    lines = (
        alt.Chart(_data(rows))
        .mark_line(point=True)
        .encode(
            x=alt.X("messages:Q", scale=alt.Scale(type="log"), title="messages (log scale)"),
            y=alt.Y("error:Q", title="ln(model / measured)"),
            color=_color("model", ["simulator", "constant cost"]),
        )
    )
    return chart_of(alt.layer(zero, lines).properties(width=300, height=240))


def tuning_distributions(tuning: Values) -> Chart:
    """Draw how many executions each search needed to its minimum, a dot a seed."""
    rows = []
    for key in _SEARCHES:
        found = tuning[key]["distribution"]
        counts: dict[int, int] = {}
        for value in found["executions_to_minimum"]:
            counts[value] = counts.get(value, 0) + 1
        rows += [
            {"search": search_name(key), "executions": value, "seeds": count}
            for value, count in counts.items()
        ]
    chart = (
        alt.Chart(_data(rows))
        .mark_circle(color=_BLUE, opacity=0.6)
        .encode(
            x=alt.X(
                "executions:Q",
                title="executions to the search's own minimum",
                axis=alt.Axis(tickMinStep=1),
            ),
            y=alt.Y("search:N", title=None, sort=list(_SEARCHES.values())),
            size=alt.Size(
                "seeds:Q",
                title="runs",
                scale=alt.Scale(range=[60, 400], zero=False),
                legend=alt.Legend(format="d", tickMinStep=1),
            ),
        )
    )
    return chart_of(chart.properties(width=420, height=150))


def tuning_minima(tuning: Values) -> Chart:
    """Draw the median minimum of each search, beside the default's turnaround."""
    rows = [
        {"search": search_name(key), "turnaround": tuning[key]["minimum_turnaround_ns"] / 1e6}
        for key in _SEARCHES
    ]
    rows.append({"search": "defaults", "turnaround": tuning["default_turnaround_ns"] / 1e6})
    bars = (
        alt.Chart(_data(rows))
        .mark_bar(color=_BLUE)
        .encode(
            x=alt.X("turnaround:Q", title="turnaround (jiffies of 1 ms), median over seeds"),
            y=alt.Y("search:N", title=None, sort=[*_SEARCHES.values(), "defaults"]),
        )
    )
    return chart_of(bars.properties(width=420, height=150))


def tuning_sweeps(tuning: Values) -> Chart:
    """Draw the turnaround as each knob is moved alone."""
    rows = []
    for sweep in tuning["sweeps"]:
        for value, turnaround in zip(sweep["values_ns"], sweep["turnarounds_ns"], strict=True):
            if value > 0:
                rows.append(
                    {
                        "knob": sweep["knob"],
                        "value": value / 1e6,
                        "turnaround": turnaround / 1e6,
                    }
                )
    lines = (
        alt.Chart(_data(rows))
        .mark_line(point=True)
        .encode(
            x=alt.X("value:Q", scale=alt.Scale(type="log"), title="setting (ms, log scale)"),
            y=alt.Y("turnaround:Q", scale=alt.Scale(zero=False), title="turnaround (jiffies)"),
            color=_color("knob", [sweep["knob"] for sweep in tuning["sweeps"]]),
        )
    )
    return chart_of(lines.properties(width=420, height=220))


def verified_candidates(verified: Values) -> Chart:
    """Draw the simulated turnaround of each policy and slice."""
    rows = [
        {
            "setting": row["setting"],
            "turnaround": row["simulated_ns"] / 1e6,
            "kind": "default" if row["setting"] == verified["baseline"] else "candidate",
        }
        for row in verified["candidates"]
    ]
    bars = (
        alt.Chart(_data(rows))
        .mark_bar()
        .encode(
            x=alt.X("turnaround:Q", title="simulated turnaround (ms)"),
            y=alt.Y("setting:N", title=None, sort=[row["setting"] for row in rows]),
            color=_color("kind", ["candidate", "default"]),
        )
    )
    return chart_of(bars.properties(width=420, height=max(60, 16 * len(rows))))


def verified_runs(verified: Values) -> Chart:
    """Draw every real run of the default and of the best candidate."""
    rows = []
    for setting, key in (
        (verified["baseline"], "baseline_runs_ns"),
        (verified["setting"], "setting_runs_ns"),
    ):
        for block, value in enumerate(verified[key], start=1):
            rows.append({"setting": setting, "block": block, "turnaround": value / 1e6})
    dots = (
        alt.Chart(_data(rows))
        .mark_line(point=True)
        .encode(
            x=alt.X("block:Q", title="interleaved block", axis=alt.Axis(tickMinStep=1)),
            y=alt.Y("turnaround:Q", scale=alt.Scale(zero=False), title="turnaround (ms)"),
            color=_color("setting", [verified["setting"], verified["baseline"]]),
        )
    )
    return chart_of(dots.properties(width=420, height=200))


def _milliseconds(points: Sequence[Values]) -> list[dict[str, float]]:
    return [
        {
            "messages": point["messages"],
            "simulated": point["simulated_ns"] / 1e6,
            "measured": point["measured_ns"] / 1e6,
        }
        for point in points
    ]


def _color(field: str, domain: Sequence[str]) -> "alt.Color":
    palette = [_BLUE, _ORANGE, "#3f8f5f", _GREY]
    scale = alt.Scale(domain=list(domain), range=palette[: len(domain)])
    return alt.Color(f"{field}:N", scale=scale, title=None, legend=alt.Legend(orient="top"))


def _data(rows: Sequence[Values]) -> dict[str, Any]:
    return {"values": list(rows)}
