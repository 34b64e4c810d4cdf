"""The output of the commands, as text and as JSON."""

import json
import re
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from typer.main import get_command

from schedlab import Machine, simulate
from schedlab.cli.main import app, invoke
from schedlab.report.text import describe_outcome

Capture = pytest.CaptureFixture[str]
ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "crates/replay/tests/fixtures"
RUN = "run hackbench:groups=1,fds=4,loops=2 --kernel 6.1 --cpus 2 --costs linsched"


def _run(line: str, capsys: Capture, code: int = 0) -> str:
    assert invoke(line.split()) == code, capsys.readouterr().err
    return capsys.readouterr().out


def test_run_prints_a_row_a_kind_of_task_and_the_total(capsys: Capture) -> None:
    lines = _run(RUN, capsys).splitlines()
    assert lines[0] == "hackbench:groups=1,fds=4,loops=2,datasize=100,pipe=0,threads=0"
    assert re.fullmatch(r"simulated: 6\.1\.\d+, 250 Hz; 2 CPUs, linsched costs; seed 1", lines[1])
    assert lines[3].split()[:3] == ["task", "tasks", "run"]
    rows = {line.split()[0]: line.split() for line in lines[4:8]}
    assert {name: row[1] for name, row in rows.items()} == {
        "sender": "4",
        "receiver": "4",
        "main": "1",
        "TOTAL": "9",
    }
    assert lines[9].startswith("turnaround ")
    assert "40 messages" in lines[9]  # 4 * 4 * 2, and one a worker


def test_run_all_prints_a_row_a_task(capsys: Capture) -> None:
    text = _run(f"{RUN} --all", capsys)
    assert all(f"receiver.g0.{number} " in text for number in range(4))
    assert all(f"sender.g0[{number}]" in text for number in range(4))


def test_run_json_is_the_outcome(capsys: Capture) -> None:
    value = json.loads(_run(f"{RUN} --json", capsys))
    assert value["target"] == "sim"
    assert value["messages"] == 40
    assert value["turnaround_ns"] > 0


def test_run_weighs_threads_by_their_number(tmp_path: Path, capsys: Capture) -> None:
    # A process of one thread beside one of four, 1 s each, on one CPU. CFS gives each thread a
    # fifth: A ends after 5 s. PFS gives each process a half: A ends after 2 s.
    compute = {"steps": [{"run": {"fixed": "1s"}}]}
    many = [{"fork": {"task": "B-thread", "count": 3}}, {"run": {"fixed": "1s"}}, "join"]
    workload = {
        "name": "greedy",
        "tasks": [
            {"name": "A", "instances": 1} | compute,
            {"name": "B", "instances": 1, "steps": many},
            {"name": "B-thread", "kind": "thread"} | compute,
        ],
    }
    file = tmp_path / "greedy.json"
    file.write_text(json.dumps(workload))
    lives = {}
    for weights in ("none", "pfs"):
        line = f"run {file} --kernel 6.1 --cpus 1 --costs ideal --json --weights {weights}"
        tasks = json.loads(_run(line, capsys))["tasks"]
        lives[weights] = next(task["life_ns"] for task in tasks if task["name"] == "A") / 1e9
    # Within a turn of every thread.
    assert lives["none"] == pytest.approx(5, abs=0.1)
    assert lives["pfs"] == pytest.approx(2, abs=0.1)


def test_run_acts_on_its_options(capsys: Capture) -> None:
    text = _run(
        "run sleepers:tasks=3,loops=2 --kernel 6.12 --hz 1000 --cpus 1 --costs ideal"
        " --set base_slice=3ms --policy batch --nice 5 --slice 2ms --seed 7",
        capsys,
    )
    assert "1000 Hz, base_slice=3ms; 1 CPU, ideal costs; batch, nice 5, slice 2ms; seed 7" in text


def _shares(text: str) -> dict[str, float]:
    """Return the shares of the table of groups, in percent."""
    rows = re.findall(r"^(session \S+|/\S+) +\d+ .*? (\d+\.\d)%", text, re.MULTILINE)
    return {name: float(share) for name, share in rows}


HOGS = "run hogs:tasks=10,time=500ms --kernel 6.1 --cpus 1 --costs ideal"


