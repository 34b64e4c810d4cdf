"""Other work of a machine: measured, kept in costs files, simulated, taken from recordings."""

import json
import os
import signal
import subprocess
import time
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as perfetto
from tests import needs

import schedlab
from schedlab.attribution import remedies
from schedlab.attribution.waiting import why
from schedlab.boundary.errors import InputError, NotPermittedError
from schedlab.cli.main import invoke
from schedlab.measure import background, calibration
from schedlab.measure.inference import infer, simulated
from schedlab.model import Costs, Machine, Workload, calibration_file
from schedlab.model.background import Background, BackgroundTask
from schedlab.targets import host

TENTH = BackgroundTask(
    name="kworker/0",
    kind="kworker",
    policy="fifo:50",
    nice=0,
    affinity=(0,),
    interval_ns=10_000_000,
    deviation_ns=0,
    period="normal",
    runs_ns=(500_000, 1_500_000),
    wakeups=100,
    idle_interval_ns=0,
)
"""A task that takes a tenth of a CPU: every 10 ms, 0.5 and 1.5 ms in turn."""

FOUND = Background((TENTH,), watched_ns=10**9, paired=200, unpaired=3, interrupts={"irq 1": (2, 3)})

INSTANCES = Path("/sys/kernel/tracing/instances")


def _costs(found: Background = FOUND) -> calibration.Calibration:
    costs = replace(Costs.load("ideal"), name="calibrated", background=found.workload)
    return calibration.Calibration(costs=costs, cpus=1, background=found)


def test_a_costs_file_keeps_it() -> None:
    regular = replace(TENTH, name="rcu_preempt", period="exponential", affinity=(), policy="other")
    written = _costs(Background((TENTH, regular), watched_ns=10**9, interrupts={"a b": (2.0, 3)}))
    value = tomllib.loads(calibration.to_toml(written))
    read = calibration_file._read(value, "calibrated")
    assert read.background == written.background
    assert read.costs.background == written.costs.background


