"""What the files of lines about runs have in common: how they are read, and parts of them."""

import tomllib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from schedlab.errors import InputError
from schedlab.model import Workload


class Read(BaseModel):
    """Something in such a file: nothing in it is unknown, and nothing changes it."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Described(Read):
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


class About(Protocol):
    """A line about a workload at a place."""

    @property
    def workload(self) -> str: ...  # noqa: D102

    @property
    def place(self) -> str: ...  # noqa: D102


F = TypeVar("F", bound=BaseModel)
R = TypeVar("R")
L = TypeVar("L", bound=About)


def parsed(kind: type[F], text: str) -> F:
    """Read a file's text.

    Raises:
        InputError: something in it is wrong, with where.
    """
    try:
        return kind.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"no TOML: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InputError(f"{where}: {first['msg']}") from None


def from_file(path: Path, parse: Callable[[str], R]) -> R:
    """Read a file.

    Raises:
        InputError: it cannot be read, or something in it is wrong, with where.
    """
    try:
        return parse(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read '{path}': {error.strerror}") from None
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def places(lines: Iterable[About]) -> tuple[str, ...]:
    """Return where lines are about, in their order."""
    return tuple(dict.fromkeys(line.place for line in lines))


def workloads(lines: Iterable[About], place: str) -> tuple[str, ...]:
    """Return the names of the workloads that lines of a place are about, in their order."""
    return tuple(dict.fromkeys(line.workload for line in lines if line.place == place))


def some(lines: Sequence[L], at: Sequence[str], of: Sequence[str]) -> tuple[L, ...]:
    """Return the lines about some places and workloads; about all where none is named.

    Raises:
        InputError: there is no line about one of them.
    """
    for wanted, known in (
        (at, {line.place for line in lines}),
        (of, {line.workload for line in lines}),
    ):
        for name in wanted:
            if name not in known:
                allowed = ", ".join(sorted(known))
                raise InputError(f"no line is about '{name}'; known: {allowed}")
    return tuple(
        line for line in lines if (not at or line.place in at) and (not of or line.workload in of)
    )
