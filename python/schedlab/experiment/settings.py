"""Settings to compare: policies, slices, nice levels and knobs, and all their combinations."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from schedlab.boundary.errors import InputError, NotPermittedError
from schedlab.knobs import find
from schedlab.knobs.host import read
from schedlab.knobs.table import table
from schedlab.model import Attributes, Scheduler
from schedlab.targets.target import Host, Simulated, Target

TASK_SETTINGS = ("policy", "slice", "nice")
"""What is set on tasks, not on the kernel."""

_WITHOUT_SLICE = ("fifo", "rr", "idle", "deadline", "ext")
_WITHOUT_NICE = ("fifo", "rr", "deadline")


@dataclass(frozen=True, slots=True)
class Setting:
    """One way to set the scheduler.

    Attributes:
        values: what is set, by name: knobs, ``policy``, ``slice`` and ``nice``. What is not named
            stays as it is.

    >>> str(Setting({"policy": "fifo:1", "latency": "5ms"})), str(Setting({}))
    ('policy=fifo:1, latency=5ms', 'default')
    """

    values: Mapping[str, str] = field(default_factory=dict)

    def __hash__(self) -> int:
        return hash(frozenset(self.values.items()))

    @property
    def attributes(self) -> Attributes | None:
        """What tasks are given; None where it is nothing."""
        if not any(name in self.values for name in TASK_SETTINGS):
            return None
        return Attributes(
            self.values.get("policy", "other"),
            _nice(self.values.get("nice", "0")),
            self.values.get("slice"),
        )

    @property
    def knobs(self) -> dict[str, str]:
        """What is set on the kernel."""
        return {name: text for name, text in self.values.items() if name not in TASK_SETTINGS}

    @property
    def sensible(self) -> bool:
        """Whether the policy is one whose tasks have what is set of them: a slice, a nice level."""
        return not self._idle_settings

    @property
    def _idle_settings(self) -> frozenset[str]:
        """The settings of tasks that mean nothing under the policy."""
        policy = self.values.get("policy", "other").partition(":")[0]
        idle = {"slice"} if policy in _WITHOUT_SLICE else set()
        if policy in _WITHOUT_NICE:
            idle.add("nice")
        return frozenset(idle & self.values.keys())

    def check(self, target: Target) -> None:
        """Refuse before anything runs what the target could not do.

        Raises:
            InputError: an unknown knob, a value out of range, or a slice where tasks have none.
            NotPermittedError: a knob that may not be set there.
        """
        _ = self.attributes
        simulated = target.scheduler if isinstance(target, Simulated) else None
        slices = has_slices(target.release) if simulated is None else simulated.has_slices
        if "slice" in self.values and not slices:
            raise InputError(
                f"tasks of {target.release} cannot set slices: a slice does nothing there (6.12 on)"
            )
        if isinstance(target, Simulated):
            target.scheduler.with_knobs(self.knobs)
            return
        Scheduler(target.release, knobs=self.knobs)
        if isinstance(target, Host):
            for name in self.knobs:
                reading = read(find(name, target.release, target.cpus))
                if not reading.settable:
                    raise NotPermittedError(f"knob '{name}' cannot be set here: {reading.why}")

    def definition(self) -> dict[str, Any]:
        """Return it as plain data."""
        return dict(self.values)

    def __str__(self) -> str:
        return ", ".join(f"{name}={text}" for name, text in self.values.items()) or "default"


def has_slices(release: str) -> bool:
    """Return whether tasks of that kernel may ask for a slice: EEVDF's, whose default is a knob.

    >>> has_slices("6.1"), has_slices("6.12")
    (False, True)
    """
    return any(knob.name == "base_slice" and knob.exists for knob in table(release))


def combinations(axes: Mapping[str, Sequence[str]]) -> list[Setting]:
    """Return every combination of values, the last axis changing fastest.

    Slices and nice levels are left out for policies whose tasks have none.

    >>> [str(one) for one in combinations({"policy": ["other", "fifo:1"], "slice": ["1ms"]})]
    ['policy=other, slice=1ms', 'policy=fifo:1']
    """
    found: list[Setting] = []
    for values in product(*axes.values()):
        setting = Setting(dict(zip(axes, values, strict=True)))
        rest = {n: text for n, text in setting.values.items() if n not in setting._idle_settings}
        setting = Setting(rest)
        if setting not in found:
            found.append(setting)
    return found


def axes(pairs: Iterable[str]) -> dict[str, list[str]]:
    """Read ``name=value,value,…`` texts.

    Raises:
        InputError: a text without values, a name or a value given twice.

    >>> axes(["latency=1ms,5ms"])
    {'latency': ['1ms', '5ms']}
    """
    found: dict[str, list[str]] = {}
    for pair in pairs:
        name, _, rest = pair.partition("=")
        values = [value.strip() for value in rest.split(",")]
        if not name or not all(values):
            raise InputError(
                f"'{pair}' has no name or an empty value: write name=value,value, as in "
                "latency=1ms,5ms"
            )
        if name in found:
            raise InputError(f"'{name}' is set twice: write its values in one, with commas")
        if len(set(values)) < len(values):
            raise InputError(f"'{pair}' has a value twice")
        found[name] = values
    return found


def _nice(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InputError(f"nice={text}; allowed: -20 to 19") from None
