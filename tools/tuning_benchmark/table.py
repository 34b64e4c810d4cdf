"""A table of real runs: one workload at one place, every setting in every interleaved block."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np

from schedlab.boundary.errors import InputError
from schedlab.boundary.files import write_text
from schedlab.experiment.settings import Setting
from schedlab.model.direction import Better
from schedlab.search.space import FloatArray

FEWEST = 3
"""Complete blocks from which on a table says how far runs scatter."""


@dataclass(frozen=True, slots=True)
class TableRun:
    """A real run.

    Attributes:
        block: its block.
        setting: the number of its setting.
        value: of the metric.
        at: seconds from the table's beginning.
        boot: which boot of the place it was in.
    """

    block: int
    setting: int
    value: float
    at: float
    boot: str


@dataclass(slots=True)
class Table:
    """What was recorded of a workload at a place.

    Attributes:
        workload: the workload's name.
        run: its text.
        place: the place's name.
        kernel: its kernel, as it names itself.
        cpus: CPUs there.
        metric: the metric's name.
        unit: its unit.
        better: whether lower or higher values are better.
        begun: when the first run began, UTC.
        settings: the present setting, then those that are searched.
        runs: in their order.
        failures: why settings have no value, by number.
        simulated: the cost of each setting relative to the present one, a row a seed: logarithms of
            ratios, less being better; none where nothing was simulated.
        costs: with which it was simulated.
    """

    workload: str
    run: str
    place: str
    kernel: str
    cpus: int
    metric: str
    unit: str
    better: Better
    begun: str
    settings: list[Setting]
    runs: list[TableRun] = field(default_factory=list)
    failures: dict[int, str] = field(default_factory=dict)
    simulated: list[list[float]] = field(default_factory=list)
    costs: str = ""

    @property
    def name(self) -> str:
        """Place and workload."""
        return f"{self.place} {self.workload}"

    @property
    def blocks(self) -> int:
        """Complete blocks."""
        able = len(self.settings) - len(self.failures)
        counts: dict[int, int] = {}
        for run in self.runs:
            if run.setting not in self.failures:
                counts[run.block] = counts.get(run.block, 0) + 1
        return sum(count == able for count in counts.values())

    def logs(self) -> FloatArray:
        """Return the cost of each setting that could be run, a row a complete block.

        A cost is the logarithm of the value, turned round where higher is better.
        """
        able = [place for place in range(len(self.settings)) if place not in self.failures]
        sign = 1.0 if self.better == "lower" else -1.0
        values: dict[int, dict[int, float]] = {}
        for run in self.runs:
            values.setdefault(run.block, {})[run.setting] = sign * float(np.log(run.value))
        return np.array(
            [
                [of[one] for one in able]
                for _, of in sorted(values.items())
                if all(one in of for one in able)
            ]
        )

    def text(self) -> str:
        """Return the table as JSON, a line a run."""
        head = {
            name: getattr(self, name)
            for name in (
                "workload", "run", "place", "kernel", "cpus", "metric", "unit", "better", "begun",
                "costs",
            )
        }  # fmt: skip
        head["settings"] = [dict(one.values) for one in self.settings]
        head["failures"] = {str(number): why for number, why in self.failures.items()}
        head["simulated"] = [
            [round(one, 5) if np.isfinite(one) else None for one in row] for row in self.simulated
        ]
        lines = [
            json.dumps([one.block, one.setting, float(f"{one.value:.6g}"), round(one.at, 2),
                        one.boot])
            for one in self.runs
        ]  # fmt: skip
        return (
            json.dumps(head, ensure_ascii=False)[:-1]
            + ', "runs": [\n'
            + ",\n".join(lines)
            + "\n]}\n"
        )

    def write(self, directory: Path) -> None:
        """Keep it in a directory."""
        write_text(directory / file_name(self.place, self.workload), self.text())

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a table.

        Raises:
            InputError: it is none.
        """
        try:
            data: dict[str, Any] = json.loads(text)
            data["settings"] = [Setting(one) for one in data["settings"]]
            data["failures"] = {int(one): str(why) for one, why in data["failures"].items()}
            data["simulated"] = [
                [np.inf if one is None else one for one in row] for row in data["simulated"]
            ]
            data["runs"] = [TableRun(*one) for one in data["runs"]]
            return cls(**data)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InputError(f"no table of runs: {error}") from None


def file_name(place: str, workload: str) -> str:
    """Return what a table's file is called.

    >>> file_name("vm:6.1", "fio")
    'vm-6.1-fio.json'
    """
    return f"{place.replace(':', '-')}-{workload}.json"


def read_table(directory: Path, place: str, workload: str) -> Table | None:
    """Return a table that is kept in a directory; None where there is none.

    Raises:
        InputError: the file is no table.
    """
    path = directory / file_name(place, workload)
    if not path.is_file():
        return None
    try:
        return Table.parse(path.read_text(encoding="utf-8"))
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def same_settings(table: Table, settings: Sequence[Setting]) -> bool:
    """Return whether a table is about these settings."""
    return [dict(one.values) for one in table.settings] == [dict(one.values) for one in settings]
