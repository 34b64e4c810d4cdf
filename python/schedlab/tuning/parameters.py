"""What is searched: ranges of knobs and slices, choices of policies, and what they decode to."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from schedlab.boundary.errors import InputError
from schedlab.experiment.settings import Setting
from schedlab.knobs import Knob, find
from schedlab.model import format_time, parse_time
from schedlab.search import Dimension, Space
from schedlab.search.space import FloatArray
from schedlab.targets.target import Simulated, Target, knobs_release

Scale = Literal["log", "linear"]

_DIGITS = 3
"""Significant digits of a value that is tried: finer steps are no different setting."""

_SLICES = (100_000, 100_000_000)
"""Nanoseconds that a task may ask for (``kernel/sched/syscalls.c``, ``__setparam_fair``)."""


@dataclass(frozen=True, slots=True)
class Range:
    """A knob or slice with all values between two.

    Attributes:
        name: the knob, or ``slice``.
        low: the least value, in nanoseconds or a count.
        high: the greatest.
        time: whether it is a time.
        unit: nanoseconds that values are multiples of.
        scale: ``log`` where equal steps are equal ratios, ``linear`` where they are equal lengths.

    >>> Range("latency", 100_000, 1_000_000_000, time=True).text(0.5)
    '10ms'
    """

    name: str
    low: int
    high: int
    time: bool
    unit: int = 1
    scale: Scale = "log"

    @property
    def dimension(self) -> Dimension:
        """Its coordinate: from 0 to 1 in ratios, or the value itself."""
        if self.scale == "log":
            return Dimension(self.name, 0.0, 1.0)
        return Dimension(self.name, self.low, self.high, integer=True)

    def text(self, coordinate: float) -> str:
        """Return the value at a coordinate, rounded to three digits and to the kernel's unit."""
        value = coordinate
        if self.scale == "log":
            shift, low, high = self._logs()
            value = math.exp(low + coordinate * (high - low)) - shift
        return self.rounded(value)

    def coordinate(self, text: str) -> float:
        """Return the coordinate of a value.

        >>> Range("latency", 1, 9, time=False).coordinate("3")
        0.5
        """
        value = float(parse_time(text) if self.time else int(text))
        if self.scale == "log":
            shift, low, high = self._logs()
            return (math.log(value + shift) - low) / (high - low)
        return value

    def _logs(self) -> tuple[float, float, float]:
        """Return what values are shifted by, and the logarithms of both ends.

        A range that begins at 0 has no ratios: it is shifted by a hundredth of its end, or by
        100 us, whichever is less.
        """
        shift = 0.0 if self.low > 0 else min(self.high / 100, 1e5 if self.time else 1.0)
        return shift, math.log(self.low + shift), math.log(self.high + shift)

    def rounded(self, value: float) -> str:
        """Return a value within the range, rounded to three digits and to the kernel's unit.

        >>> Range("latency", 100_000, 1_000_000_000, time=True).rounded(9_876_543)
        '9.88ms'
        """
        step = 10.0 ** (math.floor(math.log10(value)) - _DIGITS + 1) if value >= 1 else 1.0
        rounded = round(round(value / step) * max(step, 1e-9))
        rounded = round(rounded / self.unit) * self.unit
        low_end = -(-self.low // self.unit) * self.unit
        rounded = min(max(rounded, low_end), self.high // self.unit * self.unit)
        return format_time(rounded) if self.time else str(rounded)


@dataclass(frozen=True, slots=True)
class Options:
    """A choice among values.

    Attributes:
        name: ``policy``, ``slice`` or a knob.
        values: its values.
        ordered: whether neighbours are alike.
    """

    name: str
    values: tuple[str, ...]
    ordered: bool = False

    @property
    def dimension(self) -> Dimension:
        """Its coordinate: the place in the list."""
        last = len(self.values) - 1
        return Dimension(self.name, 0, last, integer=True, ordered=self.ordered)

    def text(self, coordinate: float) -> str:
        """Return the value at a place."""
        return self.values[round(coordinate)]

    def coordinate(self, text: str) -> float:
        """Return the place of a value."""
        return float(self.values.index(text))


@dataclass(frozen=True, slots=True)
class Parameters:
    """All that is searched, and what is set beside it.

    Attributes:
        searched: what has several values.
        fixed: what has one.
    """

    searched: tuple[Range | Options, ...]
    fixed: tuple[tuple[str, str], ...] = ()

    @property
    def space(self) -> Space:
        """Where the search moves."""
        return Space([one.dimension for one in self.searched])

    @property
    def names(self) -> list[str]:
        """What is searched."""
        return [one.name for one in self.searched]

    def setting(self, position: FloatArray) -> Setting:
        """Return the setting at a position; a policy whose tasks have no slice has none."""
        found = {
            one.name: one.text(float(coordinate))
            for one, coordinate in zip(self.searched, position, strict=True)
        }
        return self.complete(found)

    def complete(self, searched: Mapping[str, str]) -> Setting:
        """Return the setting with these values of what is searched, and what is set beside it."""
        setting = Setting({**dict(self.fixed), **searched})
        if setting.sensible:
            return setting
        return Setting({name: text for name, text in setting.values.items() if name != "slice"})

    def as_data(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "searched": [
                {name: getattr(one, name) for name in one.__dataclass_fields__}
                for one in self.searched
            ],
            "fixed": dict(self.fixed),
        }


def parameters(
    target: Target,
    *,
    knobs: Iterable[str] = (),
    policies: Sequence[str] = (),
    slices: str | Sequence[str] = (),
    scale: Scale = "log",
) -> Parameters:
    """Return what is searched, once it is clear that the target can have it.

    Args:
        target: where.
        knobs: names, each over its whole range, or ``name=low..high``.
        policies: to choose from.
        slices: a range ``low..high``, or slices to choose from.
        scale: of ranges.

    Raises:
        InputError: nothing to search, something unknown or twice, or what the target has not.
        NotPermittedError: what may not be set there.

    >>> from schedlab.model import Machine, Scheduler
    >>> place = Simulated(Scheduler("6.1"), Machine(1, "reference"))
    >>> found = parameters(place, knobs=["latency=1ms..100ms"], policies=["other", "batch"])
    >>> str(found.setting(found.space.high))
    'latency=100ms, policy=batch'
    """
    found: list[Range | Options] = [_knob(text, target, scale) for text in knobs]
    if policies:
        found.append(Options("policy", tuple(policies)))
    if isinstance(slices, str):
        low, high = _ends("slice", slices, *_SLICES, time=True)
        found.append(Range("slice", low, high, time=True, scale=scale))
    elif slices:
        found.append(Options("slice", tuple(slices), ordered=True))
    for one in found:
        if sum(other.name == one.name for other in found) > 1:
            raise InputError(f"'{one.name}' is to be searched more than once")
        if isinstance(one, Options) and len(set(one.values)) < len(one.values):
            raise InputError(f"'{one.name}' has a value twice")
        _check(one, target)
    # An option that leaves no choice is set everywhere, and not searched.
    fixed = [one for one in found if isinstance(one, Options) and len(one.values) == 1]
    searched = tuple(one for one in found if one not in fixed)
    if not searched:
        raise InputError(
            "there is nothing to search: name at least one knob (--knobs), several policies "
            "(--policy) or slices (--slice)"
        )
    return Parameters(searched, tuple((one.name, one.values[0]) for one in fixed))


def _knob(text: str, target: Target, scale: Scale) -> Range | Options:
    name, equals, rest = text.partition("=")
    knob = find(name, knobs_release(target), target.cpus)
    if isinstance(target, Simulated) and not knob.simulated:
        raise InputError(f"the simulator does not act on knob '{knob.name}' yet")
    if knob.kind == "switch":
        if equals:
            raise InputError(f"'{text}': knob '{name}' is 0 or 1, it has no range")
        return Options(name, ("0", "1"), ordered=True)
    time = knob.kind == "time"
    low, high = (
        _ends(name, rest, knob.low, knob.high, time=time) if equals else (knob.low, knob.high)
    )
    return Range(name, low, high, time=time, unit=_unit(knob), scale=scale)


def _unit(knob: Knob) -> int:
    return knob.unit if knob.kind == "time" else 1


def _ends(name: str, text: str, least: int, most: int, *, time: bool) -> tuple[int, int]:
    """Read a range ``low..high`` within what is allowed."""
    ends = text.split("..")
    try:
        low, high = (parse_time(end) if time else int(end) for end in ends)
    except ValueError:
        example = "1ms..20ms" if time else "1..64"
        raise InputError(f"{name}={text} is no range: write it as in {name}={example}") from None
    show = format_time if time else str
    if not least <= low < high <= most:
        raise InputError(
            f"{name}={text}: a range within {show(least)} to {show(most)} is needed, the lower "
            "end first"
        )
    return low, high


def _check(one: Range | Options, target: Target) -> None:
    values = one.values if isinstance(one, Options) else (one.text(one.dimension.high),)
    for value in values:
        Setting({one.name: value}).check(target)
