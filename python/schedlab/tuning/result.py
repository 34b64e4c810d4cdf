"""What a tuning came to, and where one stands."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from schedlab.boundary import notebook
from schedlab.boundary.errors import InputError
from schedlab.experiment import stats
from schedlab.experiment.settings import Setting
from schedlab.model import parse_time, quantity
from schedlab.model.direction import Better
from schedlab.search import History
from schedlab.search.response_surface import Stage
from schedlab.tuning.aims import Aims
from schedlab.tuning.parameters import Parameters
from schedlab.tuning.searches import By

if TYPE_CHECKING:
    import altair as alt


@dataclass(frozen=True, slots=True)
class Pace:
    """Where a tuning stands, told after each run.

    Attributes:
        done: runs made or found in the store.
        most: runs there will be, from what is known now.
        seconds_left: time for the rest, at the pace so far; None before it is known.
        effect: the best setting's worth so far, see `Tuning`.
        better: the direction that all cases share; None where they differ.
    """

    done: int
    most: int
    seconds_left: float | None
    effect: float
    better: Better | None = "lower"


@dataclass(frozen=True, slots=True)
class Gain:
    """What the tuned setting does for one of the cases.

    Attributes:
        case: the case's name.
        metric: what counts.
        unit: of the values.
        better: whether a lower or a higher value is better.
        default: geometric mean with the present setting, over the runs of the search.
        tuned: geometric mean with the tuned setting.
        change: of the metric itself, tuned / default - 1.
    """

    case: str
    metric: str
    unit: str
    better: Better
    default: float
    tuned: float
    change: float


@dataclass(frozen=True, slots=True)
class Point:
    """A setting that no other setting that was tried dominates.

    Attributes:
        setting: the setting; the default is one where nothing dominates it.
        worth: the geometric mean of what it is worth for each aim.
        aims: its ratio to the default for each aim, below 1 being better.
        gains: what it does for each metric of each workload.
    """

    setting: Setting
    worth: float
    aims: tuple[float, ...]
    gains: tuple[Gain, ...]


@dataclass(frozen=True, slots=True)
class Tuning:
    """What a tuning came to.

    Attributes:
        id: in the store; empty without one.
        by: the search.
        target: the name of the place.
        release: the kernel release there.
        cpus: CPUs there.
        parameters: what was searched.
        aims: what settings are judged by.
        best: the setting that serves all aims together best; ``default`` where nothing that was
            tried and keeps the floors beat it.
        effect: its worth in the runs that chose it: the geometric mean over the aims, each that of
            its cases' ratios to the default, those of metrics of which higher is better turned
            round; below 1 is better. What was chosen for it looks too good by it: `certify` asks
            fresh runs.
        gains: what it does for each metric of each case.
        front: the Pareto front of all that was tried and keeps the floors; of one aim its best.
        runner_up: the best of the others than the default; ``best`` unless that is the default.
        seeds: of each search.
        minima: the least worth that each search met.
        executions: settings each search tried.
        executions_to_minimum: settings until each met its minimum.
        moved: by parameter, whether moving it alone changes anything; empty for real runs, whose
            scatter hides it.
        stages: the surfaces that were fitted, of a search by response surfaces.
        histories: all that was tried, a search each.
        runs: made or found in the store.
        stored: found in the store.
        fresh_seed: the first seed beyond those that were searched with.
        notes: what to know before relying on it, a sentence each, as an outcome's.
    """

    id: str
    by: By
    target: str
    release: str
    cpus: int
    parameters: Parameters
    aims: Aims
    best: Setting
    effect: float
    gains: tuple[Gain, ...]
    front: tuple[Point, ...]
    runner_up: Setting | None
    seeds: tuple[int, ...]
    minima: tuple[float, ...]
    executions: tuple[int, ...]
    executions_to_minimum: tuple[int, ...]
    moved: Mapping[str, bool]
    stages: tuple[Stage, ...]
    histories: tuple[History, ...]
    runs: int
    stored: int
    fresh_seed: int
    notes: tuple[str, ...] = ()

    @property
    def better(self) -> Better | None:
        """The direction that all cases share; None where they differ."""
        return shared_direction(gain.better for gain in self.gains)

    def minimum(self) -> stats.Estimate | None:
        """Return the median of the minima over seeds, None for a single search."""
        return stats.median(self.minima) if len(self.minima) > 1 else None

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the best setting and what it does for each case."""
        rows = [
            (
                gain.case,
                gain.metric,
                quantity(gain.default, gain.unit),
                quantity(gain.tuned, gain.unit),
                f"{100 * gain.change:+.1f} %",
            )
            for gain in self.gains
        ]
        head = ("case", "metric", "default", "tuned", "change in the search")
        flattery = "The runs that chose the setting flatter it: certify it with fresh runs."
        title = f"{self.by} on {self.target}, {self.release}: {self.best}"
        return notebook.table(title, head, rows, (*self.notes, flattery))

    def plot(self) -> "alt.Chart":
        """Draw every setting that was tried, by the first two parameters, as an Altair chart.

        Colours are the worth: 1 is the default, below 1 is better. Of several aims the front is
        drawn instead, by the first two of them.

        Raises:
            InputError: the extra ``charts`` is not installed.

        >>> from schedlab import Machine, tune
        >>> found = tune("hackbench:groups=1,fds=2,loops=1", knobs=["latency=1ms..50ms"],
        ...              by="random", scheduler="6.1", machine=Machine(1, "reference"),
        ...              executions=8)
        >>> found.plot().to_dict()["mark"]["type"]
        'point'
        """
        alt = notebook.alt
        if len(self.aims.aims) > 1:
            return self._plot_front()
        searched = self.parameters.names[:2]
        rows = []
        for history in self.histories:
            for position, value in zip(history.positions, history.values, strict=True):
                texts = self.parameters.setting(position).values
                rows.append(
                    {name: _plain(texts.get(name, "")) for name in searched}
                    | {"worth": float(value)}
                )
        times = {name: isinstance(rows[0][name], float) for name in searched} if rows else {}

        def axis(kind: "type[alt.X] | type[alt.Y]", name: str) -> "alt.X | alt.Y":
            if not times.get(name):
                return kind(f"{name}:N", title=name)
            return kind(f"{name}:Q", title=f"{name} (ms)", scale=alt.Scale(type="log"))

        second = (
            axis(alt.Y, searched[1])
            if len(searched) > 1
            else alt.Y("worth:Q", scale=alt.Scale(zero=False))
        )
        colour = alt.Color("worth:Q", scale=alt.Scale(scheme="viridis", reverse=True))
        chart: alt.Chart = (
            alt.Chart(notebook.rows_of(rows))
            .mark_point(filled=True, size=70)
            .encode(axis(alt.X, searched[0]), second, colour)
            .properties(title=f"{self.by}, {self.release}: best {self.best}", width=620, height=300)
        )
        return chart

    def _plot_front(self) -> "alt.Chart":
        alt = notebook.alt
        first, second = (f"{aim.name}, worth: below 1 is better" for aim in self.aims.aims[:2])
        rows = [
            {"first": point.aims[0], "second": point.aims[1], "setting": str(point.setting)}
            for point in self.front
        ]
        scale = alt.Scale(zero=False)
        chart: alt.Chart = (
            alt.Chart(notebook.rows_of(rows))
            .mark_line(point=True, interpolate="step-after")
            .encode(
                alt.X("first:Q", title=first, scale=scale),
                alt.Y("second:Q", title=second, scale=scale),
                tooltip=["setting:N"],
            )
            .properties(title=f"{self.by}: best {self.best}", width=620, height=300)
        )
        return chart


