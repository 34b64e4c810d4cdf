"""What was written down beforehand: ``validation/behaviour.toml``."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from fidelity import lines
from fidelity.lines import Described
from fidelity.observing import METRICS, Metric
from fidelity.written import Read, Written, by_name, validated
from schedlab.boundary.errors import InputError

Positive = Annotated[float, Field(gt=0)]
Range = tuple[float, float]


class Tolerance(Read):
    """How far simulated and real runs may be apart.

    Attributes:
        why: where that comes from.
        limits: by metric: of shares the difference, of all others the relative one.
    """

    why: str = Field(min_length=40)
    limits: Mapping[Metric, Positive]


class Protocol(Read):
    """How often things are run.

    Attributes:
        repeats: real runs that are judged.
        simulated: simulated ones, at as many times within a tick.
        noise: real runs before those, from which the kernel's own A/A intervals are fixed.
    """

    repeats: Annotated[int, Field(ge=3)]
    simulated: Annotated[int, Field(ge=3)]
    noise: Annotated[int, Field(ge=6)]


class Line(Read):
    """A metric of a workload at a place.

    Attributes:
        workload: its name.
        place: ``host`` or ``vm:SERIES``.
        metric: the metric.
        limit: the stated tolerance.
        size: of a known divergence, how far apart they are, from and to.
        cause: of a known divergence.
    """

    workload: str
    place: str
    metric: Metric
    limit: float
    size: Range | None = None
    cause: str = ""

    @property
    def name(self) -> str:
        """What it is told by: the workload, place and metric."""
        return f"{self.workload} {self.place} {self.metric}"


class _Lines(Read):
    """As written: a line for each workload, place and metric."""

    workloads: tuple[str, ...] = Field(min_length=1)
    places: tuple[str, ...] = Field(min_length=1)
    metrics: tuple[Metric, ...] = METRICS
    tolerance: str
    verdict: Literal["agrees", "known divergence"] = "agrees"
    size: Range | Mapping[Metric, Range] | None = None
    cause: str = ""

    @model_validator(mode="after")
    def _a_divergence_is_pinned(self) -> Self:
        diverges = self.verdict == "known divergence"
        if diverges != (self.size is not None) or diverges != bool(self.cause):
            raise ValueError("a known divergence, and nothing else, has a size and a cause")
        if isinstance(self.size, Mapping) and set(self.size) != set(self.metrics):
            raise ValueError("sizes by metric are those of the metrics that the lines are about")
        for metric in self.metrics:
            size = self.size_of(metric)
            if size is not None and not 0 < size[0] <= size[1]:
                raise ValueError(f"the size is from above 0 to no less, not {size}")
        return self

    def size_of(self, metric: Metric) -> Range | None:
        """Return how far apart a metric is known to be: as the others, or by itself."""
        return self.size[metric] if isinstance(self.size, Mapping) else self.size


class _File(Read):
    protocol: Protocol
    workloads: Mapping[str, Described]
    tolerances: Mapping[str, Tolerance]
    lines: tuple[_Lines, ...] = Field(min_length=1)


class Register(Written):
    """All of it.

    Attributes:
        protocol: how often things are run.
        workloads: by name.
        tolerances: by name.
        lines: one for each workload, place and metric.
    """

    protocol: Protocol
    workloads: Mapping[str, Described]
    tolerances: Mapping[str, Tolerance]
    lines: tuple[Line, ...]

    @property
    def places(self) -> tuple[str, ...]:
        """Where lines are about, in their order."""
        return lines.places(self.lines)

    def at(self, place: str) -> tuple[str, ...]:
        """Return the names of the workloads that lines of a place are about."""
        return lines.workloads(self.lines, place)

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

    def of(self, places: Sequence[str] = (), workloads: Sequence[str] = ()) -> "Register":
        """Return the part that is about some places and workloads; about all where none is named.

        Raises:
            InputError: there is no line about one of them.
        """
        return self.model_copy(update={"lines": lines.some(self.lines, places, workloads)})


def _each(part: _Lines, file: _File) -> list[Line]:
    if part.tolerance not in file.tolerances:
        raise InputError(f"lines: there is no tolerance '{part.tolerance}'")
    limits = file.tolerances[part.tolerance].limits
    found = []
    for workload in part.workloads:
        if workload not in file.workloads:
            raise InputError(f"lines: there is no workload '{workload}'")
        for place in part.places:
            if place != "host" and not place.startswith("vm:"):
                raise InputError(f"lines: place '{place}'; allowed: host, vm:SERIES")
            for metric in part.metrics:
                if metric not in limits:
                    raise InputError(f"tolerances: '{part.tolerance}' has no limit of {metric}")
                line = Line(
                    workload=workload,
                    place=place,
                    metric=metric,
                    limit=limits[metric],
                    size=part.size_of(metric),
                    cause=part.cause,
                )
                found.append(line)
    return found
