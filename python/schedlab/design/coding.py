"""Coded units: every factor runs from -1 to 1, whatever it is measured in."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from schedlab.experiment.stats import FloatArray


@dataclass(frozen=True, slots=True)
class Factor:
    """A factor and the range that is coded as -1 to 1.

    Attributes:
        name: its name.
        low: its value at -1.
        high: its value at 1.
        scale: ``linear``, or ``log`` where equal steps are equal ratios.

    Raises:
        ValueError: the ends are not two rising finite numbers (above 0 where ``log``).
    """

    name: str
    low: float
    high: float
    scale: Literal["linear", "log"] = "linear"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ValueError(
                f"factor {self.name!r} runs from {self.low} to {self.high}: two finite numbers, "
                "the lower first, are needed"
            )
        if self.scale == "log" and self.low <= 0:
            raise ValueError(f"factor {self.name!r} begins at {self.low}: ratios need one above 0")


@dataclass(frozen=True, slots=True)
class Coding:
    """The coding of several factors.

    >>> coding = Coding((Factor("omega", 0, 0.9), Factor("phi_g", 0, 4)))
    >>> coding.coded([[0.45, 4]]).tolist(), coding.natural([-1, 0.5]).tolist()
    ([[0.0, 1.0]], [0.0, 3.0])
    """

    factors: Sequence[Factor]

    @property
    def names(self) -> tuple[str, ...]:
        """The factors' names."""
        return tuple(factor.name for factor in self.factors)

    def coded(self, natural: ArrayLike) -> FloatArray:
        """Return coded values of natural ones; the last axis is the factors'."""
        values = self._rows(natural)
        columns = []
        for place, factor in enumerate(self.factors):
            low, high, value = factor.low, factor.high, values[..., place]
            if factor.scale == "log":
                low, high, value = math.log(low), math.log(high), np.log(value)
            columns.append((value - (low + high) / 2) / ((high - low) / 2))
        return np.stack(columns, axis=-1)

    def natural(self, coded: ArrayLike) -> FloatArray:
        """Return natural values of coded ones; the last axis is the factors'."""
        values = self._rows(coded)
        columns = []
        for place, factor in enumerate(self.factors):
            low, high = factor.low, factor.high
            if factor.scale == "log":
                low, high = math.log(low), math.log(high)
            value = (low + high) / 2 + values[..., place] * (high - low) / 2
            columns.append(np.exp(value) if factor.scale == "log" else value)
        return np.stack(columns, axis=-1)

    def _rows(self, values: ArrayLike) -> FloatArray:
        array = np.asarray(values, dtype=np.float64)
        if array.shape[-1:] != (len(self.factors),):
            raise ValueError(
                f"values of shape {array.shape} for {len(self.factors)} factors: one a factor "
                "is needed"
            )
        return array
