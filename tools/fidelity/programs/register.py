"""What was written down beforehand: ``validation/programs.toml``."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field

from fidelity.register_file import Entry, RegisterFile, validated
from fidelity.whatif.register import RECORDED
from schedlab.boundary.errors import InputError

Part = Literal["program", "batch"]
"""The program that is measured with its servers, or the job that computes beside it."""

Metric = Literal["throughput", "p99"]
METRICS: tuple[Metric, ...] = ("throughput", "p99")

_POLICIES = {"SCHED_BATCH": "-b", "SCHED_IDLE": "-i"}
"""Of chrt, both at priority 0."""


class Program(Entry):
    """A program and how it is run.

    Attributes:
        why: what it is there for.
        prepare: a shell script that runs before each recording, and is not recorded.
        run: the one that is recorded; ``$PROGRAM`` and ``$BATCH`` begin the commands of both parts.
        after: what ends servers, once recorded.
        client: the program whose life is the time of the job.
        names: of all its tasks, as the kernel has them.
        batch: of the job beside it.
        jobs: requests, transactions, accesses or files of a run.
        unit: what those are called.
    """

    why: str = Field(min_length=20)
    prepare: str
    run: str
    after: str = "true"
    client: str
    names: tuple[str, ...] = Field(min_length=1)
    batch: tuple[str, ...] = Field(min_length=1)
    jobs: Annotated[int, Field(ge=1)]
    unit: str

    def tasks_of(self, part: Part) -> tuple[str, ...]:
        """Return the names of a part's tasks."""
        return self.names if part == "program" else self.batch


class Change(Entry):
    """What is set otherwise.

    Attributes:
        name: what it is called.
        places: where; everywhere without any.
        knobs: knobs by name.
        tasks: keys of the tasks of a part: ``policy`` and ``priority``, which is the nice level.
    """

    name: str
    places: tuple[str, ...] = ()
    knobs: Mapping[str, str] = Field(default_factory=dict)
    tasks: Mapping[Part, Mapping[str, Any]] = Field(default_factory=dict)

    def prefix(self, part: Part) -> str:
        """Return what begins the commands of a part, so that they are set so.

        >>> Change(name="x", tasks={"batch": {"priority": 5}}).prefix("batch")
        'nice -n 5'
        """
        keys = self.tasks.get(part, {})
        words = []
        if "policy" in keys:
            words.append(f"chrt {_POLICIES[keys['policy']]} 0")
        if "priority" in keys:
            words.append(f"nice -n {keys['priority']}")
        return " ".join(words)


class Protocol(Entry):
    """How it is recorded.

    Attributes:
        places: where.
        repeats: recordings of each setting.
        simulations: simulated runs, each with a phase of the tick of its own.
    """

    places: tuple[str, ...] = Field(min_length=1)
    repeats: Annotated[int, Field(ge=2)]
    simulations: Annotated[int, Field(ge=1)]


class _File(Entry):
    protocol: Protocol
    programs: Mapping[str, Program]
    changes: tuple[Change, ...] = Field(min_length=1)
    causes: Mapping[str, Mapping[str, str]] = Field(default_factory=dict)


class Register(RegisterFile):
    """All of it.

    Attributes:
        protocol: how it is recorded.
        programs: by name.
        changes: what is set otherwise.
        causes: by place and program: why it is predicted badly, and what a recording would need.
    """

    protocol: Protocol
    programs: Mapping[str, Program]
    changes: tuple[Change, ...]
    causes: Mapping[str, Mapping[str, str]]

    def changes_at(self, place: str) -> list[Change]:
        """Return what is set at a place: first nothing, which is what predictions start from."""
        there = [change for change in self.changes if not change.places or place in change.places]
        return [Change(name=RECORDED), *there]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the file's text.

        Raises:
            InputError: something in it is wrong, with where.
        """
        file = validated(text, _File)
        names = [change.name for change in file.changes]
        if RECORDED in names:
            raise InputError(f"changes: '{RECORDED}' is what nothing is changed in")
        for change in file.changes:
            for keys in change.tasks.values():
                _check(change.name, keys)
            for place in change.places:
                if place not in file.protocol.places:
                    raise InputError(f"changes: {change.name}: there is no place '{place}'")
        return cls(
            protocol=file.protocol,
            programs=file.programs,
            changes=file.changes,
            causes=file.causes,
        )


def _check(name: str, keys: Mapping[str, Any]) -> None:
    unknown = set(keys) - {"policy", "priority"}
    if unknown:
        raise InputError(f"changes: {name}: '{min(unknown)}'; allowed: policy, priority")
    if keys.get("policy", "SCHED_BATCH") not in _POLICIES:
        allowed = ", ".join(_POLICIES)
        raise InputError(f"changes: {name}: policy '{keys['policy']}'; allowed: {allowed}")
