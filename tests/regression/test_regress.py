"""Which rule change makes a difference, where that is known beforehand."""

import json
import math
from typing import Any

import pytest

from schedlab import Machine, Workload, _core
from schedlab.attribution.remedies import RunLengths
from schedlab.boundary.errors import InputError
from schedlab.cli.main import invoke
from schedlab.regression.changes import Span, feasible
from schedlab.regression.regress import metric_of, regress

SPELL = {"uniform": {"low": "1ms", "high": "3ms"}}
HALF = {
    "duration": "2s",
    "tasks": [
        {"name": "hog", "steps": [{"forever": [{"run": {"fixed": "1s"}}]}]},
        {"name": "half", "steps": [{"forever": [{"run": SPELL}, {"sleep": SPELL}]}]},
    ],
}
"""A task that would sleep half the time beside a CPU-bound one, out of step with the ticks."""


def test_the_end_of_sleeper_credit_is_eevdfs() -> None:
    """CFS lets the task run as it wakes, half the time: its credit of 3 ms is what it runs at most.

    EEVDF keeps no credit: awake for 4 ms of 6 it shares those evenly, a third of the time and 2/3
    of what it had. It is stopped at a tick alone, 1 ms, which lets it have a little more.
    """
    found = regress(
        _workload(HALF),
        old="6.1",
        new="6.12",
        machine=Machine(1, "ideal"),
        metric="run:half",
        hz=1000,
        runs=2,
    )
    assert found.total.value == pytest.approx(2 / 3, rel=0.15)
    assert found.contributions[0].change.name == "eevdf"


def test_a_knob_holds_under_both_kernels_and_is_no_change() -> None:
    """Without RUN_TO_PARITY a task keeps its CPU for its slice up to 6.16, then for 0.7 ms at most.

    Ticks are 1 ms apart, and a slice of 2.8 ms ends with the third: each of two tasks waits for 3
    ticks, and then for one. That is the bound on how long protection lasts.
    """
    found = regress(
        "hogs:tasks=2,time=100ms",
        old="6.12",
        new="6.18",
        machine=Machine(1, "ideal"),
        metric="p50:hog",
        hz=1000,
        runs=2,
        knobs={"base_slice": "2.8ms", "feature.RUN_TO_PARITY": "0"},
    )
    assert (found.before, found.after) == (3e6, 1e6)
    assert found.contributions[0].change.name == "protects_for_time"
    span = Span("6.12", "6.18", knobs={"base_slice": "2ms"})
    for scheduler in (span.old, span.new, span.with_changes(["protects_for_time"])):
        assert scheduler.knobs["base_slice"] == "2ms"
    assert "base_slice" not in {change.name for change in span.changes}


def _workload(parts: dict[str, Any]) -> Workload:
    tasks = [{"instances": 1, "kind": "process", **task} for task in parts["tasks"]]
    rest: dict[str, Any] = {"name": "half", "channels": {}, "latches": [], "turnaround_from": None}
    _, text = _core.check_workload(json.dumps({**rest, **parts, "tasks": tasks}))
    return Workload("half", text)


def test_the_parts_make_up_the_whole() -> None:
    found = regress(
        "schbench:duration=50ms",
        old="6.1",
        new="6.12",
        machine=Machine(2, "reference"),
        metric="p99:worker",
        runs=2,
    )
    product = math.prod(one.ratio.value for one in found.contributions) * found.rest.value
    assert product == pytest.approx(found.total.value)


@pytest.mark.parametrize("span", [("5.10", "6.1"), ("6.1", "6.12"), ("6.12", "7.2")])
def test_all_changes_make_the_new_kernel_but_for_its_facts(span: tuple[str, str]) -> None:
    """Every change is switched, and then only facts differ: the same rules but for those."""
    found = Span(*span)
    names = [change.name for change in found.changes]
    made, wanted = found.with_changes(names).resolved, found.new.resolved
    differs = {name for name in made if made[name] != wanted[name]}
    assert differs == set(found.facts)
    assert found.with_changes([]).resolved == found.old.resolved


def test_only_orders_that_a_kernel_allows_are_averaged_over() -> None:
    sets = feasible(Span("6.1", "6.12"), ["eevdf", "yield_forfeits"])
    assert set(sets) == {
        frozenset(),
        frozenset({"eevdf"}),
        frozenset({"eevdf", "yield_forfeits"}),
    }


def test_metrics_are_named() -> None:
    run = RunLengths(5, 7, {"worker": {"percentile_ns": 3, "wait_ns": 2, "run_ns": 1}})
    texts = ("turnaround", "switches", "p99:worker", "wait:worker", "run:worker")
    assert [metric_of(text)[0](run) for text in texts] == [5, 7, 3, 2, 1]
    with pytest.raises(InputError, match=r"metric 'latency'; allowed: p99:NAME"):
        metric_of("latency")
    with pytest.raises(InputError, match=r"no task 'other'; allowed: worker"):
        metric_of("p99:other")[0](run)


def test_the_command_answers_first(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["regress", "hogs:tasks=2,time=20ms", "--from", "6.1", "--to", "6.12", "--cpus", "1"]
    words += ["--costs", "ideal", "--runs", "2"]
    assert invoke(words) == 0
    assert capsys.readouterr().out.startswith("turnaround is 40.00 ms on 6.1.192 and 40.00 ms on ")
    assert invoke([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["total"]["value"] == 1
    assert invoke([*words, "--metric", "latency"]) == 2
