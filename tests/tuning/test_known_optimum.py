"""Tuning a user's command whose best setting is known, on the running kernel."""

import json
import math
import sys
from pathlib import Path

import pytest

from schedlab import _core
from schedlab.cli.main import invoke
from schedlab.model import parse_time
from schedlab.targets.facts import facts

PROGRAM = [sys.executable, "-I", "-S", str(Path(__file__).parents[1] / "programs/known_optimum.py")]
Capture = pytest.CaptureFixture[str]


def _tune(line: str, kind: str, store: Path, capsys: Capture) -> dict[str, object]:
    words = ["tune", *line.split(), "--on", "host", "--store", str(store), "--json"]
    assert invoke([*words, "--", *PROGRAM, *kind.split()]) == 0, capsys.readouterr().err
    value: dict[str, object] = json.loads(capsys.readouterr().out)
    return value


def _verdicts(value: dict[str, object]) -> list[str]:
    verified = value["verified"]
    assert isinstance(verified, dict)
    return [answer["judged"]["verdict"] for answer in verified["answers"]]


@pytest.mark.skipif(
    not json.loads(_core.release(facts().kernel))["eevdf"],
    reason=f"KERNEL {facts().release} GIVES TASKS NO SLICES (6.12 on)",
)
@pytest.mark.parametrize("by", ["tpe", "rsm"])
def test_the_optimum_is_found_and_certified(by: str, tmp_path: Path, capsys: Capture) -> None:
    line = f"--by {by} --executions 30 --policy other,batch --slice 1ms..100ms"
    line += " --metric took\\s(.*)"
    value = _tune(line, "", tmp_path / "runs.db", capsys)
    best = value["best"]
    assert isinstance(best, dict)
    assert best["policy"] == "batch"
    # The slices go over 6.6 octaves, so 30 settings at random miss four of them about the best with
    # the right policy with probability (1 - 0.3)^30, 2e-5. Two octaves off it sleeps 100 ms; the
    # default, whose slice is 3 ms or less, sleeps 170 at least.
    assert abs(math.log2(parse_time(best["slice"]) / 20e6)) <= 2
    assert _verdicts(value) == ["better"]


def test_nothing_is_found_where_nothing_matters(tmp_path: Path, capsys: Capture) -> None:
    # Noise of 0.3 % a run: no setting differs by the 1 % that counts, and the comparison says so.
    line = "--by random --executions 8 --policy other,batch,idle --metric cost\\s(.*)"
    value = _tune(line, "flat", tmp_path / "runs.db", capsys)
    assert _verdicts(value) == ["same"]


def test_the_default_stays_where_it_is_best(tmp_path: Path, capsys: Capture) -> None:
    # Every other policy costs 8 where the default costs 7.
    line = "--by random --executions 6 --policy batch,idle --metric cost\\s(.*)"
    value = _tune(line, "default", tmp_path / "runs.db", capsys)
    assert value["best"] == {}
    assert value["effect"] == 1
    assert _verdicts(value) == ["worse"]
