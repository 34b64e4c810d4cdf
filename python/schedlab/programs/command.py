"""Any command, measured by what it prints or by its run time."""

import re
import shlex
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

from schedlab.boundary.errors import InputError, RunError
from schedlab.experiment.subjects import Conditions, Measured, Metric
from schedlab.model.direction import Better, direction_of, known_words, pattern_words
from schedlab.processes.capture import matching
from schedlab.processes.disturbance import Watch
from schedlab.targets.target import Target

OWN = (
    Metric.known("seconds"),
    Metric.known("user"),
    Metric.known("system"),
    Metric.known("cpu"),
    Metric.known("voluntary", ""),
    Metric.known("involuntary", ""),
)
"""What every command is measured by: its run time, CPU times and switches."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the user's.

    Attributes:
        words: the program and its arguments.
        pattern: a regular expression with one group, the number in what the command prints; or one
            of the names in `OWN`. The last match counts. A group's name is its metric's:
            ``(?P<p99>[0-9.]+)``; it is ``metric`` otherwise, then ``metric 2``, and so on.
        better: whether a lower or a higher number is better; None: as the pattern's words tell
            (`schedlab.model.direction`).
        also: more patterns, each with its direction.

    Raises:
        InputError: no words, an invalid pattern, one whose direction is unknown, or two metrics of
            one name.

    >>> Command(("./serve", "-n", "5"), r"Requests/sec: ([0-9.]+)").metrics[0]
    Metric(name='metric', unit='', better='higher')
    """

    words: tuple[str, ...]
    pattern: str = "seconds"
    better: Better | None = None
    also: tuple[tuple[str, Better | None], ...] = ()
    metrics: tuple[Metric, ...] = field(init=False)
    _compiled: "Mapping[str, re.Pattern[str]]" = field(init=False, repr=False, compare=False)
    _lines: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.words:
            raise InputError("there is no command: write it after --")
        own = {metric.name: metric for metric in OWN}
        texts = [pattern for pattern, _ in self.patterns]
        if twice := next((one for one in texts if texts.count(one) > 1), None):
            raise InputError(f"metric '{twice}' is given twice: leave one out")
        asked: list[Metric] = []
        compiled: dict[str, re.Pattern[str]] = {}
        for place, (pattern, better) in enumerate(self.patterns, start=1):
            if pattern in own:
                chosen = own[pattern]
                metric = Metric(chosen.name, chosen.unit, better or chosen.better)
            else:
                found = _compile(pattern)
                usual = "metric" if place == 1 else f"metric {place}"
                metric = Metric(
                    next(iter(found.groupindex), usual), "", better or _direction(pattern)
                )
                compiled[metric.name] = found
            if metric.name in {one.name for one in asked} or (
                metric.name in own and pattern not in own
            ):
                raise InputError(
                    f"metric '{metric.name}' is there twice: name the group of '{pattern}' "
                    "otherwise, as in (?P<p99>…)"
                )
            asked.append(metric)
        object.__setattr__(self, "_compiled", compiled)
        object.__setattr__(self, "_lines", _any_of([one.pattern for one in compiled.values()]))
        rest = [one for one in OWN if one.name not in {metric.name for metric in asked}]
        object.__setattr__(self, "metrics", (*asked, *rest))

    @property
    def patterns(self) -> tuple[tuple[str, Better | None], ...]:
        """All its patterns, each with its direction."""
        return ((self.pattern, self.better), *self.also)

    @property
    def name(self) -> str:
        """The command as a shell would take it."""
        return shlex.join(self.words)

    def definition(self) -> Mapping[str, Any]:
        """Return command, pattern and direction."""
        also = [
            {"pattern": pattern, "better": metric.better}
            for (pattern, _), metric in zip(self.also, self.metrics[1:], strict=False)
        ]
        return {
            "command": list(self.words),
            "pattern": self.pattern,
            "better": self.metrics[0].better,
        } | ({"also": also} if also else {})

    def measure(self, target: Target, under: Conditions) -> Measured:
        """Run it once. See `schedlab.experiment.subjects.Subject.measure`."""
        # The last match counts, which may come before what is kept of a long output.
        with matching(self._lines):
            done = target.execute(self.words, **under.for_command())
        if done.code != 0:
            said = (done.errors.strip() or done.output.strip()).splitlines()
            last = said[-1][:200] if said else "it said nothing"
            raise RunError(f"'{self.words[0]}' ended with code {done.code}: {last}")
        values = {
            "seconds": done.seconds,
            "user": done.user,
            "system": done.system,
            "cpu": done.user + done.system,
            "voluntary": float(done.voluntary),
            "involuntary": float(done.involuntary),
        }
        for name, pattern in self._compiled.items():
            values[name] = read_number(pattern, done.output + "\n" + done.errors)
        kept = {"output": done.output[-4000:], "errors": done.errors[-4000:], "values": values}
        kept |= Watch(done.disturbance, done.notes).as_data()
        return Measured(values, kept, done.disturbance)


