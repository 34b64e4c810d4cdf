"""What a tuning is to improve, and what it must keep.

An aim is a metric of all workloads, or of one: ``p99``, or ``p99 of schbench``. What it is worth is
the geometric mean of its workloads' ratios to the present setting, those of metrics of which higher
is better turned round: below 1 is better. A floor is a metric whose change must not be worse than a
limit, for each workload: ``throughput>=-2%``.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any

import numpy as np

from schedlab.boundary.errors import InputError
from schedlab.experiment.plan import Asked, first_decides
from schedlab.experiment.subjects import Metric, Subject, default_metrics
from schedlab.search.space import FloatArray

Subjects = Sequence[tuple[str, Subject]]

_OF = " of "

_ROUNDING = 1e-12
"""What a logarithm may be beyond a limit by rounding."""

_FLOOR = re.compile(r"\s*(?P<what>.+?)\s*(?P<sign>>=|<=)\s*(?P<percent>[+-]?\d+(?:\.\d+)?)\s*%\s*")


@dataclass(frozen=True, slots=True)
class Part:
    """A metric of one workload.

    Attributes:
        workload: its name.
        metric: the metric.
    """

    workload: str
    metric: Metric

    def __str__(self) -> str:
        return f"{self.metric.name}{_OF}{self.workload}"


@dataclass(frozen=True, slots=True)
class Aim:
    """Something to improve.

    Attributes:
        name: as it was written.
        parts: a metric a workload.
    """

    name: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Floor:
    """A metric of a workload that must not become worse than a limit.

    Attributes:
        part: the metric.
        limit: the worst ratio to the present setting that is allowed, above 0.
    """

    part: Part
    limit: float

    def __str__(self) -> str:
        sign = "<=" if self.part.metric.better == "lower" else ">="
        return f"{self.part}{sign}{100 * (self.limit - 1):+.6g}%"


@dataclass(frozen=True, slots=True)
class Aims:
    """All that a tuning is judged by.

    Attributes:
        aims: what is to be improved; at least one.
        floors: what must be kept.
        parts: every metric of every workload, those of the aims first.
    """

    aims: tuple[Aim, ...]
    floors: tuple[Floor, ...] = ()
    parts: tuple[Part, ...] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        of_aims = [part for aim in self.aims for part in aim.parts]
        parts = tuple(dict.fromkeys([*of_aims, *(floor.part for floor in self.floors)]))
        object.__setattr__(self, "parts", parts)

    def metrics_of(self, workload: str) -> tuple[Metric, ...]:
        """Return the metrics of a workload."""
        return tuple(part.metric for part in self.parts if part.workload == workload)

    def means(self, logs: FloatArray) -> FloatArray:
        """Return the logarithm of what each aim is worth.

        Args:
            logs: of each part, the logarithm of its ratio, turned round where higher is better.
        """
        known = dict(zip(self.parts, logs.tolist(), strict=True))
        return np.array([fmean(known[part] for part in aim.parts) for aim in self.aims])

    def excesses(self, logs: FloatArray) -> FloatArray:
        """Return by how much each floor's metric is beyond its limit, as a logarithm.

        Args:
            logs: as for `means`.
        """
        known = dict(zip(self.parts, logs.tolist(), strict=True))
        beyond = [known[one.part] - abs(math.log(one.limit)) - _ROUNDING for one in self.floors]
        return np.array(beyond, dtype=np.float64)

    def kept(self, logs: FloatArray) -> bool:
        """Return whether no floor's metric is beyond its limit."""
        return bool((self.excesses(logs) <= 0).all())

    def asked(self, subjects: Subjects, *, named: bool) -> dict[str, tuple[Asked, ...]]:
        """Return what fresh runs are asked of each workload.

        Args:
            subjects: what is run.
            named: whether the aims were named. Where they were not, each workload is asked for its
                usual metrics, of which the first decides.
        """
        found = {}
        for name, subject in subjects:
            usual = () if named else first_decides(default_metrics(subject))
            asked = {one.metric: one for one in usual}
            asked |= {one: Asked(one) for one in self.metrics_of(name)}
            limits = {
                one.part.metric: one.limit for one in self.floors if one.part.workload == name
            }
            found[name] = tuple(
                Asked(one.metric, one.decides, limits.get(one.metric)) for one in asked.values()
            )
        return found

    def as_data(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "aims": [
                {"name": aim.name, "parts": [asdict(part) for part in aim.parts]}
                for aim in self.aims
            ],
            "keep": [asdict(floor.part) | {"limit": floor.limit} for floor in self.floors],
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> "Aims":
        """Return what `as_data` returned."""

        def part(one: Mapping[str, Any]) -> Part:
            return Part(one["workload"], Metric(**one["metric"]))

        return cls(
            tuple(Aim(one["name"], tuple(map(part, one["parts"]))) for one in data["aims"]),
            tuple(Floor(part(one), one["limit"]) for one in data["keep"]),
        )


def parse_aims(subjects: Subjects, metrics: Sequence[str] = (), keep: Sequence[str] = ()) -> Aims:
    """Return what a tuning is judged by.

    Args:
        subjects: what is run, each with a name.
        metrics: an aim each: ``METRIC``, or ``METRIC of WORKLOAD``. Without any there is one, the
            first metric of every workload.
        keep: a floor each: such as ``throughput>=-2%`` or ``p99 of schbench<=+5%``.

    Raises:
        InputError: nothing to run, an unknown or repeated metric, a workload without an aim, or a
            floor that is none.

    >>> from schedlab.programs import subject
    >>> found = parse_aims([("schbench", subject("schbench"))], ["p99"], ["throughput>=-2%"])
    >>> found.aims[0].name, str(found.floors[0])
    ('p99', 'throughput of schbench>=-2%')
    """
    _check(subjects)
    if metrics:
        found = tuple(Aim(text, _parts(text, subjects)) for text in metrics)
    else:
        first = tuple(Part(name, subject.metrics[0]) for name, subject in subjects)
        found = (Aim(" and ".join(dict.fromkeys(one.metric.name for one in first)), first),)
    _once((part for aim in found for part in aim.parts), "metric")
    without = {name for name, _ in subjects} - {
        part.workload for aim in found for part in aim.parts
    }
    if without:
        raise InputError(
            f"'{min(without)}' has no aim: name one, as in --metric 'METRIC of {min(without)}'"
        )
    floors = tuple(floor for text in keep for floor in _floors(text, subjects))
    _once((floor.part for floor in floors), "--keep:")
    return Aims(found, floors)


def _check(subjects: Subjects) -> None:
    if not subjects:
        raise InputError("there is nothing to run: name a workload, a program or a command")
    names = [name for name, _ in subjects]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"workload '{twice}' is there twice")


