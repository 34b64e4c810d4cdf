"""The protocol of a fair comparison: randomised, interleaved blocks.

Repeats of one setting followed by repeats of another confound the settings with whatever else
changed between the two sessions (a warmer machine, another tenant). Here each block runs every arm
once, in a random order, so a slow drift hits all arms alike and a comparison by pairs within
blocks cancels it. An arm is any callable; nothing here knows what it measures. To see what the
protocol finds where nothing differs, give the same callable under two names (an A/A check).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, SupportsFloat, TypeVar

import numpy as np

from schedlab.boundary import notebook
from schedlab.experiment import stats
from schedlab.model.direction import Better
from schedlab.processes import lease

if TYPE_CHECKING:
    import altair as alt

T = TypeVar("T")

Arm = Callable[[int, int], T]
"""Runs an arm once; it is given the block and the place in the block's order, both from 0."""


@dataclass(frozen=True, slots=True)
class Run(Generic[T]):
    """One execution of one arm.

    Attributes:
        block: the block it belongs to, from 0.
        position: its place in the block's order, from 0.
        arm: the arm's name.
        outcome: what the arm returned.
    """

    block: int
    position: int
    arm: str
    outcome: T


@dataclass(frozen=True, slots=True)
class Comparison:
    """A treatment against a baseline.

    Attributes:
        baseline: the name of the arm compared with.
        treatment: the name of the arm compared.
        ratio: by what factor the treatment changed the metric, see
            `schedlab.experiment.stats.paired_ratio`.
        verdict: see `schedlab.experiment.stats.judge`.
        band: half-width of the equivalence band the verdict used.
    """

    baseline: str
    treatment: str
    ratio: stats.Estimate
    verdict: stats.Verdict
    band: float

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the change, its interval and the verdict."""
        low, value, high = (f"{100 * (end - 1):+.1f} %" for end in self._ends)
        pairs = str(self.ratio.size)
        head = ("change", f"{self.ratio.interval.confidence:.0%} interval", "verdict", "pairs")
        row = (value, f"{low} to {high}", self.verdict.value, pairs)
        return notebook.table(f"{self.treatment} against {self.baseline}", head, [row])

    def plot(self) -> "alt.LayerChart | alt.FacetChart":
        """Draw the change with its interval beside no change, as an Altair chart.

        Raises:
            InputError: the extra ``charts`` is not installed.

        >>> slower = run_blocks({"a": lambda: 10.0, "b": lambda: 11.0}, blocks=6)
        >>> len(slower.compare("a", "b").plot().to_dict()["layer"])
        4
        """
        alt = notebook.alt
        low, value, high = (100 * (end - 1) for end in self._ends)
        row = {"name": self.treatment, "low": low, "change": value, "high": high}
        base = alt.Chart(notebook.rows_of([row]))
        limits = [{"x": -100 * self.band, "x2": 100 * self.band}]
        same = alt.Chart(notebook.rows_of(limits)).mark_rect(color="#c4cad1", opacity=0.5)
        zero = alt.Chart(notebook.rows_of([{"x": 0}])).mark_rule().encode(x="x:Q")
        axis = alt.X("low:Q", title=f"change against {self.baseline} (%)")
        line = base.mark_rule(strokeWidth=4, color="#0b6fb3").encode(
            x=axis, x2="high:Q", y=alt.Y("name:N", title=None)
        )
        point = base.mark_point(filled=True, size=120, color="#0b6fb3").encode(
            x="change:Q", y="name:N"
        )
        return alt.layer(same.encode(x="x:Q", x2="x2:Q"), zero, line, point).properties(
            title=f"{self.treatment} against {self.baseline}: {self.verdict.value}",
            width=620,
            height=60,
        )

    @property
    def _ends(self) -> tuple[float, float, float]:
        return (self.ratio.interval.low, self.ratio.value, self.ratio.interval.high)


@dataclass(frozen=True, slots=True)
class Experiment(Generic[T]):
    """The completed blocks of an experiment, each with one run of every arm.

    Attributes:
        arms: the arms' names, in the order they were given.
        blocks: the runs of each block, in the order they were executed.
        seed: of the generator that drew the orders.
    """

    arms: tuple[str, ...]
    blocks: tuple[tuple[Run[T], ...], ...]
    seed: int

    def outcomes(self, arm: str) -> list[T]:
        """Return what an arm returned, one a block.

        Raises:
            ValueError: no arm of this name.
        """
        if arm not in self.arms:
            raise ValueError(f"there is no arm {arm!r}: the arms are {', '.join(self.arms)}")
        return [run.outcome for block in self.blocks for run in block if run.arm == arm]

    def values(self, arm: str, metric: Callable[[T], float] | None = None) -> stats.FloatArray:
        """Return an arm's metric, one number a block.

        Args:
            arm: the arm's name.
            metric: takes the number out of an outcome; without it outcomes are numbers.

        Raises:
            ValueError: no arm of this name.
            TypeError: outcomes are no numbers and there is no metric.
        """
        return np.array([_number(outcome, metric) for outcome in self.outcomes(arm)])

    def compare(
        self,
        baseline: str,
        treatment: str,
        metric: Callable[[T], float] | None = None,
        *,
        better: Better = "lower",
        band: float = 0.01,
        confidence: float = 0.95,
        resamples: int = 10_000,
    ) -> Comparison:
        """Compare two arms by pairs within blocks.

        Args:
            baseline: the arm compared with.
            treatment: the arm compared.
            metric: takes a positive number out of an outcome; without it outcomes are numbers.
            better: whether a lower or a higher metric is better.
            band: half-width of the equivalence band, 0.01 for one per cent.
            confidence: of the interval.
            resamples: of the bootstrap, seeded with the experiment's seed.

        Raises:
            ValueError: no such arm, fewer than two blocks, or a metric not above zero.
        """
        ratio = stats.paired_ratio(
            self.values(baseline, metric),
            self.values(treatment, metric),
            confidence=confidence,
            resamples=resamples,
            rng=self.seed,
        )
        verdict = stats.judge(ratio, band=band, better=better)
        return Comparison(baseline, treatment, ratio, verdict, band)


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during an experiment; ``experiment`` has the blocks completed before it."""

    def __init__(self, experiment: Experiment[Any]) -> None:
        done = len(experiment.blocks)
        super().__init__(f"interrupted after {done} complete block{'' if done == 1 else 's'}")
        self.experiment = experiment


