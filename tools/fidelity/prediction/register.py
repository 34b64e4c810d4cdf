"""What was written down beforehand: ``validation/prediction.toml``."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from fidelity.lines import About, Described, Lines, described
from fidelity.register_file import Entry, by_name, validated
from schedlab.boundary.errors import InputError
from schedlab.model import Attributes

Measure = Literal["turnaround", "p99", "switches"]
"""What settings are ranked by: less is better of each."""

MEASURES: tuple[Measure, ...] = ("turnaround", "p99", "switches")


class Setting(Entry):
    """What one would try.

    Attributes:
        knobs: knobs by name.
        policy: of every task.
        slice: of every task.
    """

    knobs: Mapping[str, str] = {}
    policy: str = "other"
    slice: str | None = None

    @property
    def name(self) -> str:
        """What it is called: what it changes."""
        parts = [f"{knob}={value}" for knob, value in self.knobs.items()]
        if self.policy != "other":
            parts.append(self.policy)
        if self.slice is not None:
            parts.append(f"slice {self.slice}")
        return " ".join(parts) or "defaults"

    @property
    def attributes(self) -> Attributes | None:
        """Attributes of every task; None where it changes none."""
        if self.policy == "other" and self.slice is None:
            return None
        return Attributes(self.policy, slice=self.slice)


class Rules(Entry):
    """When a ranking agrees.

    Attributes:
        why: where that comes from.
        correlation: the least of Spearman's rank correlation where the real settings differ.
        difference: the relative difference of the real settings that counts as one, if the real
            noise is not more.
        best: the part of the real settings in which the one chosen in simulation has to be.
    """

    why: str = Field(min_length=40)
    correlation: Annotated[float, Field(gt=0, lt=1)]
    difference: Annotated[float, Field(gt=0, lt=1)]
    best: Annotated[float, Field(gt=0, lt=1)]


class Protocol(Entry):
    """How often things are run.

    Attributes:
        repeats: real runs of each setting.
        simulated: simulated ones, at as many times within a tick.
    """

    repeats: Annotated[int, Field(ge=2)]
    simulated: Annotated[int, Field(ge=2)]


class _Expected(Entry):
    """What a line says, or several that are written as one."""

    correlation: tuple[float, float] | None = None
    cause: str = ""
    summary: str = ""

    @model_validator(mode="after")
    def _a_divergence_is_pinned(self) -> Self:
        if (self.correlation is None) != (not self.cause):
            raise ValueError("a known divergence, and nothing else, has a correlation and a cause")
        if self.correlation is not None and not -1 <= self.correlation[0] <= self.correlation[1]:
            raise ValueError(f"the correlation is from -1 to no less, not {self.correlation}")
        return self


class Line(About, _Expected):
    """A ranking.

    Attributes:
        measure: by what.
        correlation: of a known divergence, what the rank correlation is, from and to.
        cause: of a known divergence, with the figures that show it.
        summary: the cause in one sentence.
    """

    measure: Measure

    @property
    def about(self) -> tuple[str, ...]:
        """The workload, place and measure."""
        return (self.workload, self.place, self.measure)


class Tried(Entry):
    """What is tried at a place.

    Attributes:
        settings: the settings.
        repeats: runs of each setting there, if they are not as many as elsewhere.
    """

    settings: tuple[Setting, ...] = Field(min_length=2)
    repeats: Annotated[int, Field(ge=2)] | None = None


class _Lines(_Expected):
    workloads: tuple[str, ...] = Field(min_length=1)
    places: tuple[str, ...] = Field(min_length=1)
    measures: tuple[Measure, ...] = MEASURES


class _File(Entry):
    protocol: Protocol
    rules: Rules
    workloads: Mapping[str, Described]
    places: Mapping[str, Tried]
    lines: tuple[_Lines, ...] = Field(min_length=1)


class Register(Lines[Line]):
    """All of it.

    Attributes:
        protocol: how often things are run.
        rules: when a ranking agrees.
        workloads: by name.
        tried: settings by place.
        lines: one for each workload, place and measure.
    """

    protocol: Protocol
    rules: Rules
    workloads: Mapping[str, Described]
    tried: Mapping[str, Tried]

    def settings(self, place: str) -> tuple[Setting, ...]:
        """Return the settings that are tried at a place."""
        return self.tried[place].settings

    def repeats(self, place: str) -> int:
        """Return how many runs of each setting there are at a place, real and simulated."""
        return self.tried[place].repeats or self.protocol.repeats

    def recorded(self, place: str, workload: str) -> bool:
        """Return whether a workload is recorded there: waiting times are told by recordings."""
        line = (place, workload, "p99")
        return line in {(each.place, each.workload, each.measure) for each in self.lines}

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the file's text.

        Raises:
            InputError: something in it is wrong, with where.
        """
        file = validated(text, _File)
        found = by_name(
            Line(
                workload=described(workload, file.workloads),
                place=place,
                measure=measure,
                correlation=part.correlation,
                cause=part.cause,
                summary=part.summary,
            )
            for part in file.lines
            for workload in part.workloads
            for place in part.places
            for measure in part.measures
        )
        for line in found.values():
            if line.place not in file.places:
                raise InputError(f"lines: there are no settings of place '{line.place}'")
        for name, place in file.places.items():
            names = [setting.name for setting in place.settings]
            if len(set(names)) < len(names):
                raise InputError(f"places.{name}: a setting is there twice")
        return cls(
            protocol=file.protocol,
            rules=file.rules,
            workloads=file.workloads,
            tried=file.places,
            lines=tuple(found.values()),
        )

    def repeating(self, repeats: int) -> "Register":
        """Return this with so many runs of each setting everywhere."""
        tried = {
            place: part.model_copy(update={"repeats": repeats})
            for place, part in self.tried.items()
        }
        return self.model_copy(update={"tried": tried})

    def thinned(self, every: int) -> "Register":
        """Return this with one of so many settings at each place, the first among them.

        Raises:
            InputError: a place is left with fewer than two, which have no ranking.
        """
        tried = {
            place: part.model_copy(update={"settings": part.settings[::every]})
            for place, part in self.tried.items()
        }
        for place in self.places:
            if len(tried[place].settings) < 2:
                raise InputError(f"{place}: --every {every} leaves one setting; two have a ranking")
        return self.model_copy(update={"tried": tried})