def test_a_costs_file_without_it_has_none(tmp_path: Path) -> None:
    file = tmp_path / "costs.toml"
    file.write_text("[costs]\nswitch = '1us'\n")
    assert Costs.load(file).background is None
    assert "background" not in json.loads(Machine(1, file).json)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("version = 1", "version = 2", "background.version is 2; allowed: 1"),
        ('period = "normal"', 'period = "weekly"', "'weekly'; allowed: exponential, normal"),
        ('"500us"', '"500"', "no unit"),
        ('runs = ["500us", "1.5ms"]', "runs = []", "runs of 'kworker/0' is empty"),
        ("paired = 200", "", "not what 'schedlab calibrate' writes"),
        ('policy = "fifo:50"', 'policy = "fifo:500"', "1 to 99"),
        ('policy = "fifo:50"', 'policy = "best"', "best"),
        ("nice = 0", "nice = 70", "70"),
    ],
)
def test_what_a_costs_file_says_wrongly_is_refused(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    text = calibration.to_toml(_costs())
    assert old in text
    file = tmp_path / "costs.toml"
    file.write_text(text.replace(old, new, 1))
    with pytest.raises(InputError, match=r"costs file .*costs\.toml") as refused:
        calibration.load(file)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_simulations_with_such_costs_run_it_beside_the_workload(tmp_path: Path) -> None:
    file = calibration.save(_costs(), tmp_path / "costs.toml")
    work = Workload.from_dict({"tasks": {"hog": {"loop": 1, "run": 900_000}}})
    found = schedlab.simulate(work, scheduler="6.12", machine=Machine(1, file))
    [task] = found.tasks
    [other] = found.background
    # It sleeps 9 ms and runs 0.5 and 1.5 ms by turns, first of all the shorter. Its first sleep is
    # any part of a period, 10 ms: what that leaves of 900 ms of work has 98 or 99 times 9 ms.
    runs = task.involuntary
    assert runs in {99, 100}
    assert (task.run_ns, other.run_ns) == (900_000_000, 50 * 500_000 + (runs - 50) * 1_500_000)
    assert found.turnaround_ns == 900_000_000 + other.run_ns
    assert found.switches == runs
    assert any("1 background task took" in note for note in found.notes)
    alone = schedlab.simulate(work, scheduler="6.12", machine=Machine(1, file, background="none"))
    assert (alone.turnaround_ns, alone.background, alone.notes) == (900_000_000, (), ())


def test_fixed_periods_begin_anywhere_and_a_kworker_counts_once_a_second() -> None:
    kworker = replace(TENTH, policy="other", interval_ns=400_000_000, period="exponential")
    work = Background((kworker, replace(TENTH, name="a"))).workload
    assert work is not None
    counts, rest, regular = json.loads(work.json)["tasks"]
    # 2.5 times a second, of which once for the statistics of memory; the runs are 1 ms on average.
    assert (counts["name"], counts["deferrable"]) == ("kworker/0:vmstat", True)
    assert counts["steps"][0] == {"sleep": {"uniform": {"low": "0ns", "high": "1s"}}}
    assert rest["steps"][0] == {"sleep": {"exponential": {"mean": "665.666667ms"}}}
    assert "deferrable" not in rest
    assert regular["steps"][0] == {"sleep": {"uniform": {"low": "0ns", "high": "10ms"}}}


def test_a_program_may_be_called_as_a_task_of_the_workload_is() -> None:
    # A test suite's own hackbench, or any program called main, was running as costs were measured.
    program = replace(TENTH, name="main", kind="other", policy="other", affinity=())
    machine = Machine(1, _costs(Background((program,))).costs)
    word = "hackbench:groups=1,fds=2,loops=300"
    found = schedlab.simulate(word, scheduler="6.12", machine=machine)
    assert [task.name for task in found.background] == ["other/main"]
    assert "main" in {task.name for task in found.tasks}


def test_it_is_random_and_follows_the_seed() -> None:
    task = replace(TENTH, kind="kcompactd0", period="exponential", policy="other")
    costs = _costs(Background((task,))).costs
    runs = [
        schedlab.simulate(
            "hogs:tasks=2,time=1s", scheduler="6.12", machine=Machine(1, costs), seed=seed
        )
        for seed in (1, 1, 2)
    ]
    assert runs[0] == runs[1]
    assert runs[0].background != runs[2].background
    # About a hundred wake-ups in about 2 s of 10 ms each and the waiting; Poisson, so within four
    # standard deviations of what its own waiting leaves.
    [other] = runs[0].background
    expected = (runs[0].elapsed_ns - other.run_ns - other.wait_ns) / 9_000_000
    assert abs(other.wakeups - expected) < 4 * expected**0.5


def test_a_workload_with_a_background_of_its_own_has_that_alone() -> None:
    value = {
        "tasks": {
            "hog": {"loop": 1, "run": 100_000},
            "own": {"background": True, "loop": -1, "run": 1_000, "sleep": 9_000},
        }
    }
    machine = Machine(1, _costs().costs)
    found = schedlab.simulate(Workload.from_dict(value), scheduler="6.12", machine=machine)
    assert [task.name for task in found.background] == ["own"]


def test_run_takes_it_away_or_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    costs = calibration.save(_costs(), tmp_path / "costs.toml")
    other = tmp_path / "other.json"
    other.write_text(json.dumps({"tasks": {"b": {"loop": 5, "run": 1_000, "sleep": 1_000}}}))
    found = {}
    for given in ([], ["--background", "none"], ["--background", str(other)]):
        arguments = ["run", "hogs:tasks=1,time=100ms", "--kernel", "6.12", "--cpus", "1"]
        invoke([*arguments, "--costs", str(costs), "--json", *given])
        value = json.loads(capsys.readouterr().out)
        found[given[-1] if given else ""] = [task["name"] for task in value["background"]]
    assert found == {"": ["kworker/0"], "none": [], str(other): ["b"]}


def test_a_recording_is_a_background() -> None:
    recording = Path("crates/infer/tests/fixtures/serving-recorded.txt.gz")
    others = schedlab.background_from(recording)
    machine = Machine(2, "ideal", background=others)
    found = schedlab.simulate("hogs:tasks=2,time=100ms", scheduler="6.12", machine=machine)
    assert len(found.tasks) == 2
    names = {task["name"] for task in json.loads(others.json)["tasks"]}
    assert {task.name for task in found.background} <= names
    assert sum(task.run_ns for task in found.background) > 0


@pytest.mark.parametrize("name", ["nowhere.txt", "nowhere.json"])
def test_a_background_that_is_not_there_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="nowhere"):
        schedlab.background_from(tmp_path / name)


