"""Real runs of studies: kept, tried again, continued; and the time that is left."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from schedlab.boundary.errors import RunError
from schedlab.experiment.execution import Cell
from schedlab.experiment.settings import Setting
from schedlab.experiment.subjects import Measured, Metric
from schedlab.model import Workload
from schedlab.report.study_progress import telling
from schedlab.store import Store
from schedlab.studies.measurement import Measuring
from schedlab.targets.target import Host


@dataclass(frozen=True, slots=True)
class Counted:
    """A subject that counts its runs, and fails at some of them."""

    name: str = "counted"
    metrics: tuple[Metric, ...] = (Metric("number", "", "lower"),)
    fails: frozenset[int] = frozenset()
    runs: list[int] = field(default_factory=list)

    def definition(self) -> Mapping[str, Any]:
        return {"counted": self.name}

    def measure(self, *_: Any, **__: Any) -> Measured:
        self.runs.append(len(self.runs))
        if self.runs[-1] in self.fails:
            raise RunError("a bad moment")
        return Measured({"number": float(self.runs[-1])}, {})


def _measured(
    file: Path, subject: Counted, blocks: int, arms: int = 1
) -> tuple[dict[str, list[float]], list[str]]:
    with Store(file) as store:
        measuring = Measuring(store, {"host": Host()})
        named = {f"arm {number}": (subject, Setting({})) for number in range(arms)}
        found = measuring("a title", named, "host", blocks=blocks)
        values = {name: [one["number"] for one in runs] for name, runs in found.items()}
        return values, measuring.refusals


def test_more_blocks_go_on_from_those_there_are(tmp_path: Path) -> None:
    subject = Counted()
    assert _measured(tmp_path / "runs.db", subject, 2)[0] == {"arm 0": [0.0, 1.0]}
    # Two are known; only the third and fourth are run.
    assert _measured(tmp_path / "runs.db", subject, 4)[0] == {"arm 0": [0.0, 1.0, 2.0, 3.0]}
    # Fewer are those that came first.
    assert _measured(tmp_path / "runs.db", subject, 3)[0] == {"arm 0": [0.0, 1.0, 2.0]}
    assert len(subject.runs) == 4


def _computing(work: Mapping[str, str]) -> dict[str, Any]:
    return {"name": "a", "tasks": [{"name": "a", "instances": 1, "steps": [{"run": work}]}]}


@dataclass(frozen=True, slots=True)
class Stored(Counted):
    """One that is described as an earlier schedlab described it, or as this one does."""

    described: str = ""

    def definition(self) -> Mapping[str, Any]:
        return {"workload": "a", "json": self.described}


def test_runs_that_an_earlier_version_stored_are_found(tmp_path: Path) -> None:
    # It wrote the workload without what is written by now where nothing is said of it, and the
    # number of blocks into the plan.
    file, work = tmp_path / "runs.db", _computing({"fixed": "1ms"})
    old = Stored(described=json.dumps(work))
    new = Stored(described=Workload.from_dict(work).json)
    assert old.described != new.described
    with Store(file) as store:
        cell = Cell("counted on host", old, Setting({}), Host())
        plan = {"cells": [{"name": "arm 0"} | cell.definition()], "seed": 1, "blocks": 2}
        experiment = store.begin("study", "a title", plan, [])
        for block in range(2):
            once = cell.once(seed=1 + block, timeout=1)
            store.add_all(experiment, [cell.made(once, arm="arm 0", block=block)])
    assert _measured(file, new, 3)[0] == {"arm 0": [0.0, 1.0, 0.0]}
    assert len(new.runs) == 1
    # Another workload is another plan, whose runs are its own.
    other = Stored(described=Workload.from_dict(_computing({"fixed": "2ms"})).json)
    assert _measured(file, other, 2)[0] == {"arm 0": [0.0, 1.0]}


def test_a_run_that_fails_is_tried_again_and_told_of(tmp_path: Path) -> None:
    values, told = _measured(tmp_path / "runs.db", Counted(fails=frozenset({1})), 3)
    # Of runs 0 to 3 the second failed: its block has the third.
    assert values == {"arm 0": [0.0, 2.0, 3.0]}
    assert told == ["host, a title: failed at first and run again: arm 0 (block 1)"]


def test_what_fails_each_time_ends_the_series_and_keeps_what_there_is(tmp_path: Path) -> None:
    broken = Counted(fails=frozenset(range(1, 4)))
    with pytest.raises(RunError, match="a bad moment"):
        _measured(tmp_path / "runs.db", broken, 2)
    # Three tries of the second block are over; the next one goes on there.
    assert _measured(tmp_path / "runs.db", broken, 2)[0] == {"arm 0": [0.0, 4.0]}


def test_an_arm_that_is_refused_at_once_is_left_out(tmp_path: Path) -> None:
    # The first arm to run fails three times, the other never.
    values, told = _measured(tmp_path / "runs.db", Counted(fails=frozenset(range(3))), 2, arms=2)
    assert len(values) == 1
    assert [len(runs) for runs in values.values()] == [2]
    assert told[0].startswith("host could not run a title, arm ")


def test_what_is_refused_in_several_series_is_told_once(tmp_path: Path) -> None:
    # Of three tries of each arm in each series the first arm's all fail.
    subject = Counted(fails=frozenset({0, 1, 2, 4, 5, 6}))
    with Store(tmp_path / "runs.db") as store:
        measuring = Measuring(store, {"host": Host()})
        arms = {f"arm {number}": (subject, Setting({})) for number in range(2)}
        for title in ("one", "two"):
            measuring(title, arms, "host", blocks=1)
    assert len(measuring.refusals) == 1
    assert measuring.refusals[0].startswith("host could not run one, two, arm ")


def test_progress_is_told_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with telling(every=0) as tell:
        tell("a series on host", 0, 4)
        tell("a series on host", 1, 4)
    said = capsys.readouterr().err
    assert "a series on host: 0 of 4" in said
    assert "a series on host: 1 of 4" in said
    with telling() as tell:
        tell("a series on host", 0, 4)
    # Not before half a minute is over.
    assert capsys.readouterr().err == ""