@dataclass(frozen=True, slots=True)
class Progress:
    """Where an experiment stands, told after each run.

    Attributes:
        done: runs executed, those of warm-up blocks included.
        total: runs the experiment will execute.
        arm: the arm that was run last.
    """

    done: int
    total: int
    arm: str


def block_order(arms: Sequence[T], seed: int, block: int) -> list[T]:
    """Return the arms in the order of one block.

    It depends on the seed and the block alone, so that an experiment that is taken up again goes on
    as if it had never stopped.

    Args:
        arms: the arms, always in the same order.
        seed: of the experiment.
        block: its number, from 0.

    >>> [block_order("abc", 1, block) for block in range(3)] == [
    ...     block_order("abc", 1, block) for block in range(3)
    ... ]
    True
    >>> sorted(block_order("abc", 1, 7))
    ['a', 'b', 'c']
    """
    drawn = np.random.default_rng([seed, block]).permutation(len(arms))
    return [arms[index] for index in drawn]


def in_blocks(
    arms: Mapping[str, Arm[T]],
    names: Callable[[int], Sequence[str]],
    *,
    seed: int,
    failed: Callable[[str, int, Exception], bool] = lambda _name, _block, _error: False,
) -> Iterator[Run[T]]:
    """Run arms in randomised, interleaved blocks, and yield each run as it ends.

    Every experiment runs through here: `run_blocks`,
    `schedlab.experiment.sequential_experiment.settle` and the measurements of studies. Arms that
    look into the store first (`schedlab.experiment.execution.stored`) resume where they stopped.

    Args:
        arms: by name. One that the caller takes out is passed over from then on.
        names: returns the arms of a block, always in the same order; none ends the experiment.
        seed: of the generator that draws the orders.
        failed: whether to go on after an arm raised; the run is missing then. By default none.

    >>> arms = {"old": lambda block, place: 2.0, "new": lambda block, place: 1.0}
    >>> runs = in_blocks(arms, lambda block: ["old", "new"] if block < 2 else [], seed=0)
    >>> sorted((run.block, run.arm, run.outcome) for run in runs)
    [(0, 'new', 1.0), (0, 'old', 2.0), (1, 'new', 1.0), (1, 'old', 2.0)]
    """
    block = 0
    while present := names(block):
        # Real runs of a block hold the machine together: no other command runs between them.
        with lease.kept():
            for position, name in enumerate(block_order(present, seed, block)):
                if name not in arms:
                    continue
                try:
                    outcome = arms[name](block, position)
                except Exception as error:
                    if not failed(name, block, error):
                        raise
                else:
                    yield Run(block, position, name, outcome)
        block += 1


