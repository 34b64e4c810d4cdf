"""A search in some dimensions of a space, the others standing still."""

import numpy as np

from schedlab.search.search import Search
from schedlab.search.space import FloatArray, Space


class Pinned:
    """A search that sees only some dimensions, asked for positions in the whole space.

    What orders its dimensions (golden section, a response surface) can so be run once for each
    combination of choices.

    Args:
        search: in the free dimensions.
        space: the whole.
        free: which dimensions are the search's, in its order.
        rest: a position, whose other dimensions do not move.

    >>> from schedlab.search import Dimension, GoldenSection, Space
    >>> whole = Space((Dimension("policy", 0, 1, integer=True), Dimension("x", 0, 1)))
    >>> golden = GoldenSection(Space(whole.dimensions[1:]), tolerance=0.1)
    >>> Pinned(golden, whole, [1], [1.0, 0.0]).ask().round(2).tolist()
    [[1.0, 0.38], [1.0, 0.62]]
    """

    def __init__(
        self, search: Search, space: Space, free: list[int], rest: list[float] | FloatArray
    ) -> None:
        self.search = search
        self._space = space
        self._free = list(free)
        self._rest = np.asarray(rest, dtype=np.float64)

    @property
    def space(self) -> Space:
        """The whole space."""
        return self._space

    @property
    def generation(self) -> int:
        """The search's generation."""
        return self.search.generation

    @property
    def finished(self) -> bool:
        """Whether the search has finished."""
        return self.search.finished

    def ask(self) -> FloatArray:
        """Return the search's positions, in the whole space."""
        asked = self.search.ask()
        positions = np.tile(self._rest, (len(asked), 1))
        positions[:, self._free] = asked
        return positions

    def tell(self, values: FloatArray) -> None:
        """Tell the search."""
        self.search.tell(values)
