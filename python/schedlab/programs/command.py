"""Any command, measured by what it prints or by its run time."""

import re
import shlex
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

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
            of the names in `OWN`. The last match counts.
        better: whether a lower or a higher number is better; None: as the pattern's words tell
            (`schedlab.model.direction`).

    Raises:
        InputError: no words, an invalid pattern, or one whose direction is unknown.

    >>> Command(("./serve", "-n", "5"), r"Requests/sec: ([0-9.]+)").metrics[0]
    Metric(name='metric', unit='', better='higher')
    """

    words: tuple[str, ...]
    pattern: str = "seconds"
    better: Better | None = None
    metrics: tuple[Metric, ...] = field(init=False)
    _compiled: "re.Pattern[str] | None" = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.words:
            raise InputError("there is no command: write it after --")
        own = {metric.name: metric for metric in OWN}
        if self.pattern in own:
            chosen = own[self.pattern]
            metric = Metric(chosen.name, chosen.unit, self.better or chosen.better)
            object.__setattr__(self, "_compiled", None)
        else:
            object.__setattr__(self, "_compiled", _compile(self.pattern))
            metric = Metric("metric", "", self.better or _direction(self.pattern))
        rest = tuple(one for one in OWN if one.name != metric.name)
        object.__setattr__(self, "metrics", (metric, *rest))

    @property
    def name(self) -> str:
        """The command as a shell would take it."""
        return shlex.join(self.words)

    def definition(self) -> Mapping[str, Any]:
        """Return command, pattern and direction."""
        return {
            "command": list(self.words),
            "pattern": self.pattern,
            "better": self.metrics[0].better,
        }

    def measure(self, target: Target, under: Conditions) -> Measured:
        """Run it once. See `schedlab.experiment.subjects.Subject.measure`."""
        # The last match counts, which may come before what is kept of a long output.
        with matching("" if self._compiled is None else self.pattern):
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
        if self._compiled is not None:
            values["metric"] = read_number(self._compiled, done.output + "\n" + done.errors)
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


def command(words: Sequence[str], pattern: str | None, better: str | None) -> Command:
    """Return the command that options describe.

    Raises:
        InputError: as `Command`; also an unknown direction.
    """
    if better not in (None, "lower", "higher"):
        raise InputError(f"--better is '{better}'; allowed: lower, higher")
    direction: Better | None = (
        "lower" if better == "lower" else "higher" if better == "higher" else None
    )
    return Command(tuple(words), "seconds" if pattern is None else pattern, direction)
