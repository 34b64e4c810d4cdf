"""What lines about workloads at places have in common, and parts of them."""

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from pydantic import Field

from fidelity.written import Read
from schedlab.boundary.errors import InputError
from schedlab.model import Workload


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


L = TypeVar("L", bound=About)


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