@pytest.mark.parametrize("background", [None, "none"])
def test_a_machine_made_again_from_its_json_has_it(background: str | None) -> None:
    machine = Machine(2, _costs().costs, background=background)
    again = Machine.from_json(machine.json, machine.costs.name)
    assert again == machine
    assert (again.background is None) == (background == "none")


def test_a_background_is_a_workload_or_none() -> None:
    with pytest.raises(InputError, match=r"background is 'some'; allowed: a Workload, 'none'"):
        Machine(1, "ideal", background="some")


def test_equal_parts_have_the_mean_of_all() -> None:
    times = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5]
    found = background.parts([time * 1_000_000 for time in times])
    assert len(found) == background.PARTS
    assert list(found) == sorted(found)
    assert sum(found) / len(found) == pytest.approx(1e6 * sum(times) / len(times), rel=1e-6)


def _phase(*tasks: dict[str, object]) -> dict[str, object]:
    return {
        "elapsed_ns": 10**9,
        "paired": 9,
        "unpaired": 1,
        "lost": 0,
        "tasks": list(tasks),
        "interrupts": {"softirq TIMER": {"count": 250, "total_ns": 500_000}},
    }


def _group(name: str, kind: str, runs: list[int], intervals: list[int]) -> dict[str, object]:
    same = {"policy": "other", "nice": 0, "affinity": [], "threads": 1}
    return {"name": name, "class": kind, "runs_ns": runs, "intervals_ns": intervals, **same}


def test_what_was_watched_becomes_tasks() -> None:
    load = _phase(
        _group("rcu_preempt", "rcu_preempt", [2_000, 4_000, 6_000, 8_000], [250_000_000] * 3),
        _group("kworker/0", "kworker", [1_000] * 4, [1, 1, 900_000_000]),
        _group("cc1", "other", [100_000_000] * 3, [1, 1]),
        _group("seldom", "other", [1_000] * 2, [1]),
        _group("bash", "other", [300_000] * 5, [3_000_000] * 4),
    )
    idle = _phase(_group("kworker/0", "kworker", [1_000] * 2, [1]))
    found, note = background.background_of({"load": load, "idle": idle})
    assert [task.name for task in found.tasks] == ["rcu_preempt", "kworker/0", "bash"]
    rcu, kworker, bash = found.tasks
    # Four times in a second; intervals that are all the same are regular.
    assert (rcu.interval_ns, rcu.period, rcu.deviation_ns) == (250_000_000, "normal", 0)
    assert rcu.runs_ns == (2_000, 4_000, 6_000, 8_000)
    assert (kworker.period, kworker.idle_interval_ns) == ("exponential", 500_000_000)
    # Five wake-ups, 3 ms from each other, were one burst: there are five a second.
    assert (bash.interval_ns, bash.period) == (200_000_000, "exponential")
    assert "cc1 (30% of a CPU)" in note
    assert found.interrupts == {"softirq TIMER": (250.0, 2_000)}


