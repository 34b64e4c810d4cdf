"""Ctrl-C between any two steps of the store: what was stored is whole, and it can be written to."""

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from schedlab.store import Store


def _add(store: Store, experiment: str, block: int) -> None:
    store.add(
        experiment, "a", block, 0, seed=1, begun="", seconds=0.0, definition={}, facts={},
        outcome={}, values={"time": 1.0},
    )  # fmt: skip


def test_an_interrupt_between_any_two_lines_leaves_a_whole_store(tmp_path: Path) -> None:
    with Store(tmp_path / "runs.db") as store:
        experiment = store.begin("compare", "t", {}, [])
        step, block, stored = 0, 0, 0
        while True:
            step += 1
            finished = _interrupted(step, lambda: _add(store, experiment, block))  # noqa: B023
            store.finish(experiment, "interrupted")
            values = store.values(experiment)
            # A run is there with its value, or not at all.
            assert all(one == {"time": 1.0} for one in values.values())
            assert len(values) - stored in (0, 1)
            stored = len(values)
            if ("a", block) in values:
                block += 1
            if finished:
                break
        assert step > 20


def _interrupted(step: int, call: Any) -> bool:
    """Raise KeyboardInterrupt before the given line of the store's code; say if it had fewer."""
    lines = 0

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        del arg
        nonlocal lines
        if "schedlab/store/" not in frame.f_code.co_filename:
            return None
        if event == "line":
            lines += 1
            if lines == step:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return False
    finally:
        sys.settrace(before)
    return True


def test_what_an_interrupt_left_open_is_undone(tmp_path: Path) -> None:
    with Store(tmp_path / "runs.db") as store:
        experiment = store.begin("compare", "t", {}, [])
        store._connection.execute("BEGIN IMMEDIATE")
        _add(store, experiment, 0)
        assert list(store.values(experiment)) == [("a", 0)]


@pytest.mark.parametrize("state", ["interrupted", "failed"])
def test_an_ended_experiment_is_gone_on_with(state: str, tmp_path: Path) -> None:
    with Store(tmp_path / "runs.db") as store:
        experiment = store.begin("compare", "t", {"seed": 1}, [])
        _add(store, experiment, 0)
        store.finish(experiment, state)
        assert store.begin("compare", "t", {"seed": 1}, []) == experiment
        assert store.experiment(experiment).state == "running"
