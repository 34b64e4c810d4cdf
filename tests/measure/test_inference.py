"""From a recording to a workload, and the results of its simulation."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from schedlab.cli.infer import start_up
from schedlab.cli.main import invoke
from schedlab.measure.inference import Behaviour, Latency, Tail, infer, simulated
from schedlab.measure.similarity import ENOUGH_WAITS, LIMITS, Figure, Likeness, likeness
from schedlab.model import Machine, Scheduler, Workload
from schedlab.targets.sim import simulate
from schedlab.vm.kernels import KernelImage

FIXTURES = Path(__file__).parents[2] / "crates/replay/tests/fixtures"
RECORDING = FIXTURES / "k61-hackbench.txt.gz"

Capture = pytest.CaptureFixture[str]


def _run(words: str, capsys: Capture, code: int = 0) -> str:
    assert invoke(words.split()) == code
    return capsys.readouterr().out


def test_a_recording_becomes_a_file_that_runs(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "workload.json"
    text = _run(f"infer {RECORDING} --costs ideal -o {file}", capsys)
    assert "tasks" in text
    assert "another task" in text
    assert f"schedlab run {file}" in text
    outcome = json.loads(_run(f"run {file} --kernel 6.1 --cpus 1 --costs ideal --json", capsys))
    names = {task["name"] for task in outcome["tasks"]}
    # hackbench's sender and receiver of the recording, by the names that the kernel gave them.
    assert any(name.startswith("hackbench-") for name in names)
    # Nothing of the recorded CPU time is lost or made up where nothing but the work takes time, but
    # what was running at the end.
    recorded = infer(RECORDING, ending="work").behaviour
    total = sum(task["run_ns"] for task in outcome["tasks"])
    assert total >= 0.99 * sum(task.run_ns for task in recorded.tasks.values())


def test_the_summary_for_machines(capsys: Capture) -> None:
    value = json.loads(_run(f"infer {FIXTURES / 'groups-6.1.txt.gz'} --costs ideal --json", capsys))
    counts = value["counts"]
    # The recording has 8 sched_process_fork and 5 groups, into which 6 tasks are moved.
    assert counts["forks"] == 8
    assert counts["changes"] >= 6
    woken = [counts[f"woken_by_{who}"] for who in ("tasks", "timers", "interrupts", "unknown")]
    assert sum(woken) <= 64  # its sched_waking events
    assert value["release"].startswith("6.1.")
    assert value["check"] is None


def test_a_simulated_recording_is_simulated_alike(tmp_path: Path, capsys: Capture) -> None:
    trace = tmp_path / "trace.txt"
    machine, rules = Machine(1, "ideal"), Scheduler("6.1")
    work = {
        "tasks": {
            "hog": {"instance": 2, "loop": 30, "run": 2000},
            "sleeper": {"loop": 40, "run": 300, "sleep": 1700},
        },
    }
    file = tmp_path / "work.json"
    file.write_text(json.dumps(work))
    simulate(Workload.parse(str(file)), scheduler=rules, machine=machine, trace=trace)
    options = "--kernel 6.1 --cpus 1 --costs ideal --ends work --check"
    value = json.loads(_run(f"infer {trace} {options} --json", capsys))
    assert value["holds"]
    # Exactly: the rules are the same and nothing else takes time.
    assert [figure["difference"] for figure in value["check"]] == [0.0, 0.0, 0.0]
    text = _run(f"infer {trace} {options}", capsys)
    assert text.count("yes") == 3


def test_another_setting_is_told_apart(tmp_path: Path, capsys: Capture) -> None:
    trace = tmp_path / "trace.txt"
    machine = Machine(1, "ideal")
    simulate("hogs:tasks=2,time=300ms", scheduler="6.1", machine=machine, trace=trace)
    # With the default of 3 ms a slice two hogs switch more often than with 50 ms each.
    text = _run(
        f"infer {trace} --kernel 6.1 --cpus 1 --costs ideal --ends work --set latency=100ms "
        "--set min_granularity=50ms --check",
        capsys,
        code=1,
    )
    assert "no" in text.split("switches")[1].splitlines()[0]


def test_nothing_to_compare_does_not_hold() -> None:
    empty = Behaviour.of(
        {
            "elapsed_ns": 0,
            "voluntary": 0,
            "involuntary": 0,
            "latency": {"count": 0, "p50_ns": 0, "p99_ns": 0, "max_ns": 0},
            "tasks": [],
        }
    )
    compared = likeness(empty, empty)
    assert not compared.holds
    assert [figure.difference for figure in compared.figures] == [None] * 3


def test_costs_are_taken_off(tmp_path: Path) -> None:
    costs = tmp_path / "costs.toml"
    costs.write_text('[costs]\nswitch = "2us"\nwakeup = "1us"\n')
    ideal, net = infer(RECORDING), infer(RECORDING, costs=str(costs))
    assert ideal.counts["costs_ns"] == 0
    # A switch each time another task runs, and a wake-up for each one that was seen.
    assert net.counts["costs_ns"] > 2_000 * 2_000
    taken = simulated(net.workload, Scheduler("6.1"), Machine(1, str(costs)))
    assert taken.elapsed_ns == pytest.approx(ideal.behaviour.elapsed_ns, rel=0.02)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--costs nosuch", "ideal, linsched, calibrated"),
        ("--costs ideal --from 1", "no unit"),
        ("--costs ideal --from 100s", "within the recording"),
        ("--costs ideal --to 0ms", "is empty"),
        ("--costs ideal --ends never", "'work', 'time'"),
        ("--costs ideal -o none/workload.json", "there is no directory"),
        ("--costs ideal --check --kernel 1.0", "known: 2.6.24"),
        ("--costs ideal --check --set latencee=1ms", "known: latency"),
    ],
)
def test_wrong_options_get_a_line(options: str, words: str, capsys: Capture) -> None:
    assert invoke(["infer", str(RECORDING), *options.split()]) == 2
    said = capsys.readouterr()
    assert words in said.err
    assert said.err.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("empty.txt", b"", "no task ran"),
        ("noise.txt", bytes(range(128, 256)) * 9, "UTF-8"),
        ("cut.txt.gz", RECORDING.read_bytes()[:20_000], "reading the trace"),
        ("lost.txt", b"CPU:0 [LOST 5 EVENTS]\n", "lost events"),
        (
            "head.txt",
            b"# schedlab recording 1\n# kernel: x\n# end: events=0\n",
            "the recording's head",
        ),
    ],
)
def test_what_is_no_recording_leaves_nothing_behind(
    name: str, content: bytes, words: str, tmp_path: Path, capsys: Capture
) -> None:
    trace, output = tmp_path / name, tmp_path / "out" / "workload.json"
    output.parent.mkdir()
    trace.write_bytes(content)
    assert invoke(["infer", str(trace), "--costs", "ideal", "-o", str(output)]) == 2
    said = capsys.readouterr()
    assert words in said.err
    assert said.err.count("\n") == 1
    assert name in said.err
    assert list(output.parent.iterdir()) == []


def test_a_long_recording_is_bounded(tmp_path: Path) -> None:
    """Ten thousand rounds that are exactly alike are one loop."""
    lines = []
    for number in range(10_000):
        at = 1 + number * 0.002
        lines += [
            f" a-7 [000] d..2. {at:.9f}: sched_switch: a:7 [120] S ==> swapper/0:0 [120]",
            f" <idle>-0 [000] d.h2. {at + 0.001:.9f}: sched_waking: comm=a pid=7 prio=120 "
            "target_cpu=000",
            f" <idle>-0 [000] d..2. {at + 0.001:.9f}: sched_switch: swapper/0:0 [120] R ==> "
            "a:7 [120]",
        ]
    trace = tmp_path / "trace.txt.gz"
    trace.write_bytes(gzip.compress("\n".join(lines).encode()))
    inferred = infer(trace, ending="work")
    assert inferred.counts["steps"] > 19_000
    assert len(inferred.text) < 2_000


def test_the_guide_is_true(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commands of the guide that need no other machine, in its order."""
    root = FIXTURES.parents[3]
    guide = (root / "docs/guides/what-if.md").read_text("utf-8")
    commands = [line.strip()[2:] for line in guide.splitlines() if line.startswith("   $ ")]
    assert [command.split()[1] for command in commands] == ["record", "infer", "run"]
    # The recording is made in a guest: the test below.
    commands = commands[1:]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "crates").symlink_to(root / "crates")
    said = [_run(command.removeprefix("schedlab "), capsys) for command in commands]
    assert "schedlab run workload.json --kernel 6.1.176" in said[0]
    # The check is passed: its exit code is 0, which _run asserts.
    assert said[0].count("yes") == 3
    assert "all three figures may be relied on" in said[0]
    assert "simulated: 6.1.176" in said[1]


