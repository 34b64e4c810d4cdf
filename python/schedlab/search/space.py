"""The space a search moves in: named dimensions with bounds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]


class UniformSource(Protocol):
    """What the searches need of a random generator; `numpy.random.Generator` has it."""

    def random(self, size: tuple[int, ...]) -> FloatArray:
        """Return independent draws, uniform in [0, 1)."""


def uniform_source(rng: UniformSource | int) -> UniformSource:
    """Return a generator itself, or a new one for a seed."""
    return np.random.default_rng(rng) if isinstance(rng, int | np.integer) else rng


@dataclass(frozen=True, slots=True)
class Dimension:
    """One quantity to search over.

    Attributes:
        name: its name, unique in its space.
        low: the smallest value allowed.
        high: the largest value allowed.
        integer: whether only whole values are allowed; both bounds are whole then.
        ordered: whether neighbouring values are alike; numbers of names, say, are not.
    """

    name: str
    low: float
    high: float
    integer: bool = False
    ordered: bool = True

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ValueError(
                f"dimension {self.name!r} runs from {self.low} to {self.high}: "
                "finite bounds are needed, the lower below the upper"
            )
        if self.integer and not (float(self.low).is_integer() and float(self.high).is_integer()):
            raise ValueError(
                f"dimension {self.name!r} has whole values from {self.low} to {self.high}: "
                "whole bounds are needed"
            )
        if not (self.ordered or self.integer):
            raise ValueError(f"dimension {self.name!r} is a choice: whole values are needed")


@dataclass(frozen=True, slots=True)
class Space:
    """The box spanned by its dimensions.

    A position is a row of numbers, one a dimension, in the order of ``dimensions``.

    Raises:
        ValueError: no dimension, or two of one name.

    >>> space = Space((Dimension("latency", 1, 10, integer=True), Dimension("share", 0, 1)))
    >>> space.named(space.allowed([[3.7, 1.5]])[0])
    {'latency': 4, 'share': 1.0}
    """

    dimensions: Sequence[Dimension]
    low: FloatArray = field(init=False, repr=False, compare=False)
    high: FloatArray = field(init=False, repr=False, compare=False)
    _integer: NDArray[np.bool_] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.dimensions:
            raise ValueError("there are no dimensions to search over: at least one is needed")
        names = self.names
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"dimension {name!r} is there more than once")
        # A frozen dataclass sets what it derives this way.
        object.__setattr__(self, "dimensions", tuple(self.dimensions))
        object.__setattr__(self, "low", np.array([float(d.low) for d in self.dimensions]))
        object.__setattr__(self, "high", np.array([float(d.high) for d in self.dimensions]))
        object.__setattr__(self, "_integer", np.array([d.integer for d in self.dimensions]))

    @property
    def names(self) -> list[str]:
        """The dimensions' names."""
        return [dimension.name for dimension in self.dimensions]

    def uniform(self, rng: UniformSource, count: int) -> FloatArray:
        """Draw positions independently and uniformly, not yet rounded to whole values."""
        return self.low + rng.random((count, len(self.dimensions))) * (self.high - self.low)

    def allowed(self, positions: ArrayLike) -> FloatArray:
        """Return the nearest allowed positions: within the bounds, whole where they must be."""
        clamped = np.clip(np.asarray(positions, dtype=np.float64), self.low, self.high)
        return np.where(self._integer, np.rint(clamped), clamped)

    def named(self, position: ArrayLike) -> dict[str, float | int]:
        """Return one position's values by name, whole ones as ``int``."""
        values = np.asarray(position, dtype=np.float64).tolist()
        return {
            dimension.name: int(value) if dimension.integer else value
            for dimension, value in zip(self.dimensions, values, strict=True)
        }