def ranking(found: Tuning) -> list[tuple[Setting, float]]:
    """Return the settings that a tuning tried, each with its worth, the best first.

    What could not be run or breaks a floor is left out, and so is the default.
    """
    worths: dict[Setting, float] = {}
    for history in found.histories:
        for position, worth in zip(history.positions, history.values.tolist(), strict=True):
            if np.isfinite(worth):
                worths.setdefault(found.parameters.setting(position), worth)
    worths.pop(Setting({}), None)
    return sorted(worths.items(), key=lambda pair: pair[1])


def _plain(text: str) -> float | str:
    """Return a time in milliseconds; any other value as it is."""
    try:
        return parse_time(text) / 1e6
    except InputError:
        return text


def shared_direction(directions: Iterable[Better]) -> Better | None:
    """Return the direction that metrics share; None where they differ.

    >>> shared_direction(["lower", "lower"]), shared_direction(["lower", "higher"])
    ('lower', None)
    """
    found = set(directions)
    return found.pop() if len(found) == 1 else None


def summary(tuning: Tuning) -> dict[str, Any]:
    """Return a tuning's result as plain data.

    ``effect`` is the worth of the best setting in the runs that chose it, below 1 being better;
    ``better`` the direction that all metrics share, and ``change`` what that worth is as a change
    of them (None for both where directions differ).
    """
    better = tuning.better
    change = tuning.effect - 1 if better == "lower" else 1 / tuning.effect - 1
    return {
        "by": tuning.by,
        "target": tuning.target,
        "release": tuning.release,
        "cpus": tuning.cpus,
        "best": dict(tuning.best.values),
        "effect": tuning.effect,
        "better": better,
        "change": None if better is None else change,
        "gains": [asdict(gain) for gain in tuning.gains],
        **tuning.aims.as_data(),
        "front": [
            {
                "setting": dict(point.setting.values),
                "worth": point.worth,
                "aims": list(point.aims),
                "gains": [asdict(gain) for gain in point.gains],
            }
            for point in tuning.front
        ],
        "runner_up": None if tuning.runner_up is None else dict(tuning.runner_up.values),
        "seeds": list(tuning.seeds),
        "minima": list(tuning.minima),
        "executions": list(tuning.executions),
        "executions_to_minimum": list(tuning.executions_to_minimum),
        "moved": dict(tuning.moved),
        "runs": tuning.runs,
        "notes": list(tuning.notes),
    }