def test_groups_of_one_weight_get_half_each(capsys: Capture) -> None:
    # Two tasks of Alice's and eight of Bob's: by tasks 20 and 80 %, by groups 50 and 50 %.
    text = _run(f"{HOGS} --group /alice:tasks=2 --group /bob", capsys)
    assert _shares(text) == pytest.approx({"/alice": 50, "/bob": 50}, abs=1)
    assert re.search(r"^hog@alice +2 ", text, re.MULTILINE)
    assert re.search(r"^hog@bob +8 ", text, re.MULTILINE)


def test_groups_share_by_their_weights(capsys: Capture) -> None:
    # 300 to 100; within /b an idle group, of weight 3/1024, beside one of 100: all of 25 to /b/x.
    groups = "--group /a:weight=300,tasks=2 --group /b --group /b/x:tasks=4 --group /b/y:idle=1"
    expected = {"/a": 75, "/b": 25, "/b/x": 25, "/b/y": 0}
    assert _shares(_run(f"{HOGS} {groups}", capsys)) == pytest.approx(expected, abs=1)


def test_a_limited_group_gets_its_quota(capsys: Capture) -> None:
    # It is alone: 20 of each 100 ms.
    text = _run(f"{HOGS} --group /a:max=20ms/100ms", capsys)
    assert re.search(r"CPUs (19|20)\.\d% busy", text), text
    periods, throttled = map(int, re.findall(r"100.0% +(\d+) +(\d+)", text)[0])
    assert throttled <= periods <= 250  # 5 s at 20 ms of each period
    assert throttled > 240


def test_sessions_share_alike_unless_autogroup_is_off(capsys: Capture) -> None:
    line = f"{HOGS} --session tty1:tasks=2 --session tty2"
    expected = {"session tty1": 50, "session tty2": 50}
    assert _shares(_run(line, capsys)) == pytest.approx(expected, abs=1)
    assert _shares(_run(f"{line} --set autogroup=0", capsys)) == {}


def test_weights_by_threads_make_processes_share_alike(tmp_path: Path, capsys: Capture) -> None:
    # A process of one thread, and one of eight: by threads 1/9 and 8/9, under PFS half each. In
    # JSON threads from the start are one process.
    hog = {"steps": [{"run": {"fixed": "1s"}}], "taskgroup": "/all"}
    tasks = [{"name": "one", "instances": 1, **hog}]
    tasks.append({"name": "eight", "instances": 8, "kind": "thread", **hog})
    file = tmp_path / "two.json"
    file.write_text(json.dumps({"name": "two", "groups": {"/all": {}}, "tasks": tasks}))
    ends = {}
    for weights in ("none", "pfs"):
        line = f"run {file} --kernel 6.12 --cpus 1 --costs ideal --weights {weights} --json"
        tasks_of = json.loads(_run(line, capsys))["tasks"]
        ends[weights] = tasks_of[0]["life_ns"] / 1e9
    # Its second takes nine of them among nine equals, two at half of the CPU.
    assert ends["none"] == pytest.approx(9, abs=0.1)
    assert ends["pfs"] == pytest.approx(2, abs=0.1)


def test_what_a_rule_of_weights_means_on_one_cpu_is_said(capsys: Capture) -> None:
    assert invoke([*HOGS.split(), "--weights", "dw-cfs:beta=1.1"]) == 0
    captured = capsys.readouterr()
    assert "dw-cfs:beta=1.1 weights; 1 CPU" in captured.out
    assert captured.err.startswith("note: dw-cfs has no value on one CPU")
    assert invoke([*HOGS.replace("--cpus 1", "--cpus 2").split(), "--weights", "pfs"]) == 0
    assert capsys.readouterr().err == ""


