"""Runs searches against an objective, one or many in lockstep.

Many searches (the same one from many seeds, say) advance a generation together, and their positions
reach the objective in one call, so that it can spread them over all CPUs. Each search sees exactly
what it would see alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from schedlab.search.history import History
from schedlab.search.search import Search
from schedlab.search.space import FloatArray

Objective = Callable[[FloatArray], FloatArray]
"""Takes positions, a row each, and returns the value at each.

For searches with several aims it returns a row a position: first the value that a history records,
then what the search learns from.
"""


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run stands, told after each generation.

    Attributes:
        generation: generations done.
        executions: executions done, over all searches.
        minimum: the lowest value so far.
    """

    generation: int
    executions: int
    minimum: float


def run(
    search: Search,
    objective: Objective,
    *,
    remember: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> History:
    """Run one search to its end. See `run_many`."""
    return run_many([search], objective, remember=remember, progress=progress)[0]


def run_many(
    searches: Sequence[Search],
    objective: Objective,
    *,
    remember: bool = False,
    enough: float = -np.inf,
    progress: Callable[[Progress], None] | None = None,
) -> list[History]:
    """Run searches to their ends in lockstep, one call of the objective a generation.

    Args:
        searches: fresh searches, all of as many dimensions.
        objective: takes all their positions, a row each, and returns as many values or rows, see
            `Objective`.
        remember: take the value of a repeated position from memory. Right for an objective that
            always gives the same value at the same position, wrong for a measurement. A position
            counts as an execution of every search that meets it for the first time, also where
            another search met it before and it is not run again: a history says what its search
            would have needed alone.
        enough: a search that has met this value, or a lower one, ends with that generation. Where
            nothing can be lower, its minimum and when it was met are what a whole search's are.
        progress: called after each generation.

    Returns:
        A history for each search, in their order.

    Raises:
        ValueError: the objective did not return one number or row a position, or one is not a
            number.
    """
    memory: dict[bytes, FloatArray] = {}
    recorders = [_Recorder(search, remember=remember) for search in searches]
    generation = 0
    while running := [
        recorder
        for recorder in recorders
        if not recorder.search.finished and recorder.minimum > enough
    ]:
        asked = [recorder.search.ask() for recorder in running]
        values = _evaluate(objective, np.concatenate(asked), memory if remember else None)
        ends = np.cumsum([len(positions) for positions in asked])[:-1]
        for recorder, positions, told in zip(running, asked, np.split(values, ends), strict=True):
            recorder.record(positions, told)
        generation += 1
        if progress is not None:
            executions = sum(recorder.executions for recorder in recorders)
            minimum = min(recorder.minimum for recorder in recorders)
            progress(Progress(generation, executions, minimum))
    return [recorder.history() for recorder in recorders]


def _evaluate(
    objective: Objective, positions: FloatArray, memory: dict[bytes, FloatArray] | None
) -> FloatArray:
    if memory is None:
        return _call(objective, positions)
    keys = [_key(position) for position in positions]
    unknown = {key: index for index, key in reversed(list(enumerate(keys))) if key not in memory}
    if unknown:
        rows = sorted(unknown.values())
        found = _call(objective, positions[rows])
        memory.update((keys[row], value) for row, value in zip(rows, found, strict=True))
    return np.array([memory[key] for key in keys])


def _call(objective: Objective, positions: FloatArray) -> FloatArray:
    values = np.asarray(objective(positions), dtype=np.float64)
    rows = values.ndim == 2 and values.shape[1] > 1
    if not (values.ndim == 1 or rows) or len(values) != len(positions):
        raise ValueError(
            f"the objective returned values of shape {values.shape} for {len(positions)} "
            "positions: one number or row a position is needed"
        )
    return values


def _key(position: FloatArray) -> bytes:
    return (position + 0.0).tobytes()  # -0.0 and 0.0 are one position


class _Recorder:
    """Keeps the history of one search while it runs."""

    def __init__(self, search: Search, *, remember: bool) -> None:
        self.search = search
        self.executions = 0
        self.minimum = np.inf
        self._seen: set[bytes] | None = set() if remember else None
        self._positions: list[FloatArray] = []
        self._values: list[FloatArray] = []
        self._generations: list[int] = []
        self._executed: list[bool] = []

    def record(self, positions: FloatArray, values: FloatArray) -> None:
        self._generations += [self.search.generation] * len(positions)
        worth = values
        if values.ndim == 2:
            worth, values = values[:, 0], values[:, 1:]
        self.search.tell(values)
        self._positions.append(positions)
        self._values.append(worth)
        for position in positions:
            key = _key(position)
            executed = self._seen is None or key not in self._seen
            if self._seen is not None:
                self._seen.add(key)
            self._executed.append(executed)
            self.executions += executed
        self.minimum = min(self.minimum, float(worth.min()))

    def history(self) -> History:
        dimensions = len(self.search.space.dimensions)
        return History(
            space=self.search.space,
            positions=np.concatenate([np.empty((0, dimensions)), *self._positions]),
            values=np.concatenate([np.empty(0), *self._values]),
            generations=np.array(self._generations, dtype=np.int64),
            executed=np.array(self._executed, dtype=np.bool_),
        )
