"""The part of ask and tell that is the same in every search."""

from abc import ABC, abstractmethod

import numpy as np

from schedlab.search.space import FloatArray, Space


class GenerationSearch(ABC):
    """Keeps the order of `ask` and `tell` and checks the values.

    A search says which positions to evaluate (`_propose`), what their values mean for it (`_learn`)
    and when it has `finished`.

    Args:
        space: where it searches.
        numbers: numbers a position that it takes, as a row; None for one, which is no row.
    """

    def __init__(self, space: Space, numbers: int | None = None) -> None:
        self._space = space
        self._row = () if numbers is None else (numbers,)
        self._generation = 1
        self._asked: FloatArray | None = None

    @property
    def space(self) -> Space:
        """Where it searches."""
        return self._space

    @property
    def generation(self) -> int:
        """The number of the generation that is asked for next, or out now; the first is 1."""
        return self._generation

    @property
    @abstractmethod
    def finished(self) -> bool:
        """Whether it asks for nothing more."""

    def ask(self) -> FloatArray:
        """Return the positions to evaluate next, a row each; the same until ``tell`` is called.

        Raises:
            RuntimeError: the search has finished.
        """
        if self._asked is None:
            if self.finished:
                raise RuntimeError("the search has finished: it asks for nothing more")
            self._asked = self._space.allowed(self._propose())
        return self._asked.copy()

    def tell(self, values: FloatArray) -> None:
        """Take the values at the positions asked for, in their order.

        Raises:
            RuntimeError: nothing was asked for.
            ValueError: not one value a position, or a value that is not a number.
        """
        if self._asked is None:
            raise RuntimeError("the search was given values that it did not ask for")
        told = np.asarray(values, dtype=np.float64)
        if told.shape != (len(self._asked), *self._row):
            raise ValueError(
                f"values of shape {told.shape} were told for {len(self._asked)} positions: "
                f"{self._row[0] if self._row else 'one'} number{'s' if self._row else ''} a "
                "position is needed"
            )
        unknown = np.isnan(told).reshape(len(told), -1).any(axis=1)
        if unknown.any():
            position = self._space.named(self._asked[int(np.argmax(unknown))])
            raise ValueError(f"the value at {position} is not a number")
        positions, self._asked = self._asked, None
        self._learn(positions, told)
        self._generation += 1

    @abstractmethod
    def _propose(self) -> FloatArray:
        """Return the next positions; they are moved to the nearest allowed ones."""

    @abstractmethod
    def _learn(self, positions: FloatArray, values: FloatArray) -> None:
        """Take the values at the allowed positions that were asked for."""
