"""The record of a search, and what is counted on it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from schedlab.search.space import FloatArray, Space


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """Every position a search asked for, in order, with its value.

    An evaluation is a position asked for; an *execution* is one that had to be run. They differ
    only where repeats were remembered: a repeated position is then an evaluation, not an execution.

    Attributes:
        space: where the search moved.
        positions: the positions evaluated, a row each.
        values: the value at each.
        generations: the generation each belongs to, from 1.
        executed: whether each had to be run, False for a remembered repeat.
    """

    space: Space
    positions: FloatArray
    values: FloatArray
    generations: NDArray[np.int64]
    executed: NDArray[np.bool_]

    @property
    def evaluations(self) -> int:
        """Positions the search asked for."""
        return len(self.values)

    @property
    def executions(self) -> int:
        """Positions that had to be run."""
        return int(self.executed.sum())

    @property
    def minimum(self) -> float:
        """The lowest value, R* in the tuning paper."""
        return float(self.values.min())

    @property
    def minimum_position(self) -> FloatArray:
        """The position at which the lowest value was met first."""
        position: FloatArray = self.positions[int(np.argmin(self.values))]
        return position.copy()

    @property
    def executions_to_minimum(self) -> int:
        """Executions up to and with the one that met the lowest value first."""
        return self._executions_up_to(int(np.argmin(self.values)))

    @property
    def generation_of_minimum(self) -> int:
        """The generation that met the lowest value first, I* in the tuning paper."""
        return int(self.generations[int(np.argmin(self.values))])

    def executions_to(self, value: float) -> int | None:
        """Return the executions up to and with the first at or below a value; None if none was."""
        index = self._first_at_or_below(value)
        return None if index is None else self._executions_up_to(index)

    def generation_of(self, value: float) -> int | None:
        """Return the first generation with a value at or below this one; None if none was."""
        index = self._first_at_or_below(value)
        return None if index is None else int(self.generations[index])

    def best_so_far(self) -> FloatArray:
        """Return the lowest value after each execution, a number an execution."""
        lowest: FloatArray = np.minimum.accumulate(self.values)
        return lowest[self.executed]

    def _first_at_or_below(self, value: float) -> int | None:
        reached = self.values <= value
        return int(np.argmax(reached)) if reached.any() else None

    def _executions_up_to(self, index: int) -> int:
        return int(self.executed[: index + 1].sum())