def read_number(pattern: "re.Pattern[str]", text: str) -> float:
    r"""Return the number of the last match.

    Raises:
        RunError: nothing matches, or the group is no number.

    >>> read_number(re.compile("total ([0-9,.]+)"), "total 5\ntotal 1,250.5")
    1250.5
    """
    found = pattern.findall(text)
    if not found:
        raise RunError(f"the command printed nothing that matches '{pattern.pattern}'")
    try:
        return float(str(found[-1]).replace(",", ""))
    except ValueError:
        raise RunError(
            f"'{pattern.pattern}' found '{found[-1]}' in what the command printed: no number"
        ) from None


def _direction(pattern: str) -> Better:
    """Return whether lower or higher numbers are better, where the pattern's words tell.

    Raises:
        InputError: they do not.
    """
    found = direction_of(pattern_words(pattern))
    if found is None:
        raise InputError(
            f"nothing tells whether lower or higher values of metric '{pattern}' are better: say "
            f"--better lower or --better higher; known by their words: {known_words()}"
        )
    return found


def _compile(pattern: str) -> "re.Pattern[str]":
    try:
        with warnings.catch_warnings():
            # What a later Python may read otherwise, such as `[[a]`, is taken as this one reads it.
            warnings.simplefilter("ignore", FutureWarning)
            compiled = re.compile(pattern, re.MULTILINE)
    except re.error as error:
        raise InputError(f"metric '{pattern}' is no regular expression: {error}") from None
    if compiled.groups != 1:
        own = ", ".join(metric.name for metric in OWN)
        raise InputError(
            f"metric '{pattern}' has {compiled.groups} groups; allowed: a regular expression with "
            f"one group (the number), or {own}"
        )
    return compiled


def _any_of(patterns: Sequence[str]) -> str:
    """Return a regular expression that matches where one of several does; empty for none."""
    if len(patterns) < 2:
        return "".join(patterns)
    whole = "|".join(f"(?:{pattern})" for pattern in patterns)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            re.compile(whole)
    except re.error as error:
        raise InputError(
            f"metrics {', '.join(map(repr, patterns))} cannot be searched together: {error}"
        ) from None
    return whole


def command(words: Sequence[str], patterns: Sequence[tuple[str, str | None]] = ()) -> Command:
    """Return the command that options describe.

    Args:
        words: the program and its arguments.
        patterns: of its metrics, each with its direction, None where its words tell; its run time
            otherwise.

    Raises:
        InputError: as `Command`; also an unknown direction.
    """
    chosen: list[tuple[str, Better | None]] = []
    for pattern, direction in patterns or [("seconds", None)]:
        if direction not in (None, *get_args(Better)):
            raise InputError(f"--better is '{direction}'; allowed: lower, higher")
        better: Better | None = (
            "lower" if direction == "lower" else "higher" if direction == "higher" else None
        )
        chosen.append((pattern, better))
    (pattern, better), *also = chosen
    return Command(tuple(words), pattern, better, tuple(also))
