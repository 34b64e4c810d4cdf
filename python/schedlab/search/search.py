"""What every search offers: it is asked for positions and told their values."""

from typing import Protocol

from schedlab.search.space import FloatArray, Space


class Search(Protocol):
    """A search for the minimum of a function it never sees.

    The positions between one `ask` and its `tell` are a generation: none of them depends on
    another's value, so they can be evaluated together, and those of many searches as well.
    """

    @property
    def space(self) -> Space:
        """Where it searches."""

    @property
    def generation(self) -> int:
        """The number of the generation that is asked for next, or out now; the first is 1."""

    @property
    def finished(self) -> bool:
        """Whether it asks for nothing more."""

    def ask(self) -> FloatArray:
        """Return the positions to evaluate next, a row each; the same until ``tell`` is called.

        Raises:
            RuntimeError: the search has finished.
        """

    def tell(self, values: FloatArray) -> None:
        """Take the values at the positions asked for, in their order.

        Raises:
            RuntimeError: nothing was asked for.
            ValueError: not one value a position, or a value that is not a number.
        """
