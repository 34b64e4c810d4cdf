"""Tolerances of lines and known divergences, and how far apart two values may be by them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Generic, Self, TypeVar

from pydantic import Field, model_validator

from fidelity.register_file import Entry
from schedlab.boundary.errors import InputError

M = TypeVar("M", bound=str)
"""The metrics of a suite."""

Positive = Annotated[float, Field(gt=0)]
Range = tuple[float, float]


class Tolerance(Entry, Generic[M]):
    """How far simulated and real values may be apart.

    Attributes:
        why: where that comes from.
        limits: by metric: of shares the difference, of all others the relative one.
    """

    why: str = Field(min_length=40)
    limits: Mapping[M, Positive]


def limit_of(tolerances: Mapping[str, Tolerance[M]], name: str, metric: M) -> float:
    """Return what a tolerance allows of a metric.

    Raises:
        InputError: there is no such tolerance, or it says nothing of the metric.
    """
    if name not in tolerances:
        raise InputError(f"lines: there is no tolerance '{name}'")
    limits = tolerances[name].limits
    if metric not in limits:
        raise InputError(f"tolerances: '{name}' has no limit of {metric}")
    return limits[metric]


class Divergence(Entry):
    """What lines say of a known divergence; size and cause are both there, or neither is.

    Attributes:
        size: how far apart the values are, from and to.
        cause: the cause, with the figures that show it.
        summary: the cause in one sentence.
    """

    size: Range | None = None
    cause: str = ""
    summary: str = ""

    @model_validator(mode="after")
    def _has_a_size_and_a_cause(self) -> Self:
        if (self.size is not None) != bool(self.cause):
            raise ValueError("a known divergence, and nothing else, has a size and a cause")
        if self.size is not None:
            check_size(self.size)
        return self


def check_size(size: Range) -> None:
    """Refuse a size that is none.

    Raises:
        ValueError: so it is.
    """
    if not 0 < size[0] <= size[1]:
        raise ValueError(f"the size is from above 0 to no less, not {size}")


@dataclass(frozen=True, slots=True)
class Allowed:
    """How far apart the two values of a line may be.

    Attributes:
        low: the least: above zero for a divergence that is known.
        high: the most.
    """

    low: float
    high: float

    @classmethod
    def by(cls, size: Range | None, limit: float, noise: float) -> Self:
        """Return what a line allows.

        Args:
            size: of a known divergence.
            limit: the stated tolerance of all others.
            noise: the kernel's own interval, which is the tolerance where it is more than stated.
        """
        return cls(*size) if size is not None else cls(0.0, max(limit, noise))

    def failure(self, value: float | None, shown: Callable[[float], str]) -> str:
        """Say what is wrong with how far apart the values are; nothing where nothing is.

        Args:
            value: how far; None where nothing was compared.
            shown: says it for people.

        >>> Allowed(0.1, 0.3).failure(0.05, "{:.0%}".format)
        '5% apart, allowed 10% to 30%: the known divergence is gone'
        """
        if value is None:
            return "nothing was compared"
        if self.low <= value <= self.high:
            return ""
        gone = ": the known divergence is gone" if value < self.low else ""
        return f"{shown(value)} apart, allowed {self.text(shown)}{gone}"

    def text(self, shown: Callable[[float], str]) -> str:
        """Say it for people."""
        return f"{shown(self.low)} to {shown(self.high)}" if self.low else shown(self.high)