def run_blocks(
    arms: Mapping[str, Callable[[], T]],
    blocks: int,
    *,
    warmup: int = 0,
    seed: int = 0,
    progress: Callable[[Progress], None] | None = None,
) -> Experiment[T]:
    """Run every arm once a block, in an order drawn for each block.

    Args:
        arms: the callables by name. Each sets up what it needs and cleans up behind itself, also
            when interrupted.
        blocks: blocks to run and keep.
        warmup: blocks to run first and drop, so that no kept run meets a cold machine.
        seed: of the generator that draws the orders.
        progress: called after each run.

    Raises:
        ValueError: no arm, no block, or a negative warm-up.
        Interrupted: on KeyboardInterrupt, with the blocks completed so far.

    >>> experiment = run_blocks({"old": lambda: 2.0, "new": lambda: 1.0}, blocks=6)
    >>> comparison = experiment.compare("old", "new")
    >>> round(comparison.ratio.value, 3), str(comparison.verdict)
    (0.5, 'better')
    """
    if not arms:
        raise ValueError("there are no arms: at least one is needed")
    if blocks < 1:
        raise ValueError(f"blocks is {blocks}: at least 1 is needed")
    if warmup < 0:
        raise ValueError(f"warmup is {warmup}: at least 0 is needed")
    names = tuple(arms)
    total = (warmup + blocks) * len(names)
    runs: list[Run[T]] = []

    def experiment() -> Experiment[T]:
        kept = [replace(run, block=run.block - warmup) for run in runs if run.block >= warmup]
        complete = len(kept) // len(names)
        size = len(names)
        in_order = tuple(tuple(kept[at * size : (at + 1) * size]) for at in range(complete))
        return Experiment(names, in_order, seed)

    placed = {name: _placed(arm) for name, arm in arms.items()}
    try:
        for run in in_blocks(placed, lambda at: names if at < warmup + blocks else (), seed=seed):
            runs.append(run)
            if progress is not None:
                progress(Progress(len(runs), total, run.arm))
    except KeyboardInterrupt as interrupt:
        raise Interrupted(experiment()) from interrupt
    return experiment()


def _placed(arm: Callable[[], T]) -> Arm[T]:
    """Return an arm that does not ask where in the experiment it is."""
    return lambda _block, _place: arm()


def _number(outcome: T, metric: Callable[[T], float] | None) -> float:
    if metric is not None:
        return float(metric(outcome))
    if isinstance(outcome, SupportsFloat):
        return float(outcome)
    raise TypeError(f"an outcome of type {type(outcome).__name__} is no number: a metric is needed")
