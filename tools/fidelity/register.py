"""What was written down before any recording was made: ``validation/decisions.toml``."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from fidelity.register_file import Entry, RegisterFile, by_name, told_with_where, validated
from schedlab.boundary.errors import InputError

Kind = Literal["pick", "tick", "wakeup", "placement", "select", "newidle", "balance", "push"]
"""What the scheduler decides; ``select`` is the CPU on which a woken task comes in, ``newidle``
the tasks that a CPU about to idle pulls, ``balance`` those that it pulls on a tick, and ``push``
those that a busy CPU is made to push."""

Level = Literal["L0", "L0k", "L1"]
Share = Annotated[float, Field(ge=0, le=1)]
Range = tuple[Share, Share]

CFS = frozenset({"5.10", "6.1"})
"""Releases on one CPU of which no divergence is allowed with all probes."""


class Tolerance(Entry):
    """How far a line may be off.

    Attributes:
        why: the sentence that derives it.
        differing: the share of compared decisions that may differ, of each kind.
        unverifiable: the share of all decisions that the recording may leave open.
        errors_ns: the largest error of each state that has to be compared.
        disagreeing: the share that may disagree of each state that has to be compared.
        differing_of: the share that may differ of kinds for which ``differing`` does not hold.
        above_naive: kinds in which we have to agree more often than the naive rule does, or always.
        errors: the mean and the largest error of each state that has to be compared and is no time,
            in parts of it.
        resynchronisations: how often our state may be overwritten with the kernel's.
    """

    why: str = Field(min_length=40)
    differing: Share = 0.0
    unverifiable: Share = 0.01
    errors_ns: Mapping[str, Annotated[int, Field(ge=0)]] = {}
    disagreeing: Mapping[str, Share] = {}
    differing_of: Mapping[Kind, Share] = {}
    above_naive: tuple[Kind, ...] = ()
    errors: Mapping[str, Range] = {}
    resynchronisations: Annotated[int, Field(ge=0)] = 0


class Scenario(Entry):
    """What is recorded.

    Attributes:
        play: the recorder's own scenario, for so long as ``length`` says; or
        run: a workload; or
        random: the number, from 1 on, of a workload that is drawn from the hash of the commit whose
            rules are compared, so that it is unknown before the code is final.
        length: seconds.
        autogroup: whether sessions are groups.
        cpus: of the guest.
        sockets: that these are parted into; each has a last-level cache of its own.
        threads: of each core.
        nodes: of memory, to which the sockets are dealt out.
        base_slice_us: the slice of EEVDF; 0 for the kernel's default.
    """

    play: str = ""
    run: str = ""
    random: Annotated[int, Field(ge=0)] = 0
    length: Annotated[int, Field(ge=1)] = 5
    autogroup: bool = False
    cpus: Annotated[int, Field(ge=1)] = 1
    sockets: Annotated[int, Field(ge=1)] = 1
    threads: Annotated[int, Field(ge=1)] = 1
    nodes: Annotated[int, Field(ge=1)] = 1
    base_slice_us: Annotated[int, Field(ge=0, le=100_000)] = 0

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if [bool(self.play), bool(self.run), bool(self.random)].count(True) != 1:
            raise ValueError("one of 'play', 'run' and 'random' says what is done")
        if self.cpus % (self.sockets * self.threads):
            raise ValueError(
                f"{self.cpus} CPUs cannot be parted into {self.sockets} equal sockets "
                f"of cores with {self.threads} threads"
            )
        if self.sockets % self.nodes:
            raise ValueError(f"{self.sockets} sockets cannot be dealt out to {self.nodes} nodes")
        return self


class _Expected(Entry):
    """What a line says, or several that are written as one."""

    level: Level
    kinds: tuple[Kind, ...] = Field(min_length=1)
    tolerance: str
    verdict: Literal["agrees", "known divergence"] = "agrees"
    sizes: Mapping[Kind, Range] = {}
    cause: str = ""


class Line(_Expected):
    """A scenario on a release, read at a level.

    Attributes:
        scenario: the scenario.
        release: the series.
        level: how much of the recording is read.
        kinds: the decisions that have to be there.
        tolerance: the name of its tolerance.
        verdict: what is expected.
        sizes: of a known divergence, the share of each kind that differs, from and to.
        cause: of a known divergence.
    """

    scenario: str
    release: str

    @property
    def name(self) -> str:
        """What it is told by: the scenario, release and level."""
        return f"{self.scenario} {self.release} {self.level}"

    @model_validator(mode="after")
    def _a_divergence_is_pinned(self) -> Self:
        diverges = self.verdict == "known divergence"
        if diverges != bool(self.sizes) or diverges != bool(self.cause):
            raise ValueError("a known divergence, and nothing else, has sizes and a cause")
        for kind, (low, high) in self.sizes.items():
            if kind not in self.kinds:
                raise ValueError(f"{kind} is not among the line's kinds")
            if not 0 < low <= high:
                raise ValueError(
                    f"the size of {kind} is from above 0 to no less, not {low}, {high}"
                )
        if diverges and self.release in CFS and self.level == "L1":
            raise ValueError("no divergence is allowed for CFS on one CPU")
        return self


class Goal(Entry):
    """What several lines of a release come to together.

    Attributes:
        name: what it is called.
        release: the series.
        scenarios: the scenarios whose lines are added up.
        level: the level of these lines.
        least: how many decisions of each kind have to be compared.
        tolerance: the name of its tolerance.
    """

    name: str
    release: str
    scenarios: tuple[str, ...] = Field(min_length=1)
    level: Level
    least: Mapping[Kind, Annotated[int, Field(ge=1)]] = Field(min_length=1)
    tolerance: str


class _Lines(_Expected):
    """As written: a line for each scenario, release and level."""

    scenarios: tuple[str, ...] = Field(min_length=1)
    releases: tuple[str, ...] = Field(min_length=1)


class _Goals(Entry):
    name: str
    releases: tuple[str, ...] = Field(min_length=1)
    scenarios: tuple[str, ...] = Field(min_length=1)
    level: Level
    least: Mapping[Kind, Annotated[int, Field(ge=1)]] = Field(min_length=1)
    tolerance: str


class _File(Entry):
    scenarios: Mapping[str, Scenario]
    tolerances: Mapping[str, Tolerance]
    lines: tuple[_Lines, ...]
    goals: tuple[_Goals, ...] = ()


class Register(RegisterFile):
    """All of it.

    Attributes:
        scenarios: by name.
        tolerances: by name.
        lines: one for each scenario, release and level.
        goals: one for each release.
    """

    scenarios: Mapping[str, Scenario]
    tolerances: Mapping[str, Tolerance]
    lines: tuple[Line, ...]
    goals: tuple[Goal, ...]

    @property
    def releases(self) -> tuple[str, ...]:
        """The series that lines are about, in their order."""
        return tuple(dict.fromkeys(line.release for line in self.lines))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the file's text.

        Raises:
            InputError: something in it is wrong, with where.
        """
        file = validated(text, _File)
        with told_with_where():
            lines = [
                Line(
                    **part.model_dump(exclude={"scenarios", "releases"}),
                    scenario=scenario,
                    release=release,
                )
                for part in file.lines
                for scenario in part.scenarios
                for release in part.releases
            ]
            goals = [
                Goal(**part.model_dump(exclude={"releases"}), release=release)
                for part in file.goals
                for release in part.releases
            ]
        register = cls(
            scenarios=file.scenarios,
            tolerances=file.tolerances,
            lines=tuple(by_name(lines).values()),
            goals=tuple(goals),
        )
        register._check_names()
        return register

    def of(self, releases: Sequence[str]) -> "Register":
        """Return the part that is about some releases.

        Raises:
            InputError: there is no line about one of them.
        """
        for release in releases:
            if release not in self.releases:
                raise InputError(f"release '{release}'; allowed: {', '.join(self.releases)}")
        return self.model_copy(
            update={
                "lines": tuple(line for line in self.lines if line.release in releases),
                "goals": tuple(goal for goal in self.goals if goal.release in releases),
            }
        )

    def line(self, scenario: str, release: str, level: str) -> Line | None:
        """Return the line of a scenario, release and level."""
        key = (scenario, release, level)
        found = (line for line in self.lines if (line.scenario, line.release, line.level) == key)
        return next(found, None)

    def _check_names(self) -> None:
        for line in self.lines:
            self._check_known("lines", line.scenario, line.tolerance)
        for goal in self.goals:
            for scenario in goal.scenarios:
                self._check_known(f"goals: '{goal.name}'", scenario, goal.tolerance)
                if self.line(scenario, goal.release, goal.level) is None:
                    raise InputError(
                        f"goals: '{goal.name}' adds up {scenario} on {goal.release} at "
                        f"{goal.level}, of which there is no line"
                    )

    def _check_known(self, where: str, scenario: str, tolerance: str) -> None:
        if scenario not in self.scenarios:
            raise InputError(f"{where}: there is no scenario '{scenario}'")
        if tolerance not in self.tolerances:
            raise InputError(f"{where}: there is no tolerance '{tolerance}'")
