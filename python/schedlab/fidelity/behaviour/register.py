"""What was written down beforehand: ``validation/behaviour.toml``."""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from schedlab.errors import InputError
from schedlab.fidelity.observing import METRICS, Metric
from schedlab.model import Workload

Positive = Annotated[float, Field(gt=0)]
Range = tuple[float, float]


class _Read(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Described(_Read):
    """A workload of the lines.

    Attributes:
        run: the workload, as one word or a file.
        why: what it is there for.
    """

    run: str
    why: str = Field(min_length=20)

    @property
    def workload(self) -> Workload:
        """The workload itself."""
        return Workload.parse(self.run)


class Tolerance(_Read):
    """How far simulated and real runs may be apart.

    Attributes:
        why: where that comes from.
        limits: by metric: of shares the difference, of all others the relative one.
    """

    why: str = Field(min_length=40)
    limits: Mapping[Metric, Positive]


class Protocol(_Read):
    """How often things are run.

    Attributes:
        repeats: real runs that are judged, and simulated ones.
        noise: real runs before those, from which the kernel's own A/A intervals are fixed.
    """

    repeats: Annotated[int, Field(ge=3)]
    noise: Annotated[int, Field(ge=6)]


class Line(_Read):
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


class _Lines(_Read):
    """As written: a line for each workload, place and metric."""

    workloads: tuple[str, ...] = Field(min_length=1)
    places: tuple[str, ...] = Field(min_length=1)
    metrics: tuple[Metric, ...] = METRICS
    tolerance: str
    verdict: Literal["agrees", "known divergence"] = "agrees"
    size: Range | None = None
    cause: str = ""

    @model_validator(mode="after")
    def _a_divergence_is_pinned(self) -> Self:
        diverges = self.verdict == "known divergence"
        if diverges != (self.size is not None) or diverges != bool(self.cause):
            raise ValueError("a known divergence, and nothing else, has a size and a cause")
        if self.size is not None and not 0 < self.size[0] <= self.size[1]:
            raise ValueError(f"the size is from above 0 to no less, not {self.size}")
        return self


class _File(_Read):
    protocol: Protocol
    workloads: Mapping[str, Described]
    tolerances: Mapping[str, Tolerance]
    lines: tuple[_Lines, ...] = Field(min_length=1)


class Register(_Read):
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
        return tuple(dict.fromkeys(line.place for line in self.lines))

    def at(self, place: str) -> tuple[str, ...]:
        """Return the names of the workloads that lines of a place are about."""
        return tuple(dict.fromkeys(line.workload for line in self.lines if line.place == place))

    @classmethod
    def read(cls, path: Path) -> "Register":
        """Read the file.

        Raises:
            InputError: it cannot be read, or something in it is wrong, with where.
        """
        try:
            return cls.parse(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(f"cannot read '{path}': {error.strerror}") from None
        except InputError as error:
            raise InputError(f"{path}: {error}") from None

    @classmethod
    def parse(cls, text: str) -> "Register":
        """Read the file's text.

        Raises:
            InputError: something in it is wrong, with where.
        """
        try:
            file = _File.model_validate(tomllib.loads(text))
        except tomllib.TOMLDecodeError as error:
            raise InputError(f"no TOML: {error}") from None
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise InputError(f"{where}: {first['msg']}") from None
        found: dict[tuple[str, str, Metric], Line] = {}
        for part in file.lines:
            for line in _each(part, file):
                name = (line.workload, line.place, line.metric)
                if name in found:
                    raise InputError(f"lines: {' '.join(name)} is there twice")
                found[name] = line
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
        named = {line.workload for line in self.lines}
        for what, known in ((places, set(self.places)), (workloads, named)):
            for name in what:
                if name not in known:
                    raise InputError(
                        f"no line is about '{name}'; known: {', '.join(sorted(known))}"
                    )
        lines = tuple(
            line
            for line in self.lines
            if (not places or line.place in places)
            and (not workloads or line.workload in workloads)
        )
        return self.model_copy(update={"lines": lines})


def _each(part: _Lines, file: _File) -> list[Line]:
    if part.tolerance not in file.tolerances:
        raise InputError(f"lines: there is no tolerance '{part.tolerance}'")
    limits = file.tolerances[part.tolerance].limits
    lines = []
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
                    size=part.size,
                    cause=part.cause,
                )
                lines.append(line)
    return lines