def test_the_guides_own_recording_passes_its_check(
    fetched: Callable[[str], KernelImage],
    tmp_path: Path,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A guest records the service of the guide by its command; what is inferred from it holds."""
    fetched("6.1")
    guide = (FIXTURES.parents[3] / "docs/guides/what-if.md").read_text("utf-8")
    service = guide.partition("```json\n")[2].partition("```")[0]
    monkeypatch.chdir(tmp_path)
    Path("service.json").write_text(service)
    (record,) = [
        line.strip()[2:]
        for line in guide.splitlines()
        if line.strip().startswith("$ schedlab record") and "--clock instructions" in line
    ]
    _run(record.removeprefix("schedlab "), capsys)
    value = json.loads(_run("infer trace.txt.gz --from 150ms --costs ideal --check --json", capsys))
    assert value["trusted"] == ["shares", "switches", "p99 latency"]
    # Nothing calls for caution; which release's rules stand in for a point release may be said.
    assert not [note for note in value["notes"] if not note.startswith("kernel ")]


def test_a_burst_of_wake_ups_by_one_call_is_simulated_as_one(capsys: Capture) -> None:
    """hackbench's start: one write wakes some 40 tasks, none of which runs before the last.

    Posted one by one, each preempts the waker and runs at once: a 99th percentile of 4 ms, not 75.
    """
    value = json.loads(_run(f"infer {RECORDING} --costs ideal --check --json", capsys))
    assert value["holds"]
    percentile = value["check"][2]
    assert percentile["name"] == "p99 latency"
    assert percentile["difference"] <= percentile["limit"] == LIMITS["p99 latency"]
    # The kernel that stands in is said where machines read, too.
    assert any("6.1 stands in" in note for note in value["notes"])


def test_a_failed_check_says_what_may_be_trusted_and_why(capsys: Capture) -> None:
    """88 ms of a kernel with all probes: 34 wake-ups do not make a 99th percentile."""
    short = FIXTURES / "sleepers-7.2.txt.gz"
    assert invoke(["infer", str(short), "--costs", "ideal", "--check"]) == 1
    said = capsys.readouterr()
    last = said.out.splitlines()[-1]
    assert last == "ask it for shares, not for switches or p99 latency, under other settings"
    assert "p99 latency: the recording has 34 wake-ups, and 368 determine" in said.err
    assert "switches: the recording has 86 switches" in said.err
    assert "recorded at level L1" in said.err
    assert "--costs ideal" in said.err


def _behaviour(waits: int, *, tail: Tail | None = None, switches: int = 1_000) -> Behaviour:
    latency = Latency(waits, 1_000, 2_000, 3_000)
    return Behaviour(1_000_000_000, switches, 0, latency, {}, tail)


@pytest.mark.parametrize(
    ("span_ns", "good", "said"),
    [
        # The first of 100 ms, 300 ms and 1 s that holds, and no more than half of the recording.
        (4_000_000_000, 100_000_000, "--from 100ms"),
        (4_000_000_000, 300_000_000, "--from 300ms"),
        (2_000_000_000, 1_000_000_000, "--from 1000ms"),
        (1_999_999_999, 1_000_000_000, None),
        (4_000_000_000, 2_000_000_000, None),
    ],
)
def test_a_start_up_that_spoils_the_check_is_named(
    span_ns: int, good: int, said: str | None
) -> None:
    def later(begin: str) -> Likeness:
        apart = 0.0 if int(begin.removesuffix("ns")) >= good else 9.0
        return Likeness((Figure("shares", "a", 0.5, 0.5, apart, LIMITS["shares"]),))

    notes = start_up(span_ns, later)
    assert (said in notes[0]) if said else not notes


def test_little_data_calls_for_caution() -> None:
    # 0.99^367 = 2.501 %, 0.99^368 = 2.476 %: with fewer, none is beyond the real percentile.
    assert ENOUGH_WAITS == 368
    few, enough = (likeness(_behaviour(n), _behaviour(n)).figures[2] for n in (367, 368))
    assert "367 wake-ups" in few.caution
    assert enough.caution == ""
    # (1.96 / 0.15)^2 = 170.7.
    few, enough = (
        likeness(_behaviour(500, switches=n), _behaviour(500)).figures[1] for n in (170, 171)
    )
    assert "170 switches" in few.caution
    assert enough.caution == ""


def test_a_percentile_of_a_burst_calls_for_caution() -> None:
    burst = Tail(waits=10, moments=5, most=6, at_ns=2_000_000)
    assert "6 at 2.000 ms" in _cautioned(burst)
    assert _cautioned(Tail(waits=10, moments=6, most=3, at_ns=0)) == ""


def _cautioned(tail: Tail) -> str:
    return likeness(_behaviour(900, tail=tail), _behaviour(900)).figures[2].caution


SERVING = FIXTURES.parents[2] / "infer/tests/fixtures"


def test_a_kernels_recording_is_simulated_alike(capsys: Capture) -> None:
    """Four servers and two tasks that compute on a real 6.1, as its head says it was set."""
    trace = SERVING / "serving-recorded.txt.gz"
    options = "--costs ideal --from 100ms --ends time --check --json"
    value = json.loads(_run(f"infer {trace} {options}", capsys))
    assert value["holds"]
    assert value["release"] == "6.1.176"
    assert value["counts"]["woken_by_timers"] > 500


def test_what_another_setting_did_was_predicted() -> None:
    """From the recording at the default of 1 ms alone: what a wakeup_granularity of 8 ms did."""
    before = infer(SERVING / "serving-recorded.txt.gz", start="100ms", ending="time")
    after = infer(SERVING / "serving-knob.txt.gz", start="100ms", ending="time").behaviour
    assert before.scheduler is not None
    rules = before.scheduler.with_knobs({"wakeup_granularity": "8ms"})
    machine = Machine(1, "ideal")
    found = simulated(before.workload, rules, machine, phase_ns=before.phase_ns)
    # It was less than half as many switches, and several times the latency.
    assert after.switches < 0.5 * before.behaviour.switches
    assert after.latency.p99_ns > 2.5 * before.behaviour.latency.p99_ns
    assert found.switches == pytest.approx(after.switches, rel=0.15)
    assert found.latency.p99_ns == pytest.approx(after.latency.p99_ns, rel=0.30)
