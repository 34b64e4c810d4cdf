"""Random search: what any other search has to beat."""

from schedlab.search.generation import GenerationSearch
from schedlab.search.space import FloatArray, Space, UniformSource, uniform_source


class RandomSearch(GenerationSearch):
    """Independent positions, uniform in the space.

    Args:
        space: where to search.
        evaluations: positions to draw in all.
        batch: positions a generation; the last one may have fewer. No position depends on another,
            so this changes no position.
        rng: a generator, the seed of one, or any source of uniform numbers.

    Raises:
        ValueError: a number below 1.

    >>> from schedlab.search import Dimension, Space, run
    >>> search = RandomSearch(Space((Dimension("x", 0, 1),)), evaluations=50, rng=1)
    >>> run(search, lambda x: x[:, 0]).evaluations
    50
    """

    def __init__(
        self,
        space: Space,
        *,
        evaluations: int = 620,
        batch: int = 20,
        rng: UniformSource | int = 0,
    ) -> None:
        super().__init__(space)
        for name, value in (("evaluations", evaluations), ("batch", batch)):
            if value < 1:
                raise ValueError(f"{name} is {value}: at least 1 is needed")
        self._left = evaluations
        self._batch = batch
        self._rng = uniform_source(rng)

    @property
    def finished(self) -> bool:
        """Whether every position has been drawn and told."""
        return self._left == 0

    def _propose(self) -> FloatArray:
        return self._space.uniform(self._rng, min(self._batch, self._left))

    def _learn(self, positions: FloatArray, values: FloatArray) -> None:
        del values  # random search learns nothing
        self._left -= len(positions)
