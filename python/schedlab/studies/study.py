"""What a study is: claims of a paper compared with our runs, with the evidence."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from schedlab.experiment.settings import Setting
from schedlab.experiment.subjects import Subject

Arm = tuple[Subject, Setting]
"""What is run, and under which setting."""

Cell = str | float | int | None
"""A table's cell: text, a number, or nothing."""


class Judgement(StrEnum):
    """What the evidence says of a claim."""

    CONFIRMED = "confirmed"
    NOT_CONFIRMED = "not confirmed"
    CONTRADICTED = "contradicted"


@dataclass(frozen=True, slots=True)
class Claim:
    """A paper's claim and its verdict.

    Attributes:
        claim: in a sentence.
        paper: what the paper shows for it.
        ours: what we found.
        verdict: confirmed, not confirmed or contradicted.
        interval: of the number that decides, 95 %; None where nothing is random.
    """

    claim: str
    paper: str
    ours: str
    verdict: Judgement
    interval: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """Numbers.

    Attributes:
        name: of its CSV file, without ending.
        title: over it.
        columns: headings, with units.
        rows: as wide as the headings.
        shown: whether the report prints it; a long one is only in its file.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    shown: bool = True

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"table {self.name}: {len(row)} cells for {len(self.columns)}")


@dataclass(frozen=True, slots=True)
class Figure:
    """A picture.

    Attributes:
        name: unique in its study.
        caption: under it.
        alternative: its alternative text.
        chart: a Vega-Lite specification.
    """

    name: str
    caption: str
    alternative: str
    chart: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Result:
    """What a study came to.

    Attributes:
        answers: in words, the most important sentence first.
        claims: the paper's, one by one.
        tables: the numbers.
        figures: the pictures.
        timeline: one run, event by event, see `schedlab.report.timeline`; None without.
        notes: what is done otherwise than in the paper, and why.
        repeat: all that is needed to do it again.
    """

    answers: tuple[str, ...]
    claims: tuple[Claim, ...]
    tables: tuple[Table, ...]
    figures: tuple[Figure, ...]
    timeline: Mapping[str, Any] | None = None
    notes: tuple[str, ...] = ()
    repeat: Mapping[str, Any] = field(default_factory=dict)


Tell = Callable[[str, int, int], None]
"""Told of progress: what is being done, how much of it is done, of how much."""


def silent(what: str, done: int, total: int) -> None:
    """Report nothing."""
    del what, done, total


@dataclass(frozen=True, slots=True)
class Request:
    """How a study is to be done.

    Attributes:
        quick: the small version.
        small: real targets at the size of the small version, whatever is simulated.
        on: where, ``sim`` and real targets.
        seed: of everything random.
        tell: told of progress.
        measure: runs experiments on real targets, and stores their results; None where there
            are none.
        blocks: runs of each arm on a real target, in place of the study's number, by its name; the
            name ``""`` stands for all others.
        levels: the levels of load that real targets are measured at, in place of all.
    """

    quick: bool = False
    on: tuple[str, ...] = ("sim",)
    seed: int = 1
    tell: Tell = silent
    measure: "Measure | None" = None
    small: bool = False
    blocks: Mapping[str, int] = field(default_factory=dict)
    levels: tuple[str, ...] = ()

    @property
    def measures_little(self) -> bool:
        """Whether real targets are to be measured at the size of the small version."""
        return self.quick or self.small

    def blocks_of(self, target: str, full: int, little: int) -> int:
        """Return how often each arm is run on a real target.

        >>> Request(small=True).blocks_of("host", 12, 6)
        6
        >>> asked = Request(blocks={"": 2, "host": 8})
        >>> asked.blocks_of("host", 12, 6), asked.blocks_of("vm:6.1", 12, 6)
        (8, 2)
        """
        usual = little if self.measures_little else full
        return self.blocks.get(target, self.blocks.get("", usual))

    def levels_of(self, full: Sequence[str], little: Sequence[str]) -> tuple[str, ...]:
        """Return the levels of load that real targets are measured at, in the study's order.

        >>> Request(levels=("20", "4")).levels_of(("4", "20", "100"), ("20",))
        ('4', '20')
        """
        if self.levels:
            return tuple(one for one in full if one in self.levels)
        return tuple(little if self.measures_little else full)

    @property
    def real(self) -> tuple[str, ...]:
        """The targets on which time is measured."""
        return tuple(name for name in self.on if name != "sim")


class Measure(Protocol):
    """Runs arms on a real target, see `schedlab.studies.measurement.Measuring`."""

    def __call__(
        self, title: str, arms: Mapping[str, Arm], target: str, *, blocks: int
    ) -> Mapping[str, Sequence[Mapping[str, float]]]:
        """Return the values of each arm's runs, by arm, one a block."""


@dataclass(frozen=True, slots=True)
class Study:
    """A paper to be reproduced.

    Attributes:
        name: on the command line.
        title: of its report.
        paper: author, title, place and year.
        summary: what it asks, in a line.
        run: does it.
        levels: of load, those that real targets may be measured at; empty where it has no such.
    """

    name: str
    title: str
    paper: str
    summary: str
    run: Callable[[Request], Result]
    levels: tuple[str, ...] = ()


def share(value: float) -> str:
    """Return a share for people.

    >>> share(0.2), share(0.3333)
    ('20.0 %', '33.3 %')
    """
    return f"{100 * value:.1f} %"


def judged(holds: bool, against: bool = False) -> Judgement:
    """Return the judgement of what was seen to hold, or its contrary.

    >>> str(judged(False, against=True))
    'contradicted'
    """
    if holds:
        return Judgement.CONFIRMED
    return Judgement.CONTRADICTED if against else Judgement.NOT_CONFIRMED
