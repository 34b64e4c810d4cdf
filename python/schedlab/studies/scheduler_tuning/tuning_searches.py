"""The tuning paper's searches, compared over workloads and against the whole surface."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from schedlab.experiment import stats
from schedlab.model import Machine
from schedlab.report import charts
from schedlab.report.figures import search_name
from schedlab.studies.alternative_text import spans
from schedlab.studies.scheduler_tuning.scheduler_tuning import (
    JIFFY,
    KNOBS,
    PAPER,
    SPACE,
    Settings,
    Turnaround,
    study,
)
from schedlab.studies.scheduler_tuning.scheduler_tuning import Study as Searches
from schedlab.studies.study import Cell, Claim, Figure, Table, Tell, judged

MESSAGES = range(1, 10)
"""Sets of messages from each sender to each receiver, figures 6 and 7."""

SWARM, DEFAULT, FIRST, SECOND = PAPER


def over_messages(messages: Sequence[int], seeds: Sequence[int], tell: Tell) -> dict[int, Searches]:
    """Run every search for every number of messages.

    Args:
        messages: sets of messages.
        seeds: of the swarms.
        tell: told of progress.
    """
    found = {}
    for place, count in enumerate(messages):
        tell("searches", place, len(messages))
        workload = f"hackbench:groups=5,loops={count}"
        found[count] = study(seeds=seeds, workload=workload, to_the_end=False)
    return found


@dataclass(frozen=True, slots=True)
class Grid:
    """The turnaround over all three knobs, and where the searches ended.

    Attributes:
        settings: latency, min granularity, wakeup granularity in nanoseconds, a row a point.
        turnarounds: nanoseconds.
        ends: the best settings of each search, by name, with their turnaround in nanoseconds.
        visited: where each search went, execution by execution, in the same run.
    """

    settings: np.ndarray
    turnarounds: np.ndarray
    ends: Mapping[str, tuple[Settings, int]]
    visited: Mapping[str, Sequence[tuple[Settings, int]]]

    @property
    def least(self) -> int:
        """The true optimum: of all that was ever executed."""
        return min(int(self.turnarounds.min()), *(value for _, value in self.ends.values()))


def grid(searches: Searches, points: int, machine: Machine | None = None) -> Grid:
    """Execute every combination of settings, in equal ratios over each knob's range.

    Args:
        searches: whose workload and scheduler.
        points: settings of each knob.
        machine: as the searches'.
    """
    axes = []
    for dimension in SPACE.dimensions:
        start = max(dimension.low, 100_000)
        values = np.rint(np.geomspace(start, dimension.high, points)).astype(np.int64)
        if dimension.low == 0:
            values = np.concatenate([[0], values[1:]])
        axes.append(values)
    rows = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
    objective = Turnaround(searches.workload, searches.scheduler, machine or searches.machine)
    objective(rows.astype(np.float64))
    ends, visited = {}, {}
    for name, runs in searches.runs.items():
        best = sorted(runs, key=lambda one: (one.minimum_ns, one.executions_to_minimum))
        middle = best[len(runs) // 2]
        ends[name] = (middle.settings, middle.minimum_ns)
        visited[name] = [(one, objective.nanoseconds(one)) for one in middle.visited]
    turnarounds = np.array([objective.nanoseconds(row) for row in rows.astype(np.float64)])
    return Grid(rows, turnarounds, ends, visited)


def claims(found: Mapping[int, Searches]) -> tuple[Claim, ...]:
    """Return what the paper says of its searches, and what ours did."""
    wins = [
        count
        for count, each in found.items()
        if (swarm := each.median(SWARM, "minimum_jiffies")) is not None
        and (section := each.median(FIRST, "minimum_jiffies")) is not None
        and swarm.value <= section.value
    ]
    ahead = Claim(
        "The swarm is ahead or level at every number of messages from 1 to 9",
        "Figures 6 and 7",
        f"at {len(wins)} of the {len(found)} numbers tried",
        judged(len(wins) == len(found), against=len(wins) * 2 < len(found)),
    )
    return *compared(found[min(found)]), ahead


def compared(one: Searches) -> tuple[Claim, ...]:
    """Return what the paper says of its searches on one workload, and what ours did.

    Args:
        one: the searches on it.
    """
    optimized, plain = (
        np.array([run.executions_to_minimum for run in one.runs[name]]) for name in (SWARM, DEFAULT)
    )
    difference = (
        stats.bootstrap((plain - optimized).astype(np.float64), lambda x: np.median(x, axis=-1))
        if len(plain) > 1
        else None
    )
    minima = {name: one.median(name, "minimum_jiffies") for name in PAPER}
    values = {name: estimate.value for name, estimate in minima.items() if estimate is not None}
    golden = values[FIRST]
    reach = one.median(SWARM, "executions_to_golden_minimum")
    low, high = (difference.interval.low, difference.interval.high) if difference else (0.0, 0.0)
    needed = {name: one.median(name, "executions_to_minimum") for name in PAPER}
    counts = {name: estimate.value for name, estimate in needed.items() if estimate is not None}
    return (
        Claim(
            "The optimised swarm needs fewer executions to its minimum than the default one",
            "61 against 78, one run each",
            f"medians {np.median(optimized):.0f} and {np.median(plain):.0f} over "
            f"{len(plain)} seeds; difference by seed",
            judged(low > 0, against=high < 0),
            (low, high) if difference else None,
        ),
        Claim(
            "The optimised and the default swarm attain the same turnaround",
            "3028 jiffies both",
            f"{values[SWARM]:.0f} and {values[DEFAULT]:.0f} elapsed jiffies",
            judged(values[SWARM] == values[DEFAULT], against=True),
        ),
        Claim(
            "The swarm attains a smaller turnaround than golden section does",
            "3028 against 5939 jiffies",
            f"{values[SWARM]:.0f} against {values[FIRST]:.0f} and {values[SECOND]:.0f} elapsed "
            "jiffies",
            judged(values[SWARM] < golden, against=values[SWARM] > golden),
        ),
        Claim(
            "Golden section reaches its minimum in far fewer executions than the swarm its own",
            "8 and 9 against 61",
            f"{counts[FIRST]:.0f} and {counts[SECOND]:.0f} against {counts[SWARM]:.0f}",
            judged(
                max(counts[FIRST], counts[SECOND]) < counts[SWARM],
                against=min(counts[FIRST], counts[SECOND]) > counts[SWARM],
            ),
        ),
        Claim(
            "The swarm needs more executions than golden section to do as well as that",
            "31 against 8 and 9",
            "never" if reach is None else f"{reach.value:.0f}",
            judged(
                reach is None or reach.value > counts[FIRST],
                against=reach is not None and reach.value < counts[FIRST],
            ),
        ),
    )


def tables(found: Mapping[int, Searches], surface: Grid) -> tuple[Table, ...]:
    """Return every search at every number of messages, and the surface."""
    rows = []
    for count, each in found.items():
        for name in PAPER:
            minimum = each.median(name, "minimum_jiffies")
            needed = each.median(name, "executions_to_minimum")
            assert minimum is not None
            assert needed is not None
            rows.append(
                (
                    count,
                    search_name(name),
                    len(each.runs[name]),
                    minimum.value,
                    needed.value,
                    needed.interval.low,
                    needed.interval.high,
                )
            )
    points: list[tuple[Cell, ...]] = [
        (*row, turnaround)
        for row, turnaround in zip(
            surface.settings.tolist(), surface.turnarounds.tolist(), strict=True
        )
    ]
    return (
        Table(
            "searches",
            "Searches over 1 to 9 messages: medians over seeds",
            (
                "messages",
                "search",
                "runs",
                "least turnaround (jiffies)",
                "executions to it",
                "95% low",
                "95% high",
            ),
            tuple(rows),
        ),
        ends(surface),
        Table(
            "visited",
            "Where each search's median run went, execution by execution (a swarm until it met the "
            "least possible)",
            (
                *("search", "execution", *(f"{knob} (ms)" for knob in KNOBS)),
                "turnaround (jiffies)",
            ),
            tuple(
                (search_name(name), number, *(value / 1e6 for value in settings), found / JIFFY)
                for name, path in surface.visited.items()
                for number, (settings, found) in enumerate(path, start=1)
            ),
            shown=False,
        ),
        Table(
            "surface",
            "The whole surface",
            (*(f"{knob} (ns)" for knob in KNOBS), "turnaround (ns)"),
            tuple(points),
            shown=False,
        ),
    )


def ends(surface: Grid) -> Table:
    """Return where each search ended, and how far above the least."""
    rows: list[tuple[Cell, ...]] = [
        (
            search_name(name),
            *(value / 1000000.0 for value in settings),
            turnaround / JIFFY,
            turnaround / surface.least - 1,
        )
        for name, (settings, turnaround) in surface.ends.items()
    ]
    return Table(
        "ends",
        f"Where the searches ended, and how far from the least turnaround of all, "
        f"{surface.least / JIFFY:.2f} jiffies",
        ("search", *(f"{knob} (ms)" for knob in KNOBS), "turnaround (jiffies)", "above"),
        tuple(rows),
    )


def landscape(surface: Grid) -> Figure:
    """Draw the surface and where each search went on it."""
    cells, paths = _cells(surface), _paths(surface)
    return Figure(
        "landscape",
        "The least turnaround over all wake-up granularities, by latency and min granularity; "
        "dots: every execution of each search's median run.",
        "Shades by latency and min granularity; jiffies: "
        + spans([{**one, "who": "all combinations"} for one in cells], "turnaround")
        + ". Executions, in jiffies: "
        + spans(paths, "turnaround")
        + ".",
        charts.heat(
            cells,
            paths,
            x="latency",
            y="granularity",
            color="turnaround",
            names=("latency (ms)", "min granularity (ms)", "jiffies"),
        ),
    )


def figures(found: Mapping[int, Searches], surface: Grid) -> tuple[Figure, ...]:
    """Draw figures 4 to 7 and the surface."""
    minima: list[dict[str, Any]] = []
    needed: list[dict[str, Any]] = []
    for count, each in found.items():
        for name in PAPER:
            for rows, attribute in (
                (minima, "minimum_jiffies"),
                (needed, "executions_to_minimum"),
            ):
                estimate = each.median(name, attribute)
                assert estimate is not None
                ends = {"low": estimate.interval.low, "high": estimate.interval.high}
                point = {"messages": count, "value": estimate.value, "who": search_name(name)}
                rows.append({**point, **ends})
    above = [_above(row, minima) for row in minima]
    paper = [
        {"messages": 1, "value": value, "who": f"{search_name(name)}, paper"}
        for name, numbers in PAPER.items()
        if (value := numbers["to_minimum"]) is not None
    ]
    return (
        Figure(
            "figure_6",
            "Figures 4 and 6: the least turnaround that each search attained, in per cent above "
            "that of the best search, medians over seeds with their 95 % intervals. "
            "(The paper's 3028 and 5939 jiffies are of another simulator's workload.)",
            "Per cent above the best search against sets of messages: "
            + spans(above, "value")
            + ". In jiffies: "
            + spans(minima, "value")
            + ".",
            charts.lines(
                above,
                x="messages",
                y="value",
                names=("sets of messages", "above the best search (%)"),
                zero=True,
            ),
        ),
        Figure(
            "figure_7",
            "Figures 5 and 7: executions until each search met its minimum, medians over seeds "
            "with their 95 % intervals, and the paper's.",
            "Executions against sets of messages: " + spans([*needed, *paper], "value") + ".",
            charts.lines(
                needed,
                paper,
                x="messages",
                y="value",
                names=("sets of messages", "executions (log scale)"),
                log_y=True,
            ),
        ),
        landscape(surface),
    )


def _above(row: Mapping[str, Any], minima: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a search's minimum as per cent above the best one with as many messages."""
    best = min(one["value"] for one in minima if one["messages"] == row["messages"])
    return dict(row) | {name: 100 * (row[name] / best - 1) for name in ("value", "low", "high")}


def _paths(surface: Grid) -> list[dict[str, Any]]:
    """Return where searches went, each at the nearest point of the surface's."""
    axes = [np.unique(surface.settings[:, column]) for column in (0, 1)]

    def nearest(axis: np.ndarray, value: int) -> float:
        return round(float(axis[int(np.argmin(np.abs(np.log((axis + 1) / (value + 1)))))]) / 1e6, 2)

    return [
        {
            "latency": nearest(axes[0], settings[0]),
            "granularity": nearest(axes[1], settings[1]),
            "turnaround": turnaround / JIFFY,
            "who": search_name(name),
        }
        for name, path in surface.visited.items()
        for settings, turnaround in path
    ]


def _cells(surface: Grid) -> list[dict[str, float]]:
    best: dict[tuple[int, int], int] = {}
    for (latency, granularity, _), turnaround in zip(
        surface.settings.tolist(), surface.turnarounds.tolist(), strict=True
    ):
        key = (latency, granularity)
        best[key] = min(turnaround, best.get(key, turnaround))
    return [
        {
            "latency": round(latency / 1e6, 2),
            "granularity": round(granularity / 1e6, 2),
            "turnaround": turnaround / JIFFY,
        }
        for (latency, granularity), turnaround in best.items()
    ]
