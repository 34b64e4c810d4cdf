"""What was written down beforehand: ``validation/behaviour.toml``."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from fidelity.lines import About, Described, Lines, described
from fidelity.observation import METRICS, Metric
from fidelity.register_file import Entry, by_name, validated
from fidelity.tolerance import Range, Tolerance, check_size, limit_of
from schedlab.boundary.errors import InputError


class Protocol(Entry):
    """How often things are run.

    Attributes:
        repeats: real runs that are judged.
        simulated: simulated ones, at as many times within a tick.
        noise: real runs before those, from which the kernel's own A/A intervals are fixed.
    """

    repeats: Annotated[int, Field(ge=3)]
    simulated: Annotated[int, Field(ge=3)]
    noise: Annotated[int, Field(ge=6)]


class Line(About):
    """A metric of a workload at a place.

    Attributes:
        metric: the metric.
        limit: the stated tolerance.
        size: of a known divergence, how far apart they are, from and to.
        cause: of a known divergence, with the figures that show it.
        summary: the cause in one sentence.
    """

    metric: Metric
    limit: float
    size: Range | None = None
    cause: str = ""
    summary: str = ""

    @property
    def about(self) -> tuple[str, ...]:
        """The workload, place and metric."""
        return (self.workload, self.place, self.metric)


class _Lines(Entry):
    """As written: a line for each workload, place and metric."""

    workloads: tuple[str, ...] = Field(min_length=1)
    places: tuple[str, ...] = Field(min_length=1)
    metrics: tuple[Metric, ...] = METRICS
    tolerance: str
    verdict: Literal["agrees", "known divergence"] = "agrees"
    size: Range | Mapping[Metric, Range] | None = None
    cause: str = ""
    summary: str = ""

    @model_validator(mode="after")
    def _a_divergence_is_pinned(self) -> Self:
        diverges = self.verdict == "known divergence"
        if diverges != (self.size is not None) or diverges != bool(self.cause):
            raise ValueError("a known divergence, and nothing else, has a size and a cause")
        if isinstance(self.size, Mapping) and set(self.size) != set(self.metrics):
            raise ValueError("sizes by metric are those of the metrics that the lines are about")
        for metric in self.metrics:
            if (size := self.size_of(metric)) is not None:
                check_size(size)
        return self

    def size_of(self, metric: Metric) -> Range | None:
        """Return how far apart a metric is known to be: as the others, or by itself."""
        return self.size[metric] if isinstance(self.size, Mapping) else self.size


class _File(Entry):
    protocol: Protocol
    workloads: Mapping[str, Described]
    tolerances: Mapping[str, Tolerance[Metric]]
    lines: tuple[_Lines, ...] = Field(min_length=1)


class Register(Lines[Line]):
    """All of it.

    Attributes:
        protocol: how often things are run.
        workloads: by name.
        tolerances: by name.
        lines: one for each workload, place and metric.
    """

    protocol: Protocol
    workloads: Mapping[str, Described]
    tolerances: Mapping[str, Tolerance[Metric]]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the file's text.

        Raises:
            InputError: something in it is wrong, with where.
        """
        file = validated(text, _File)
        found = by_name(line for part in file.lines for line in _each(part, file))
        return cls(
            protocol=file.protocol,
            workloads=file.workloads,
            tolerances=file.tolerances,
            lines=tuple(found.values()),
        )


def _each(part: _Lines, file: _File) -> list[Line]:
    found = []
    for workload in part.workloads:
        for place in part.places:
            if place != "host" and not place.startswith("vm:"):
                raise InputError(f"lines: place '{place}'; allowed: host, vm:SERIES")
            for metric in part.metrics:
                line = Line(
                    workload=described(workload, file.workloads),
                    place=place,
                    metric=metric,
                    limit=limit_of(file.tolerances, part.tolerance, metric),
                    size=part.size_of(metric),
                    cause=part.cause,
                    summary=part.summary,
                )
                found.append(line)
    return found