def _once(parts: Iterable[Part], what: str) -> None:
    seen: set[Part] = set()
    for part in parts:
        if part in seen:
            raise InputError(f"{what} {part} is given twice: leave one out")
        seen.add(part)


def _parts(text: str, subjects: Subjects) -> tuple[Part, ...]:
    """Return the metrics that ``METRIC`` or ``METRIC of WORKLOAD`` names."""
    for name, subject in subjects:
        if text.endswith(_OF + name):
            return (Part(name, _metric(text.removesuffix(_OF + name).strip(), name, subject)),)
    return tuple(Part(name, _metric(text.strip(), name, subject)) for name, subject in subjects)


def _metric(wanted: str, name: str, subject: Subject) -> Metric:
    known = {one.name: one for one in subject.metrics}
    if wanted not in known:
        raise InputError(f"'{name}' has no metric '{wanted}'; known: {', '.join(known)}")
    return known[wanted]


def split_floor(text: str) -> tuple[str, str, str]:
    """Return a floor's metric, its sign and its limit.

    Raises:
        InputError: it is no floor.

    >>> split_floor("throughput >= -2%")
    ('throughput', '>=', '-2%')
    """
    read = _FLOOR.fullmatch(text)
    if read is None:
        raise InputError(
            f"--keep is '{text}'; allowed: METRIC>=-N% or METRIC<=+N%, as in 'throughput>=-2%'"
        )
    return read["what"], read["sign"], f"{read['percent']}%"


def _floors(text: str, subjects: Subjects) -> list[Floor]:
    what, sign, limit = split_floor(text)
    change = float(limit.removesuffix("%")) / 100
    found = []
    for part in _parts(what, subjects):
        right = "<=" if part.metric.better == "lower" else ">="
        if sign != right:
            raise InputError(
                f"--keep '{text}' contradicts that {part.metric.better} values of "
                f"{part.metric.name} are better: write {part.metric.name}{right}…"
            )
        if (change < 0 if right == "<=" else change > 0) or change <= -1:
            span = "0% or more" if right == "<=" else "above -100%, up to 0%"
            raise InputError(
                f"--keep '{text}': the present setting does not keep that; allowed: {span}"
            )
        found.append(Floor(part, 1 + change))
    return found