@pytest.mark.parametrize(
    "error", [NotPermittedError("recording needs root"), InputError("no tracefs in /sys")]
)
def test_where_it_cannot_be_watched_there_is_none_and_a_note(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def refuse(*_: object, **__: object) -> str:
        raise error

    monkeypatch.setattr(host, "native_program", refuse)
    found, note = background.measure(quick=True)
    assert found is None
    assert note == f"background activity was not measured: {error}"


@pytest.mark.skipif(
    os.geteuid() != 0 or not INSTANCES.is_dir(), reason="needs root and tracefs, to trace"
)
def test_watching_leaves_nothing_behind_when_it_is_interrupted() -> None:
    before = set(INSTANCES.iterdir())
    command = [str(host.runner()), "background", "--time", "5s"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as watching:
        for _ in range(100):
            mine = f"schedlab-{watching.pid}-"
            if any(path.name.startswith(mine) for path in INSTANCES.iterdir()):
                break
            time.sleep(0.05)
        watching.send_signal(signal.SIGINT)
        output, errors = watching.communicate(timeout=10)
    assert watching.returncode == 130
    assert output == b""
    assert len(errors.splitlines()) == 1
    assert not any(path.name.startswith(mine) for path in set(INSTANCES.iterdir()) - before)


def test_waits_and_behaviour_are_those_of_the_workload() -> None:
    """What else runs is a cause of waiting, and no task that waits."""
    machine = Machine(1, _costs().costs)
    work = Workload.parse("hogs:tasks=2,time=200ms")
    scheduler = schedlab.Scheduler("6.12")
    outcome = schedlab.simulate(work, scheduler=scheduler, machine=machine)
    found = why(work, scheduler=scheduler, machine=machine)
    assert [task.name for task in found.tasks] == ["hog"]
    assert found.wait_ns == sum(task.wait_ns for task in outcome.tasks)
    assert "kworker/0" in {cause.behind for cause in found.tasks[0].causes}
    with pytest.raises(InputError, match="no task 'kworker/0' waited; allowed: hog"):
        why(work, scheduler=scheduler, machine=machine, task="kworker/0")
    [run] = remedies.measure(work, scheduler, machine, [(1, 0)])
    assert list(run.tasks) == ["hog"]
    behaviour = simulated(work, scheduler, machine)
    assert list(behaviour.tasks) == ["hog"]
    assert behaviour.involuntary == sum(task.involuntary for task in outcome.tasks)
    # Hogs never sleep: what is woken, and waits for a CPU then, is background alone.
    assert behaviour.latency.count == 0


def test_a_trace_shows_it_apart(tmp_path: Path) -> None:
    machine = Machine(1, _costs().costs)
    file = tmp_path / "run.pftrace"
    schedlab.simulate("hogs:tasks=2,time=50ms", scheduler="6.12", machine=machine, trace=file)
    trace = perfetto.Trace()
    trace.ParseFromString(file.read_bytes())
    [tree] = [packet.process_tree for packet in trace.packet if packet.HasField("process_tree")]
    names = {process.pid: process.cmdline[0] for process in tree.processes}
    shown = sorted((thread.name, names[thread.tgid]) for thread in tree.threads)
    assert shown == [("hog[0]", "hog[0]"), ("hog[1]", "hog[1]"), ("kworker/0", "background")]


def test_a_workloads_own_tasks_make_no_background() -> None:
    value = {
        "tasks": {
            "own": {"loop": 1, "fork": "other"},
            "other": {"background": True, "loop": 1, "run": 1_000},
        }
    }
    with pytest.raises(InputError, match=r"task 'other'.*background"):
        Workload.from_dict(value)


@needs.guest
def test_a_recording_of_a_busy_guest_is_a_background(tmp_path: Path) -> None:
    """A task that took a tenth of a CPU for 2 s and ended does so; kernel threads go on."""
    busy, recording = tmp_path / "busy.json", tmp_path / "busy.txt.gz"
    task = {"run": 1_000, "timer": {"ref": "unique", "period": 10_000}}
    busy.write_text(json.dumps({"global": {"duration": 2}, "tasks": {"busy": task}}))
    guest = ["--on", "vm:6.12", "--clock", "instructions"]
    invoke(["record", *guest, "--level", "switches", "-o", str(recording), str(busy)])
    others = schedlab.background_from(recording)
    names = {one["name"].rpartition("-")[0] for one in json.loads(others.json)["tasks"]}
    # Kernel threads are kept with it.
    assert "busy" in names
    assert any(name.startswith(("rcu", "kworker", "ksoftirqd")) for name in names)
    # On two CPUs nothing keeps it from what it took where it was recorded: 0.2 s.
    machine = Machine(2, "ideal", background=others)
    found = schedlab.simulate("hogs:tasks=1,time=6s", scheduler="6.12", machine=machine)
    taken = {task.name.rpartition("-")[0]: task.run_ns for task in found.background}
    assert taken["busy"] == pytest.approx(200_000_000, rel=0.03)
    # Kernel threads that timers wake go on: three times as often in 6 s as in 2. Each wakes a few
    # times at random, so that they are counted together.
    recorded = infer(recording, costs="ideal", ending="time").behaviour.tasks
    timed = [
        task for task in found.background if task.name.startswith(("rcu", "kworker/0", "kcom"))
    ]
    more = sum(task.wakeups for task in timed) / sum(recorded[task.name].wakeups for task in timed)
    assert 2 <= more <= 4
    assert [task.name for task in found.tasks] == ["hog"]
