"""What was written down beforehand: ``validation/tuning.toml``."""

from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import Field

from fidelity.register_file import Entry, RegisterFile, validated
from schedlab.experiment.settings import Setting, combinations
from schedlab.experiment.subjects import Metric, Subject
from schedlab.programs import subject
from schedlab.tuning.parameters import Options, Parameters

_Share = Annotated[float, Field(gt=0, lt=1)]
_Count = Annotated[int, Field(ge=1)]


class Protocol(Entry):
    """How searches are compared.

    Attributes:
        why: where that comes from.
        seeds: of each search on each table.
        within: how far a winner may be from the best setting, as a share.
        limit: real runs after which a search counts as one that found nothing.
        simulated: simulated runs of each setting.
    """

    why: str = Field(min_length=40)
    seeds: Annotated[int, Field(ge=20)]
    within: _Share
    limit: _Count
    simulated: Annotated[int, Field(ge=2)]


class Goals(Entry):
    """What was to be reached.

    Attributes:
        why: where that comes from.
        fewer: by how many times fewer real runs than TPE in the median.
        false_accepts: share of searches with a false winner.
        gain: certified gain that is worth a mention.
    """

    why: str = Field(min_length=40)
    fewer: Annotated[float, Field(gt=1)]
    false_accepts: _Share
    gain: _Share


class DriftLaw(Entry):
    """A drift that values are multiplied by, by the number of the run.

    Attributes:
        wave: amplitude of a sine, as a share.
        period: of the sine, in runs.
        step: a lasting change, as a share.
        at: the run from which the step lasts.
    """

    wave: _Share
    period: _Count
    step: _Share
    at: _Count


class TunedWorkload(Entry):
    """A workload or program that is tuned.

    Attributes:
        run: its text.
        host: its text on this machine, which is faster than a guest; the same where it is none.
        metric: what counts.
        model: the described workload that is simulated in its place; itself where it is described.
        why: what it is there for.
    """

    run: str
    host: str | None = None
    metric: str
    model: str | None = None
    why: str = Field(min_length=20)

    def text(self, place: str) -> str:
        """Return what is run at a place."""
        return self.host if place == "host" and self.host is not None else self.run

    def subject(self, place: str) -> Subject:
        """Return what is run at a place."""
        return subject(self.text(place))

    @property
    def measured(self) -> Metric:
        """The metric."""
        return next(one for one in subject(self.run).metrics if one.name == self.metric)


class Grid(Entry):
    """What is searched at a place.

    Attributes:
        axes: values by name, all of whose combinations are settings.
        blocks: runs of each setting.
    """

    axes: Mapping[str, tuple[str, ...]]
    blocks: Annotated[int, Field(ge=3)]

    @property
    def settings(self) -> list[Setting]:
        """The present setting, then every combination.

        >>> [str(one) for one in Grid(axes={"policy": ("other", "batch")}, blocks=3).settings]
        ['default', 'policy=other', 'policy=batch']
        """
        return [Setting({}), *combinations(self.axes)]

    @property
    def parameters(self) -> Parameters:
        """The space of the searches."""
        return Parameters(
            tuple(
                Options(name, values, ordered=name != "policy")
                for name, values in self.axes.items()
            )
        )


class Miss(Entry):
    """What misses its goal, written down after the searches ran.

    Attributes:
        about: what.
        cause: why, with the figures that show it.
    """

    about: str
    cause: str = Field(min_length=20)


class _File(Entry):
    protocol: Protocol
    goals: Goals
    drift: DriftLaw
    workloads: Mapping[str, TunedWorkload]
    places: Mapping[str, Grid]
    findings: tuple[Miss, ...] = ()


class Register(_File, RegisterFile):
    """All of it.

    Attributes:
        protocol: how searches are compared.
        goals: what was to be reached.
        drift: injected in one part of the comparison.
        workloads: by name.
        places: grids by place.
        findings: what misses its goal, and why.
    """

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the file's text.

        Raises:
            InputError: something in it is wrong, with where.
        """
        return validated(text, cls)
