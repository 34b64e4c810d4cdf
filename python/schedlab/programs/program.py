"""What all benchmarks from their own packages share: their text, their options, their needs."""

import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

from schedlab.boundary.errors import InputError, RunError
from schedlab.experiment.subjects import Conditions, Measured, Metric
from schedlab.knobs import applied
from schedlab.model import Attributes, format_time, parse_time
from schedlab.processes import lease, processes
from schedlab.processes.disturbance import watching
from schedlab.targets import ext
from schedlab.targets.program_start import starting
from schedlab.targets.target import Target
from schedlab.targets.virtual import Virtual

PACKAGES = {
    "hackbench": "rt-tests",
    "perf": "linux-perf",
    "apache2": "apache2",
    "wrk": "wrk",
    "ab": "apache2-utils",
    "fio": "fio",
    "stress-ng": "stress-ng",
    "rt-app": "rt-app",
}
"""The Debian package of each program."""

_SBIN = ("/usr/sbin", "/sbin", "/usr/local/sbin")


def find(program: str) -> str | None:
    """Return the path of a program, also where an ordinary user's PATH does not reach."""
    found = shutil.which(program)
    if found is not None:
        return found
    return next((f"{d}/{program}" for d in _SBIN if Path(d, program).is_file()), None)


def need(program: str) -> str:
    """Return the path of a program.

    Raises:
        InputError: it is not installed; the message names its package.
    """
    found = find(program)
    if found is None:
        raise InputError(
            f"{program} is not installed; on Debian it is in the package {PACKAGES[program]}"
        )
    return found


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a program's text.

    Attributes:
        default: its value where none is given, as text.
        kind: ``count``, ``time`` (with a unit), ``size`` (bytes, with k, m or g), ``word``.
        low: the least count, nanoseconds or bytes.
        high: the greatest.
        words: the words allowed; empty for any.
    """

    default: str
    kind: str = "count"
    low: int = 1
    high: int = 1_000_000
    words: tuple[str, ...] = ()

    def read(self, text: str) -> int | str:
        """Return the value of a text.

        Raises:
            ValueError: it is unknown; the message says what is allowed.
        """
        if self.kind == "word":
            if self.words and text not in self.words:
                raise ValueError(f"allowed: {', '.join(self.words)}")
            if not re.fullmatch(r"[A-Za-z0-9_-]+", text):
                raise ValueError("allowed: a word")
            return text
        value = self._number(text)
        if value is None or not self.low <= value <= self.high:
            raise ValueError(f"allowed: {self.show(self.low)} to {self.show(self.high)}")
        return value

    def _number(self, text: str) -> int | None:
        if self.kind == "time":
            try:
                return parse_time(text)
            except InputError:
                return None
        units = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30} if self.kind == "size" else {"": 1}
        match = re.fullmatch(r"(\d{1,18})([a-z]?)", text.lower())
        if match is None or match[2] not in units:
            return None
        return int(match[1]) * units[match[2]]

    def show(self, value: int) -> str:
        """Return a value as text."""
        if self.kind == "time":
            return format_time(value)
        if self.kind == "size":
            for unit, size in (("g", 2**30), ("m", 2**20), ("k", 2**10)):
                if value and value % size == 0:
                    return f"{value // size}{unit}"
        return str(value)


@dataclass(frozen=True, slots=True)
class Start:
    """How a program is started here.

    Attributes:
        attributes: of its tasks.
        timeout: seconds until it is ended.
    """

    attributes: Attributes | None
    timeout: float

    def run(
        self, command: list[str], *, directory: Path | None = None, tuned: bool = True
    ) -> processes.Completed:
        """Run a program, under the attributes if it is the one that is tuned.

        Raises:
            RunError: it failed or did not end in time; with what it said.
        """
        prepare = starting(self.attributes if tuned else None)
        done = processes.run(command, timeout=self.timeout, prepare=prepare, directory=directory)
        if done.code != 0:
            name = Path(command[0]).name
            said = " ".join((done.errors.strip() or done.output.strip()).split())[-300:]
            raise RunError(f"{name} ended with code {done.code}: {said or 'it said nothing'}")
        return done


@dataclass(frozen=True, slots=True)
class Program(ABC):
    """A benchmark from its own package, with its options.

    Attributes:
        options: their values: counts, nanoseconds, bytes, words.
    """

    family: ClassVar[str]
    table: ClassVar[Mapping[str, Option]]
    metrics: ClassVar[tuple[Metric, ...]]
    writes_files: ClassVar[bool] = False
    """Whether a guest needs a disk for it."""
    options: Mapping[str, int | str] = field(hash=False)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the options of a text ``family:key=value,…``.

        Raises:
            InputError: an unknown option or a value that is not allowed.
        """
        _, _, rest = text.partition(":")
        given: dict[str, int | str] = {}
        for pair in rest.split(",") if rest else ():
            key, equals, value = pair.partition("=")
            if key not in cls.table or not equals:
                known = ", ".join(cls.table)
                raise InputError(f"{cls.family}: '{pair}' is no option; known: {known}")
            if key in given:
                raise InputError(f"{cls.family}: option '{key}' is given twice")
            try:
                given[key] = cls.table[key].read(value)
            except ValueError as error:
                raise InputError(f"{cls.family}: {key}={value}: {error}") from None
        defaults = {key: option.read(option.default) for key, option in cls.table.items()}
        program = cls({**defaults, **given})
        program.check()
        return program

    @property
    def name(self) -> str:
        """The text with all options."""
        shown = (
            f"{key}={value if isinstance(value, str) else self.table[key].show(value)}"
            for key, value in self.options.items()
        )
        return f"{self.family}:{','.join(shown)}"

    def definition(self) -> Mapping[str, Any]:
        """Return the text."""
        return {"program": self.name}

    def count(self, key: str) -> int:
        """Return the value of an option that is a number."""
        return int(self.options[key])

    def word(self, key: str) -> str:
        """Return the value of an option that is a word."""
        return str(self.options[key])

    def seconds(self, key: str) -> float:
        """Return the seconds of an option that is a time."""
        return self.count(key) / 1e9

    def check(self) -> None:  # noqa: B027 - most have nothing to refuse
        """Refuse options that do not go together."""

    @abstractmethod
    def needs(self) -> tuple[str, ...]:
        """Return the programs it needs."""

    @abstractmethod
    def run(self, start: Start) -> dict[str, float]:
        """Run it once here, and return its metrics."""

    def measure(self, target: Target, under: Conditions) -> Measured:
        """Run it once; it draws its own random numbers.

        See `schedlab.experiment.subjects.Subject.measure`.
        """
        if not target.real:
            raise InputError(
                f"'{self.family}' is a real program: it runs with --on host or --on vm:KERNEL, "
                f"not on {target.name}"
            )
        for program in self.needs():
            need(program)  # a guest has the programs that are here
        if isinstance(target, Virtual):
            values, watch = target.measure_program(
                self.name, **under.for_command(), disk=self.writes_files
            )
        else:
            with (
                lease.exclusive(),
                applied(under.knobs, target.release, target.cpus) if under.knobs else nullcontext(),
                ext.scheduling(under.attributes),
                watching() as watch,
            ):
                values = self.run(Start(under.attributes, under.timeout))
        kept = {"program": self.name, "values": values} | watch.as_data()
        return Measured(values, kept, watch.found)


@contextmanager
def reading_output(program: str, text: str) -> Iterator[None]:
    """Refuse what a program printed where it has another shape than a block reads.

    Args:
        program: its name, for the message.
        text: what it printed.

    Raises:
        RunError: a value is missing, or of another kind.

    >>> with reading_output("ab", "5...5"):
    ...     float("5...5")
    Traceback (most recent call last):
    ...
    schedlab.boundary.errors.RunError: ab printed something unknown: '5...5'
    """
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError):
        raise RunError(f"{program} printed something unknown: {_beginning(text)}") from None


def _beginning(text: str) -> str:
    return repr(" ".join(text[:2000].split())[:200])


def number(pattern: str, text: str, program: str) -> float:
    """Return the number that a pattern finds.

    Raises:
        RunError: it finds none.
    """
    match = re.search(pattern, text, re.MULTILINE)
    if match is None:
        raise RunError(f"{program} printed something unknown: {_beginning(text)}")
    with reading_output(program, text):
        return float(match[1])
