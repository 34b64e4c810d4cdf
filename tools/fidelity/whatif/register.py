"""What was written down beforehand: ``validation/what-if.toml``."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field

from fidelity.lines import About, Lines, described
from fidelity.register_file import Entry, by_name, validated
from fidelity.tolerance import Divergence, Tolerance, limit_of
from schedlab.boundary.errors import InputError

Metric = Literal["shares", "switches", "p99 latency"]
METRICS: tuple[Metric, ...] = ("shares", "switches", "p99 latency")
RECORDED = "recorded"
"""The change that changes nothing: the recording itself."""


class Described(Entry):
    """A workload of the lines.

    Attributes:
        tasks: rt-app's tasks.
        resources: rt-app's resources.
        why: what it is there for.
    """

    tasks: Mapping[str, Mapping[str, Any]] = Field(min_length=1)
    resources: Mapping[str, Mapping[str, Any]] = Field(default_factory=dict)
    why: str = Field(min_length=20)

    def text(self, duration: str, tasks: Mapping[str, Mapping[str, Any]]) -> str:
        """Return the workload's file, with some keys of its tasks changed."""
        changed = {name: {**keys, **tasks.get(name, {})} for name, keys in self.tasks.items()}
        whole = {
            "global": {"duration": duration},
            "resources": dict(self.resources),
            "tasks": changed,
        }
        return json.dumps(whole)

    @property
    def roles(self) -> tuple[str, ...]:
        """The names of its tasks, each instance for itself, in the order in which they are made."""
        roles = []
        for name, keys in self.tasks.items():
            count = int(keys.get("instance", 1))
            roles += [name] if count == 1 else [f"{name}[{number}]" for number in range(count)]
        return tuple(roles)


class Change(Entry):
    """What is set otherwise.

    Attributes:
        workload: of which workload.
        name: what it is called.
        knobs: knobs by name.
        tasks: keys of tasks, by name.
        why: what it is to bring about.
    """

    workload: str
    name: str
    knobs: Mapping[str, str] = Field(default_factory=dict)
    tasks: Mapping[str, Mapping[str, Any]] = Field(default_factory=dict)
    why: str = Field(min_length=10)


class Protocol(Entry):
    """How it is recorded.

    Attributes:
        duration: how long the workload runs.
        begin: from when on it is looked at, since its last task was made.
        end: until when.
        noise: A/A recordings of each change that are made before those that are judged, where its
            A/A interval is not fixed yet.
    """

    duration: str
    begin: str
    end: str
    noise: Annotated[int, Field(ge=2)]


class Line(About, Divergence):
    """A metric of a workload under a change at a place.

    Attributes:
        change: the change's, or ``recorded``.
        metric: the metric.
        limit: the stated tolerance.
        size: of a known divergence, how far apart they are, from and to.
        cause: of a known divergence.
    """

    change: str
    metric: Metric
    limit: float

    @property
    def about(self) -> tuple[str, ...]:
        """The workload, change, place and metric."""
        return (self.workload, self.change, self.place, self.metric)


class _Lines(Divergence):
    """As written: a line for each workload, change, place and metric."""

    workloads: tuple[str, ...] = Field(min_length=1)
    changes: tuple[str, ...] = Field(min_length=1)
    places: tuple[str, ...] = Field(min_length=1)
    metrics: tuple[Metric, ...] = METRICS
    tolerance: str


class _File(Entry):
    protocol: Protocol
    workloads: Mapping[str, Described]
    changes: tuple[Change, ...]
    tolerances: Mapping[str, Tolerance[Metric]]
    lines: tuple[_Lines, ...] = Field(min_length=1)


class Register(Lines[Line]):
    """All of it.

    Attributes:
        protocol: how it is recorded.
        workloads: by name.
        changes: in their order.
        tolerances: by name.
        lines: one for each workload, change, place and metric.
    """

    protocol: Protocol
    workloads: Mapping[str, Described]
    changes: tuple[Change, ...]
    tolerances: Mapping[str, Tolerance[Metric]]

    def changes_of(self, workload: str, place: str) -> tuple[Change, ...]:
        """Return the changes of a workload that lines of a place are about."""
        asked = {
            line.change for line in self.lines if (line.workload, line.place) == (workload, place)
        }
        return tuple(
            change
            for change in self.changes
            if change.workload == workload and change.name in asked
        )

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
            changes=file.changes,
            tolerances=file.tolerances,
            lines=tuple(found.values()),
        )


def _each(part: _Lines, file: _File) -> list[Line]:
    known = {(change.workload, change.name) for change in file.changes}
    found = []
    for workload in part.workloads:
        described(workload, file.workloads)
        for change in part.changes:
            if change != RECORDED and (workload, change) not in known:
                raise InputError(f"lines: there is no change '{change}' of {workload}")
            for place in part.places:
                for metric in part.metrics:
                    line = Line(
                        workload=workload,
                        change=change,
                        place=place,
                        metric=metric,
                        limit=limit_of(file.tolerances, part.tolerance, metric),
                        size=part.size,
                        cause=part.cause,
                        summary=part.summary,
                    )
                    found.append(line)
    return found
