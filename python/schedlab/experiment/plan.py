"""What an experiment is to run and to ask: arms, metrics, settings, places, how it is judged."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from schedlab.boundary.errors import InputError
from schedlab.experiment.execution import Cell
from schedlab.experiment.group_sequential import Protocol
from schedlab.experiment.settings import Setting
from schedlab.experiment.subjects import Metric, Subject, default_metrics
from schedlab.model import check_seed
from schedlab.targets.target import Target, place_label

Kind = Literal["compare", "sweep", "verify"]
"""Settings against the first; values against the present one; a certified setting once more."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of a metric.

    Attributes:
        metric: the metric.
        decides: whether runs go on until it is answered.
        limit: the worst ratio to the baseline that is allowed; None where none is set.
    """

    metric: Metric
    decides: bool = True
    limit: float | None = None

    def as_data(self, *, first: bool) -> dict[str, Any]:
        """Return it as plain data; what is usual is left out: the first metric alone decides."""
        extra: dict[str, Any] = {} if self.decides == first else {"decides": self.decides}
        return asdict(self.metric) | extra | ({} if self.limit is None else {"limit": self.limit})


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be run and asked.

    Attributes:
        kind: see `Kind`.
        cells: the arms; in each group the first is the baseline.
        metrics: by group, what is asked about, the one that decides first.
        protocol: how it is judged.
        seed: of orders and runs; block b of a simulation has seed + b.
        timeout: seconds a run may take.
        check: whether each baseline on a real target is first compared with itself.
        purpose: what else determines it, by name: what an experiment of that kind is for.
    """

    kind: Kind
    cells: tuple[Cell, ...]
    metrics: Mapping[str, tuple[Asked, ...]] = field(hash=False)
    protocol: Protocol
    seed: int = 1
    timeout: float = 60.0
    check: bool = True
    purpose: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def groups(self) -> list[str]:
        """The groups, in order."""
        return list(dict.fromkeys(cell.group for cell in self.cells))

    def members(self, group: str) -> list[Cell]:
        """Return a group's arms."""
        return [cell for cell in self.cells if cell.group == group]

    def as_data(self) -> dict[str, Any]:
        """Return what determines the experiment, as plain data."""
        return {
            "cells": [
                {"name": cell.name, "group": cell.group, "setting": cell.called} | cell.definition()
                for cell in self.cells
            ],
            "checked": [
                self.members(group)[0].name
                for group in self.groups
                if self.check and self.members(group)[0].target.real
            ],
            "metrics": {
                group: [one.as_data(first=place == 0) for place, one in enumerate(metrics)]
                for group, metrics in self.metrics.items()
            },
            "looks": list(self.protocol.looks),
            "band": self.protocol.band,
            "confidence": self.protocol.confidence,
            "seed": self.seed,
            "timeout": self.timeout,
            **self.purpose,
        }


def plan_experiment(
    kind: Kind,
    subjects: Sequence[tuple[str, Subject]],
    settings: Sequence[Setting],
    targets: Sequence[Target],
    *,
    metrics: Sequence[str] | Mapping[str, Sequence[Asked]] = (),
    protocol: Protocol | None = None,
    seed: int = 1,
    timeout: float = 60.0,
    check: bool = True,
) -> Plan:
    """Return the plan of every subject under every setting in every place.

    Args:
        kind: see `Kind`.
        subjects: what is run, each with a name for tables.
        settings: how; the first is what the others are compared with.
        targets: where.
        metrics: names of metrics, the one that decides first; or what is asked of each subject, by
            its name. Each subject's own otherwise (`default_metrics`).
        protocol: how it is judged.
        seed: of orders and runs.
        timeout: seconds a run may take.
        check: whether baselines on real targets are first compared with themselves.

    Raises:
        InputError: nothing to run or to compare, something twice, or what a target cannot do.
    """
    if not (subjects and settings and targets):
        raise InputError("there is nothing to run: a workload, a setting and a target are needed")
    check_seed(seed)
    for what, names in (
        ("workload", [name for name, _ in subjects]),
        ("target", [target.name for target in targets]),
        ("setting", [str(setting) for setting in settings]),
    ):
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise InputError(f"{what} '{twice}' is there twice")
    cells, measured = [], {}
    for target in targets:
        for setting in settings:
            setting.check(target)
        for name, subject in subjects:
            group = f"{name} on {place_label(target)}"
            measured[group] = (
                tuple(metrics[name]) if isinstance(metrics, Mapping) else chosen(subject, metrics)
            )
            cells += [Cell(group, subject, setting, target) for setting in settings]
    if kind == "compare" and len(settings) == 1:
        raise InputError(
            f"there is nothing to compare: '{settings[0]}' is the only setting; name two or more "
            "with --policy, --slice or --set"
        )
    return Plan(kind, tuple(cells), measured, protocol or Protocol(), seed, timeout, check=check)


def chosen(subject: Subject, names: Sequence[str] = ()) -> tuple[Asked, ...]:
    """Return what is asked of a subject: named metrics, the first of which decides, or its own.

    Raises:
        InputError: a metric that it has not.
    """
    if not names:
        return first_decides(default_metrics(subject))
    known = {metric.name: metric for metric in subject.metrics}
    for name in names:
        if name not in known:
            raise InputError(f"'{subject.name}' has no metric '{name}'; known: {', '.join(known)}")
    return first_decides([known[name] for name in dict.fromkeys(names)])


def first_decides(metrics: Sequence[Metric]) -> tuple[Asked, ...]:
    """Return what is asked of metrics of which the first decides."""
    return tuple(Asked(metric, decides=place == 0) for place, metric in enumerate(metrics))