def test_run_writes_the_trace_it_was_asked_for(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "run.pftrace"
    assert f"events: {file} (Perfetto)" in _run(f"{RUN} --trace {file}", capsys)
    assert file.stat().st_size > 0


def test_run_on_the_host_really_runs(capsys: Capture) -> None:
    line = "run hackbench:groups=1,fds=2,loops=2 --on host --policy batch --cpus 1"
    text = _run(line, capsys)
    assert "on this kernel: " in text
    value = json.loads(_run(f"{line} --json", capsys))
    assert value["target"] == "host"
    assert value["messages"] == 2 * 2 * 2 + 4
    # The tasks' times and switches are the kernel's own counters.
    assert {task["source"] for task in value["tasks"]} == {"counters"}
    assert sum(task["run_ns"] for task in value["tasks"]) > 0


def test_a_real_run_that_takes_too_long_fails(capsys: Capture) -> None:
    assert invoke(["run", "hogs:tasks=1,time=60s", "--on", "host", "--timeout", "200ms"]) == 1
    assert "did not end within 200ms" in capsys.readouterr().err


def test_tune_prints_best_default_and_executions(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    line = (
        "tune hackbench:groups=1,fds=4,loops=1 --knobs latency,min_granularity --kernel 2.6.24"
        f" --hz 1000 --cpus 1 --costs linsched --seeds 2 --store {tmp_path / 'runs.db'}"
    )
    text = _run(line, capsys)
    assert "pso on sim" in text
    assert "2 seeds" in text
    assert "turnaround, lower is better" in text
    assert "(baseline)" in text  # the default, over fresh seeds
    assert "over seeds: median" in text
    value = json.loads(_run(f"{line} --json", capsys))
    assert set(value["best"]) <= {"latency", "min_granularity"}
    assert value["effect"] <= 1
    assert value["stored"] == value["runs"]  # the same tuning once more runs nothing
    assert len(value["executions"]) == 2
    assert all(count <= 620 for count in value["executions"])


@pytest.mark.parametrize(
    ("more", "seconds"),
    [
        # Two hogs of 100 ms have a CPU each; on two threads of a core that slow each other to half
        # their speed they take twice as long.
        ("", 0.1),
        ("--topology smt=2 --speed smt=50%", 0.2),
        # Of one CPU that is shared evenly, both end within a tick of 200 ms; in groups of 1 and 9
        # the one of 1 ends last, at 200 ms, as nothing else is left to run.
        ("--cpus 1 --group /a:shares=1024,tasks=1 --group /b:shares=9216", 0.2),
    ],
)
def test_tune_searches_on_the_machine_that_is_described(
    more: str, seconds: float, tmp_path: Path, capsys: Capture
) -> None:
    line = "tune hogs:tasks=2,time=100ms --knobs latency --executions 2 --kernel 6.1 --costs ideal"
    cpus = "" if "--cpus" in more else "--cpus 2"
    text = _run(f"{line} {cpus} {more} --store {tmp_path / 'runs.db'} --json", capsys)
    (gain,) = json.loads(text)["gains"]
    assert (gain["metric"], gain["default"]) == ("turnaround", pytest.approx(seconds))


def test_calibrate_writes_where_runs_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    text = _run("calibrate --quick --force", capsys)
    assert "system call" in text
    assert (tmp_path / "schedlab" / "calibration.toml").is_file()
    assert "calibrated costs" in _run("run pipe --kernel 6.1", capsys)


def test_validate_compares_and_says_how_far_off(tmp_path: Path, capsys: Capture) -> None:
    costs = tmp_path / "costs.toml"
    _run(f"calibrate --quick --force --output {costs}", capsys)
    line = f"validate hackbench --messages 1,2 --repeats 1 --costs {costs}"
    text = _run(line, capsys)
    assert "median absolute error" in text
    value = json.loads(_run(f"{line} --json", capsys))["validation"]
    assert [point["messages"] for point in value["points"]] == [1, 2]
    assert all(len(point["runs_ns"]) == 1 for point in value["points"])


@pytest.mark.parametrize(("release", "said"), [("6.1", True), ("6.12", False)])
def test_a_slice_is_told_to_do_nothing_where_tasks_have_none(
    release: str, said: bool, capsys: Capture
) -> None:
    line = f"run pipe --kernel {release} --cpus 1 --costs ideal --slice 1ms"
    assert invoke(line.split()) == 0
    assert ("--slice does nothing" in capsys.readouterr().err) is said


def test_replay_finds_every_decision_equal(capsys: Capture) -> None:
    trace, snapshot = FIXTURES / "k61-hogs.txt.gz", FIXTURES / "k61-hogs.snap1"
    text = _run(f"replay {trace} --snapshot {snapshot}", capsys)
    assert "every decision and every virtual time is the kernel's" in text
    value = json.loads(_run(f"replay {trace} --snapshot {snapshot} --json", capsys))
    assert value["exact"] is True
    for decision in ("pick", "tick", "wakeup"):
        assert value["decisions"][decision]["compared"] > 0


def test_replay_says_what_keeps_a_recording_from_being_exact(capsys: Capture) -> None:
    # A task of real time that never sleeps: RCU asks it twice to make room, which no rule does.
    text = _run(f"replay {FIXTURES / 'starved-6.1.txt.gz'}", capsys, code=1)
    assert text.endswith("\n2 events that no rule explains\nresynchronised 0 times\n")
    # Of 6.12, by the rules of 7.2, which count with weights of other sizes: all differs.
    text = _run(f"replay {FIXTURES / 'k612-hogs.txt.gz'} --kernel 7.2", capsys, code=1)
    assert "\nthe first differences:\n  line " in text


def test_replay_of_tracepoints_alone_and_of_several_files(capsys: Capture) -> None:
    hogs, hackbench = FIXTURES / "k61-hogs.txt.gz", FIXTURES / "k61-hackbench.txt.gz"
    text = _run(f"replay {hackbench} {hogs} --level L0", capsys)
    assert text.count("rules of 6.1.192, level L0\n") == 2
    assert text.count("every decision and every virtual time is the kernel's") == 2
    first, second = json.loads(_run(f"replay {hackbench} {hogs} --level L0k --json", capsys))
    assert [first["level"], second["level"]] == ["L0k", "L0k"]
    # All lines but the head and the 1,499 placements, less probes of other kinds.
    assert first["records"] == 10478


def test_replay_checks_what_holds_in_every_trace(tmp_path: Path, capsys: Capture) -> None:
    recorded = FIXTURES / "groups-6.12.txt.gz"
    assert "on 1 CPU: every invariant holds" in _run(f"replay --invariants {recorded}", capsys)
    # A simulated trace of two CPUs, and the same with a wait of 2 s beside an idle CPU.
    trace = tmp_path / "run.txt"
    _run(f"{RUN} --trace {trace}", capsys)
    value = json.loads(_run(f"replay --invariants {trace} --json", capsys))
    assert value["broken"] is None
    assert value["cpus"] == 2
    late = tmp_path / "late.txt"
    late.write_text(
        "a-7 0d..2. 1.000000000: sched_switch: a:7 [120] S ==> swapper/0:0 [120]\n"
        "<idle>-0 0d..2. 2.000000000: sched_wakeup: a:7 [120] CPU:000\n"
        "<idle>-0 0d..2. 4.000000000: sched_switch: swapper/0:0 [120] R ==> a:7 [120]\n"
    )
    assert "waited 2s while the CPU idled" in _run(f"replay --invariants {late}", capsys, code=1)
    assert "every invariant holds" in _run(f"replay --invariants --bound 2s {late}", capsys)


def test_replay_under_wrong_settings_shows_the_differences(tmp_path: Path, capsys: Capture) -> None:
    snapshot = (FIXTURES / "k61-hogs.snap1").read_text()
    # Another latency than the recorded kernel had.
    wrong = re.sub(r"(sysctl_sched_latency\s*:\s*)[0-9.]+", r"\g<1>60.000000", snapshot)
    assert wrong != snapshot
    file = tmp_path / "wrong.snap"
    file.write_text(wrong)
    text = _run(f"replay {FIXTURES / 'k61-hogs.txt.gz'} --snapshot {file}", capsys, code=1)
    assert "the first differences" in text
    # What a sleeper is credited with is half the latency.
    assert "decided by update_curr, place_entity" in text
    assert "recorded  line " in text


def test_replay_writes_both_schedules(tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "schedules.pftrace"
    hogs = FIXTURES / "hogs-7.2.txt.gz"
    text = _run(f"replay {hogs} --perfetto {out}", capsys)
    assert "every decision and every virtual time is the kernel's" in text
    written = out.read_bytes()
    # The two processes of the trace: whose schedule each is.
    assert b"kernel 7.2.13" in written
    assert b"our rules of 7.2.13" in written
    _run(f"replay {hogs} {hogs} --perfetto {out}", capsys, code=2)
    _run(f"replay {hogs} --perfetto {tmp_path / 'none' / 'x'}", capsys, code=2)
    assert not (tmp_path / "none").exists()


def test_decisions_are_written_with_their_reasons(tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "why.txt"
    # docs/guides/read-decisions.md shows this run, and one line of the file.
    guide = Path("docs/guides/read-decisions.md").read_text()
    example = re.search(r"\$ schedlab (run .*)why\.txt\n\$ grep .*\n(.*)\n", guide)
    assert example is not None
    command, shown = example.groups()
    text = _run(f"{command}{out}", capsys)
    assert f"decisions and their reasons: {out}" in text
    assert shown in out.read_text().splitlines()
    _run(f"{command}{tmp_path / 'why.csv'}", capsys, code=2)
    _run(f"run pipe --on host --reasons {out}", capsys, code=2)
    hogs = FIXTURES / "hogs-6.1.txt.gz"
    _run(f"replay {hogs} --reasons {out}", capsys)
    # A sleeper comes in half a latency (6 ms) before min_vruntime; the granularity is 1 ms.
    lead = "vruntime 3 ms ahead > wakeup granularity 1 ms"
    assert f"wakeup: kcompactd0[28] preempts schedlab-native[105], {lead}\n" in out.read_text()
    _run(f"replay {hogs} {hogs} --reasons {out}", capsys, code=2)


def test_doctor_says_what_can_be_set_and_why_not(capsys: Capture) -> None:
    text = _run("doctor", capsys)
    assert "kernel " in text
    assert "policies and slices" in text
    value = json.loads(_run("doctor --json", capsys))
    assert value["sound"] is True
    assert {one["name"] for one in value["policies"]} == {
        "other",
        "batch",
        "idle",
        "fifo:1",
        "rr:1",
    }
    for one in [*value["policies"], value["slices"]]:
        assert one["allowed"] or one["why"]
    for knob in value["knobs"]:
        assert knob["settable"] or knob["why"]


def test_knobs_lists_ranges_and_scaled_defaults(capsys: Capture) -> None:
    text = _run("knobs --kernel 6.1 --cpus 4", capsys)
    row = next(line for line in text.splitlines() if line.startswith("latency "))
    # 6 ms * (1 + log2 4).
    assert row.split() == [
        "latency",
        "/sys/kernel/debug/sched/latency_ns",
        "100us",
        "to",
        "1s",
        "18ms",
    ]
    value = json.loads(_run("knobs --json", capsys))
    assert all(knob["exists"] for knob in value["knobs"])


def test_kernels_lists_the_known_series(capsys: Capture) -> None:
    rows = json.loads(_run("kernels --here --json", capsys))["known"]
    assert [row["series"] for row in rows] == [
        "2.6.24",
        "5.10",
        "6.1",
        "6.12",
        "6.18",
        "7.2",
        "7.3",
    ]
    assert "EEVDF" in _run("kernels --here", capsys)


def test_version(capsys: Capture) -> None:
    assert re.fullmatch(r"schedlab \d+\.\d+\.\d+\n", _run("--version", capsys))


def test_the_help_of_run_names_every_workload_that_there_is(capsys: Capture) -> None:
    # What is not known is refused with the names that are.
    assert invoke(["run", "nosuch"]) == 2
    known = capsys.readouterr().err.partition("known: ")[2].partition(" (")[0]
    text = " ".join(_run("run --help", capsys).split()).replace(" and ", ", ")
    assert f"Workloads: {known}, each with keys" in text


@pytest.mark.parametrize("name", sorted(get_command(app).commands))  # type: ignore[attr-defined]
def test_every_commands_help_has_an_example(name: str, capsys: Capture) -> None:
    text = _run(f"{name} --help", capsys)
    assert f"Example: schedlab {name}" in " ".join(text.split())
    assert "Exit codes: 0 done" in text
    assert "--json" in text


def test_colours_are_for_terminals_alone(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b" not in _run(RUN, capsys)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert invoke(["run", "nosuch"]) == 2
    assert "\x1b" in capsys.readouterr().err
    monkeypatch.setenv("NO_COLOR", "1")
    assert invoke(["run", "nosuch"]) == 2
    assert "\x1b[31m" not in capsys.readouterr().err.replace("\x1b[1;31m", "\x1b[31m")


def test_bench_measures_a_scenario_beside_its_goal(capsys: Capture) -> None:
    value = json.loads(_run("bench ceiling hogs-64x4 --repeats 1 --json", capsys))
    ceiling, hogs = value["scenarios"]
    # 400 tasks, each 6,000 times in a minute; hogs never block.
    assert (ceiling["name"], ceiling["pairs"], ceiling["goal_ms"]) == ("ceiling", 2_400_000, None)
    assert ceiling["pairs_per_s"] == pytest.approx(2.4e9 / ceiling["wall_ms"])
    assert (hogs["name"], hogs["pairs"], hogs["pairs_per_s"]) == ("hogs-64x4", 0, None)
    assert (hogs["goal_ms"], hogs["repeats"]) == (5, 1)
    text = _run("bench hogs-64x4 --repeats 1", capsys)
    assert re.search(r"hogs-64x4 +[0-9.]+ (us|ms|s) +[0-9.]+ (us|ms|s) ", text)


def test_bench_refuses_what_it_does_not_know(capsys: Capture) -> None:
    assert invoke(["bench", "nothing"]) == 2
    assert "there is no scenario 'nothing'; allowed: hogs-64x4, " in capsys.readouterr().err


def test_a_comparison_that_fails_says_what_is_kept(capsys: Capture, tmp_path: Path) -> None:
    # It fails the sixth and the seventh time that it runs: two runs warm up, a disturbed one is
    # repeated, and one that fails is made again once.
    count, flaky = tmp_path / "count", tmp_path / "flaky"
    fails = f'case "$(wc -l < {count})" in 6|7) exit 1;; esac'
    flaky.write_text(f"#!/bin/sh\necho >> {count}\n{fails}\n")
    flaky.chmod(0o755)
    store = ["--store", str(tmp_path / "runs.db")]
    line = ["compare", "--on", "host", "--policy", "other,batch", "--command", str(flaky), *store]
    line += ["--metric", "seconds", "--blocks", "6"]
    assert invoke(line) == 1
    said = re.search(r"(\d+) runs? (is|are) kept in (\S+): the same", capsys.readouterr().err)
    assert said is not None
    assert said[3] == f"{tmp_path}/runs.db"
    assert int(said[1]) >= 1
    # It does go on from there: those are not repeated.
    assert invoke(line) == 0
    assert f"{said[1]} runs were in the store and not run again" in capsys.readouterr().err


def test_waits_that_were_not_measured_are_no_zeros(capsys: Capture) -> None:
    # A recorded run has no delay accounting.
    outcome = simulate("hogs:tasks=2,time=20ms", scheduler="6.1", machine=Machine(1, "ideal"))
    describe_outcome(outcome)
    waited = capsys.readouterr().out.splitlines()[2].split()
    tasks = tuple(replace(task, delays=0, delay_ns=0, max_delay_ns=0) for task in outcome.tasks)
    describe_outcome(replace(outcome, tasks=tasks))
    recorded = capsys.readouterr().out.splitlines()[2].split()
    # Each of two hogs waits for its first turn at least; of hogs of one kind there is one row.
    assert int(waited[7]) >= 2
    assert recorded == [*waited[:7], "-", "-", "-"]


def test_an_interrupted_comparison_counts_the_runs_of_its_check_too(tmp_path: Path) -> None:
    marks, marking = tmp_path / "marks", tmp_path / "marking"
    marking.write_text(f"#!/bin/sh\necho >> {marks}\n")
    marking.chmod(0o755)
    line = ["compare", "--on", "host", "--policy", "other,batch", "--command", str(marking)]
    line += ["--metric", "seconds", "--store", str(tmp_path / "runs.db")]
    program = Path(sys.executable).with_name("schedlab")
    stopped = subprocess.Popen([program, *line], stderr=subprocess.PIPE, text=True)
    # The baseline is compared with itself first, in 20 runs: the sixth one is one of those.
    while not (marks.exists() and len(marks.read_text()) >= 6):
        assert stopped.poll() is None
        time.sleep(0.002)
    stopped.send_signal(signal.SIGINT)
    _, errors = stopped.communicate()
    assert stopped.returncode == 130, errors
    with sqlite3.connect(tmp_path / "runs.db") as connection:
        (count,) = connection.execute("SELECT count(*) FROM run").fetchone()
    assert re.search(rf"^note: {count} runs? (is|are) kept in ", errors, re.MULTILINE), errors
