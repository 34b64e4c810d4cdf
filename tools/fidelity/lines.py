"""What lines about workloads at places have in common, and parts of them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, Self, TypeVar

from pydantic import Field

from fidelity.markdown import section
from fidelity.register_file import Entry, RegisterFile
from schedlab.boundary.errors import InputError
from schedlab.model import Workload


class Described(Entry):
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


class About(Entry):
    """A line about a workload at a place.

    Attributes:
        workload: its name.
        place: ``host`` or ``vm:SERIES``.
    """

    workload: str
    place: str

    @property
    def about(self) -> tuple[str, ...]:
        """What it is about, in words."""
        return (self.workload, self.place)

    @property
    def name(self) -> str:
        """What it is told by: all that it is about."""
        return " ".join(self.about)


L = TypeVar("L", bound=About)


class Lines(RegisterFile, Generic[L]):
    """A file whose lines are about workloads at places.

    Attributes:
        lines: in their order, each with a name of its own.
    """

    lines: tuple[L, ...]

    @property
    def places(self) -> tuple[str, ...]:
        """Where lines are about, in their order."""
        return tuple(dict.fromkeys(line.place for line in self.lines))

    def at(self, place: str) -> tuple[str, ...]:
        """Return the names of the workloads that lines of a place are about, in their order."""
        return tuple(dict.fromkeys(line.workload for line in self.lines if line.place == place))

    def of(self, places: Sequence[str] = (), workloads: Sequence[str] = ()) -> Self:
        """Return the part that is about some places and workloads; about all where none is named.

        Raises:
            InputError: there is no line about one of them.
        """
        return self.model_copy(update={"lines": some(self.lines, places, workloads)})


def workloads(described: Mapping[str, Described]) -> list[str]:
    """Return a page's section about the workloads."""
    rows = [(name, f"`{part.run}`", part.why) for name, part in described.items()]
    return section("Workloads", ("name", "run", "why"), rows)


def described(name: str, workloads: Iterable[str]) -> str:
    """Return the name of a workload that lines are about.

    Raises:
        InputError: none is called so.
    """
    if name not in workloads:
        raise InputError(f"lines: there is no workload '{name}'")
    return name


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
