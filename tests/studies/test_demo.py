"""The demo, in its quick size: all five parts, and a summary with the keys it promises."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as perfetto

SCHEDLAB = Path(sys.executable).with_name("schedlab")
SEARCHES = ("pso_optimized", "pso_default", "golden_section_1", "golden_section_2")


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    directory = tmp_path_factory.mktemp("out") / "demo"
    done = subprocess.run(
        [SCHEDLAB, "demo", "--quick", "--output", directory],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return directory, done.stdout


@pytest.fixture(scope="module")
def summary(demo: tuple[Path, str]) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((demo[0] / "summary.json").read_text())
    return value


def test_it_tells_all_five_parts(demo: tuple[Path, str]) -> None:
    _, out = demo
    starts = [out.index(f"\n{number}. ") for number in range(1, 6)]
    assert starts == sorted(starts)


def test_it_writes_three_files_and_nothing_else(demo: tuple[Path, str]) -> None:
    directory, _ = demo
    names = {file.name for file in directory.iterdir()}
    assert names == {"report.html", "hackbench.pftrace", "summary.json"}


def test_the_validation_was_really_measured(summary: dict[str, Any]) -> None:
    validation = summary["validation"]
    assert 0 <= validation["r_squared"] <= 1
    assert validation["median_absolute_error"] >= 0
    assert [point["messages"] for point in validation["points"]] == [1, 2, 5, 10]
    for point in validation["points"]:
        assert point["simulated_ns"] > 0
        assert len(point["runs_ns"]) == validation["repeats"] == 2
        # No two real runs take the same nanoseconds.
        assert len(set(point["runs_ns"])) == 2
        assert min(point["runs_ns"]) <= point["measured_ns"] <= max(point["runs_ns"])
    # More messages take longer, simulated at least. From one to two that is 2,000 writes and
    # reads, some 3 ms on two CPUs; as much is lost where tasks end such that one CPU idles sooner.
    one, two, five, ten = (point["simulated_ns"] for point in validation["points"])
    assert max(one, two) < five < ten


def test_the_tuning_has_medians_over_seeds(summary: dict[str, Any]) -> None:
    tuning = summary["tuning"]
    assert (tuning["release"], tuning["cpus"], tuning["hz"]) == ("2.6.24", 1, 1000)
    assert tuning["costs"] == "linsched"
    for name in SEARCHES:
        found = tuning[name]
        assert found["minimum_turnaround_ns"] > 0
        assert 1 <= found["executions_to_minimum"] <= found["executions"] <= 620
        assert found["executions_to_golden_minimum"] >= 1
        # Every callback takes a jiffy: nothing takes a part of one.
        assert found["minimum_turnaround_ns"] % 1_000_000 == 0
    assert len(tuning["pso_optimized"]["distribution"]["minimum_jiffies"]) == 5
    assert {sweep["knob"] for sweep in tuning["sweeps"]} == {
        "latency",
        "min_granularity",
        "wakeup_granularity",
    }


def test_the_winner_was_really_verified(summary: dict[str, Any]) -> None:
    verified = summary["verified"]
    low, high = verified["interval"]
    assert low <= verified["effect"] <= high
    assert verified["verdict"] in ("better", "worse", "same", "inconclusive")
    assert verified["repeats"] == 6
    assert verified["baseline"] == "other"
    assert verified["setting"] != "other"
    assert len(set(verified["baseline_runs_ns"])) == len(set(verified["setting_runs_ns"])) == 6
    # The candidates are in order, and the setting is the first that is not the default.
    simulated = [one["simulated_ns"] for one in verified["candidates"]]
    assert simulated == sorted(simulated)
    others = [one["setting"] for one in verified["candidates"] if one["setting"] != "other"]
    assert verified["setting"] == others[0]


def test_the_trace_shows_all_tasks(demo: tuple[Path, str], summary: dict[str, Any]) -> None:
    trace = perfetto.Trace()
    trace.ParseFromString((demo[0] / "hackbench.pftrace").read_bytes())
    pids = {
        event.sched_switch.next_pid
        for packet in trace.packet
        for event in packet.ftrace_events.event
        if event.HasField("sched_switch") and event.sched_switch.next_pid
    }
    # What else ran on this machine, where calibration could watch it, stands in one process, with
    # RCU's thread where that was measured.
    [tree] = [packet.process_tree for packet in trace.packet if packet.HasField("process_tree")]
    apart = {process.pid for process in tree.processes if process.cmdline[0] == "background"}
    beside = [thread for thread in tree.threads if thread.tgid in apart]
    others = {thread.tid for thread in beside}
    watched = summary["calibration"]["background"]
    frees = summary["calibration"]["costs_ns"]["grace_period"] > 0
    # A kworker's timers that wait while its CPU idles are a thread of their own.
    shown = {thread.name.partition(":")[0] for thread in beside}
    known = {task["name"].partition(":")[0] for task in (watched or {"tasks": []})["tasks"]}
    assert len(shown) == len(known) + frees
    assert len(pids - others) == 201
    cpus = {p.ftrace_events.cpu for p in trace.packet if p.HasField("ftrace_events")}
    assert cpus == set(range(summary["machine"]["facts"]["cpus"]))
