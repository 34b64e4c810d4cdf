"""Rules of kernels: listed, compared, and switched in simulations."""

import json
from pathlib import Path
from typing import Any

import pytest

from schedlab.boundary.errors import InputError
from schedlab.cli.main import invoke
from schedlab.model import Machine, Scheduler, Workload
from schedlab.targets.sim import simulate

Capture = pytest.CaptureFixture[str]
SIMULATED = ["--costs", "ideal", "--cpus", "1"]


def _json(words: list[str], capsys: Capture) -> Any:
    assert invoke([*words, "--json"]) == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


def test_the_rules_of_a_release_are_listed_with_their_commits(capsys: Capture) -> None:
    found = _json(["kernels", "rules", "6.12"], capsys)
    rows = {row["name"]: row for row in found["rules"]}
    # Documentation/scheduler/sched-eevdf.rst: EEVDF came with 6.6, by 147f3efaa241.
    assert rows["eevdf"]["on"]
    assert rows["eevdf"]["since"] == "6.6"
    assert rows["eevdf"]["commit"]["hash"] == "147f3efaa241"
    assert not rows["wakeup_preempt_entity"]["on"]
    assert rows["yield_forfeits"]["backports"] == ["6.12.63", "6.18.2"]
    assert invoke(["kernels", "rules", "6.12"]) == 0
    said = capsys.readouterr().out
    assert "147f3efaa241 sched/fair: Implement an EEVDF-like scheduling policy" in said
    assert "wakeup_preempt_entity" not in said
    assert invoke(["kernels", "rules", "6.12", "--all"]) == 0
    assert "wakeup_preempt_entity (off)" in capsys.readouterr().out


def test_two_releases_differ_by_what_came_in_between(capsys: Capture) -> None:
    changed = _json(["kernels", "diff", "6.12.62", "6.12.63"], capsys)["changed"]
    assert [(row["name"], row["on"]) for row in changed] == [("yield_forfeits", True)]
    back = _json(["kernels", "diff", "6.12.63", "6.12.62"], capsys)["changed"]
    assert [(row["name"], row["on"]) for row in back] == [("yield_forfeits", False)]
    assert invoke(["kernels", "diff", "6.1", "6.1"]) == 0
    assert "have the same rules" in capsys.readouterr().out
    assert invoke(["kernels", "diff", "6.1", "6.8"]) == 2


def test_a_simulation_with_switched_rules_is_labelled_hybrid(
    capsys: Capture, tmp_path: Path
) -> None:
    line = ["run", "hogs:tasks=2,time=20ms", "--kernel", "6.12", *SIMULATED]
    switched = [*line, "--rule", "yield_forfeits=off"]
    outcome = _json(switched, capsys)
    outcome = outcome.get("outcome", outcome)
    assert outcome["release"] == "6.12.95, hybrid: yield_forfeits=off"
    assert any("hybrid" in note for note in outcome["notes"])
    assert invoke(switched) == 0
    assert "6.12.95, hybrid: yield_forfeits=off" in capsys.readouterr().out
    # A kernel's own rule switched to what it is makes no hybrid.
    assert invoke([*line, "--rule", "yield_forfeits=on"]) == 0
    assert "hybrid" not in capsys.readouterr().out
    store = ["--store", str(tmp_path / "runs.db")]
    compared = ["compare", "pipe:loops=20", "--policy", "other,fifo", "--kernel", "6.12"]
    assert invoke([*compared, *SIMULATED, *store, "--rule", "yield_forfeits=off"]) == 0
    told = capsys.readouterr()
    assert "hybrid" in told.out + told.err
    # The experiment, in every form that it can be written in.
    kept = _json(["report", "--list", *store], capsys)
    identity = (kept if isinstance(kept, list) else kept["experiments"])[0]["id"]
    for form in ("md", "html", "csv", "json"):
        file = tmp_path / f"told.{form}"
        assert invoke(["report", identity, *store, "--output", str(file)]) == 0
        assert (
            "hybrid: yield_forfeits=off" in file.read_text() or "hybrid that no" in file.read_text()
        )
    capsys.readouterr()


@pytest.mark.parametrize("name", ["run.pftrace"])
def test_the_events_of_switched_rules_are_labelled_hybrid(name: str, tmp_path: Path) -> None:
    line = ["run", "hogs:tasks=2,time=20ms", "--kernel", "6.12", *SIMULATED]
    file = tmp_path / name
    assert invoke([*line, "--rule", "yield_forfeits=off", "--trace", str(file)]) == 0
    assert b"6.12.95, hybrid: yield_forfeits=off" in file.read_bytes()


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("yield_forfeits", "allowed: NAME=on or NAME=off"),
        ("yield_forfeits=1", "allowed: NAME=on or NAME=off"),
        ("no_such=on", "there is no such rule"),
        ("wide_weights=off", "fact of a kernel"),
        ("alt_period=on", "add eevdf=off"),
    ],
)
def test_what_cannot_be_switched_is_refused_in_a_line(
    rule: str, said: str, capsys: Capture
) -> None:
    line = ["run", "pipe:loops=2", "--kernel", "6.12", *SIMULATED, "--rule", rule]
    assert invoke(line) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_rules_are_the_simulators_alone(capsys: Capture) -> None:
    for words in (["run", "pipe", "--on", "host"], ["compare", "pipe", "--on", "host"]):
        assert invoke([*words, "--rule", "eevdf=off"]) == 2
        assert "--rule means nothing" in capsys.readouterr().err


def test_a_structure_brings_its_knobs() -> None:
    # 6.12 as CFS has CFS's knobs, 6.1's, and its slices are none of the task's.
    cfs = Scheduler("6.12", rules={"eevdf": False}, latency="20ms")
    assert not cfs.has_slices
    assert cfs.knobs_release == "6.1.192"
    with pytest.raises(InputError, match="base_slice"):
        Scheduler("6.12", rules={"eevdf": False}, base_slice="3ms")
    eevdf = Scheduler("6.1", rules={"eevdf": True}, base_slice="3ms")
    assert eevdf.has_slices
    assert str(eevdf) == "6.1.192, hybrid: eevdf=on, 250 Hz, base_slice=3ms"


def test_a_switched_rule_acts() -> None:
    # Three hogs on a CPU. Under CFS with a latency of 6 ms and 250 Hz a tick ends a slice of 2 ms
    # at 4 ms; under EEVDF with a slice of 20 ms none ends before 20 ms: fewer switches.
    hogs = Workload.parse("hogs:tasks=3,time=200ms")
    machine = Machine(1, "ideal")

    def switches(rules: dict[str, bool], **knobs: object) -> int:
        scheduler = Scheduler("6.12", rules=rules, knobs=knobs)
        return simulate(hogs, scheduler=scheduler, machine=machine).switches

    own = switches({}, base_slice="20ms")
    cfs = switches({"eevdf": False}, latency="6ms")
    assert cfs > 2 * own
