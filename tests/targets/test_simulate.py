"""Simulated runs from Python: the same every time, whole traces, batches equal to single runs."""

import json
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as perfetto

import schedlab
from schedlab import Machine, Scheduler
from schedlab.boundary.errors import InputError, RunError
from schedlab.targets.sim import simulate_many
from schedlab.targets.target import Simulated

WORK = "hackbench:groups=1,fds=4,loops=2"
MACHINE = schedlab.Machine(2, "linsched")


def test_hackbench_passes_the_messages_it_should() -> None:
    outcome = schedlab.simulate(WORK, scheduler="6.1", machine=MACHINE)
    # 4 senders send 2 messages of 100 bytes to each of 4 receivers: 32, and each of 8 workers
    # tells main with one byte that it is ready.
    assert outcome.messages == 4 * 4 * 2 + 8
    assert outcome.bytes == 32 * 100 + 8
    assert len(outcome.tasks) == 9
    assert outcome.target == "sim"
    # The lives of the tasks are spent running, waiting or asleep, to the nanosecond.
    for task in outcome:
        assert task.run_ns + task.wait_ns + task.sleep_ns == task.life_ns
    assert sum(task.run_ns for task in outcome) == sum(outcome.cpu_busy_ns)


def test_the_same_inputs_give_the_same_outcome() -> None:
    one, other = (schedlab.simulate(WORK, scheduler="6.12", machine=MACHINE) for _ in range(2))
    assert one == other


def test_one_linsched_cpu_takes_a_jiffy_for_each_write_read_and_sleep() -> None:
    # One sender, one receiver, 3 messages: from the start signal on 3 writes and 3 reads of a
    # jiffy each, and at least none and at most one sleep a message and task.
    outcome = schedlab.simulate(
        "hackbench:groups=1,fds=1,loops=3",
        scheduler=schedlab.Scheduler("2.6.24", hz=1000),
        machine=schedlab.Machine(1, "linsched"),
    )
    assert 6 <= outcome.turnaround_jiffies <= 6 + 3 + 3
    assert outcome.turnaround_ns % 1_000_000 == 0


def test_a_batch_gives_what_single_runs_give() -> None:
    kernel = schedlab.Scheduler("2.6.24", hz=1000)
    settings = [[5_000_000, 1_000_000], [20_000_000, 4_000_000], [100_000_000, 50_000_000]]
    batch = simulate_many(
        WORK, ["latency", "min_granularity"], settings, scheduler=kernel, machine=MACHINE
    )
    single = [
        schedlab.simulate(
            WORK,
            scheduler=kernel.with_knobs({"latency": f"{a}ns", "min_granularity": f"{b}ns"}),
            machine=MACHINE,
        ).turnaround_ns
        for a, b in settings
    ]
    assert batch.tolist() == single
    assert batch.dtype == np.int64


def test_a_batch_refuses_what_single_runs_refuse() -> None:
    def batch(knob: str, value: int) -> None:
        simulate_many(WORK, [knob], [[value]], scheduler="6.1", machine=MACHINE)

    for knob, value, said in [
        ("latency", 5, "100us to 1s"),
        ("latency", -5, "100us to 1s"),
        ("base_slice", 1_000_000, "no knob 'base_slice'"),
        ("nonsense", 1, "no scheduler knob"),
        ("child_runs_first", 2, "0 or 1"),
    ]:
        with pytest.raises(InputError, match=said):
            batch(knob, value)
    with pytest.raises(InputError, match="a row a run, of 1 numbers"):
        simulate_many(WORK, ["latency"], [[1, 2]], scheduler="6.1", machine=MACHINE)


def test_a_knob_the_simulator_does_not_act_on_is_refused() -> None:
    kernel = schedlab.Scheduler("2.6.24", migration_cost="1ms")
    with pytest.raises(InputError, match="migration_cost"):
        schedlab.simulate(WORK, scheduler=kernel, machine=MACHINE)


def test_a_deadlock_is_a_failed_run_that_names_the_waiting_tasks() -> None:
    work = schedlab.Workload.from_dict(
        {
            "name": "stuck",
            "channels": {"a": {"kind": "pipe"}, "b": {"kind": "pipe"}},
            "tasks": [
                {
                    "name": "first",
                    "instances": 1,
                    "steps": [
                        {"read": {"channel": "a", "bytes": 1}},
                        {"write": {"channel": "b", "bytes": 1}},
                    ],
                },
                {
                    "name": "second",
                    "instances": 1,
                    "steps": [
                        {"read": {"channel": "b", "bytes": 1}},
                        {"write": {"channel": "a", "bytes": 1}},
                    ],
                },
            ],
        }
    )
    with pytest.raises(RunError, match="first"):
        schedlab.simulate(work, scheduler="6.1", machine=MACHINE)


def agree(outcome: schedlab.Outcome, slept: int, preempted: int) -> None:
    """Compare an outcome's switches with those of its events."""
    assert outcome.switches == sum(task.voluntary + task.involuntary for task in outcome.tasks)
    assert slept == sum(task.voluntary for task in outcome.tasks)
    # A task leaves word of its counters before it ends, as a real one does, and may be preempted
    # once more in between.
    more = preempted - sum(task.involuntary for task in outcome.tasks)
    assert 0 <= more <= len(outcome.tasks)


def test_the_perfetto_trace_holds_every_switch_in_order(tmp_path: Path) -> None:
    file = tmp_path / "run.pftrace"
    outcome = schedlab.simulate(WORK, scheduler="6.1", machine=MACHINE, trace=file)
    trace = perfetto.Trace()
    trace.ParseFromString(file.read_bytes())
    switches, names, cpus = [], set(), set()
    for packet in trace.packet:
        for event in packet.ftrace_events.event:
            if event.HasField("sched_switch"):
                switches.append((packet.ftrace_events.cpu, event.timestamp, event.sched_switch))
                names.add(event.sched_switch.next_comm)
        if packet.HasField("ftrace_events"):
            cpus.add(packet.ftrace_events.cpu)
    # Pid 0 is the idle task, state 0 a preemption, 16 TASK_DEAD's bit.
    states = [switch.prev_state for *_, switch in switches if switch.prev_pid]
    agree(outcome, sum(state not in (0, 16) for state in states), states.count(0))
    assert cpus == {0, 1}
    assert {task.name for task in outcome} <= names
    # On each CPU the task switched in is the next one switched out, and time never runs backwards.
    for cpu in cpus:
        own = [(time, switch) for where, time, switch in switches if where == cpu]
        for (before, first), (after, second) in pairwise(own):
            assert before <= after
            assert first.next_pid == second.prev_pid


def test_each_switch_is_a_pick_with_its_reason(tmp_path: Path) -> None:
    reasons, text, trace = (tmp_path / name for name in ("why.jsonl", "why.txt", "run.txt"))
    plain = schedlab.simulate(WORK, scheduler="6.12", machine=MACHINE)
    outcome = schedlab.simulate(
        WORK, scheduler="6.12", machine=MACHINE, reasons=reasons, trace=trace
    )
    assert outcome == plain
    decisions = [json.loads(line) for line in reasons.read_text().splitlines()]
    picked = {
        (one["cpu"], one["time"], outcome.tasks[one["task"]].name)
        for one in decisions
        if one["decision"] == "pick" and one["task"] is not None
    }
    switch = re.compile(r"\[(\d+)\] \S+ +(\d+)\.(\d{9}): sched_switch: .* next_comm=(\S+) ")
    switched = [
        (int(cpu), int(seconds + rest), name)
        for cpu, seconds, rest, name in switch.findall(trace.read_text())
        if not name.startswith("swapper")
    ]
    assert switched
    assert set(switched) <= picked
    # Of each task that could have run instead it is said what kept it.
    for one in decisions:
        for level in one.get("levels", []):
            assert (level["by"] == "only") == (not level["others"])
    schedlab.simulate(WORK, scheduler="6.12", machine=MACHINE, reasons=text)
    assert [line.split(" ", 2)[2] for line in text.read_text().splitlines()] == [
        one["text"] for one in decisions
    ]


def test_a_file_of_reasons_says_its_format(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"\.txt \(text\), \.jsonl \(JSON lines\)"):
        schedlab.simulate(WORK, machine=MACHINE, reasons=tmp_path / "why.csv")
    assert not list(tmp_path.iterdir())


def test_the_ftrace_text_can_be_replayed_by_name(tmp_path: Path) -> None:
    file = tmp_path / "run.txt"
    outcome = schedlab.simulate(WORK, scheduler="6.1", machine=MACHINE, trace=file)
    lines = file.read_text().splitlines()
    left = re.findall(r": sched_switch: .* prev_pid=[1-9]\d* .* prev_state=(\w)", "\n".join(lines))
    agree(outcome, sum(state in "SD" for state in left), left.count("R"))
    assert [line for line in lines if "==> next_comm=receiver.g0.0 " in line]


def test_threads_share_their_process_and_policies_show_as_priorities(tmp_path: Path) -> None:
    file = tmp_path / "run.pftrace"
    schedlab.simulate(
        "hackbench:groups=1,fds=1,loops=1,threads",
        scheduler="6.1",
        machine=MACHINE,
        attributes=schedlab.Attributes("fifo:10"),
        trace=file,
    )
    trace = perfetto.Trace()
    trace.ParseFromString(file.read_bytes())
    events = [event for packet in trace.packet for event in packet.ftrace_events.event]
    # The kernel's priority of SCHED_FIFO 10 is 99 - 10.
    priorities = {
        event.sched_switch.next_prio
        for event in events
        if event.HasField("sched_switch") and event.sched_switch.next_pid
    }
    assert priorities == {89}
    clone_thread = 0x10000
    flags = [event.task_newtask.clone_flags for event in events if event.HasField("task_newtask")]
    assert flags == [clone_thread, clone_thread]


@pytest.mark.parametrize("name", ["run.svg", "run", "run.pftrace.gz"])
def test_a_trace_of_unknown_format_is_refused_and_not_written(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=r"\.pftrace"):
        schedlab.simulate(WORK, scheduler="6.1", machine=MACHINE, trace=tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_run_leaves_an_old_trace_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "run.txt"
    file.write_text("old")
    kernel = schedlab.Scheduler("2.6.24", migration_cost="1ms")
    with pytest.raises(InputError):
        schedlab.simulate(WORK, scheduler=kernel, machine=MACHINE, trace=file)
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_a_seed_out_of_range_is_refused(seed: int) -> None:
    with pytest.raises(InputError, match="0 to"):
        schedlab.simulate(WORK, scheduler="6.1", machine=MACHINE, seed=seed)


def test_threads_of_a_core_share_it_as_the_machine_says() -> None:
    # Two hogs of 10 ms on the two threads of a core, each at half speed while both are busy.
    machine = schedlab.Machine(2, "ideal", topology="smt=2", speed="smt=50%")
    outcome = schedlab.simulate("hogs:tasks=2,time=10ms", scheduler="6.1", machine=machine)
    assert outcome.elapsed_ns == 20_000_000
    assert [task.run_ns for task in outcome.tasks] == [20_000_000] * 2
    with pytest.raises(InputError, match="smt has 1 numbers; a core's threads"):
        schedlab.Machine(2, "ideal", speed="smt=50%")
    with pytest.raises(InputError, match="speed: 'turbo'; allowed"):
        schedlab.Machine(2, "ideal", speed="turbo")


@pytest.mark.parametrize(
    ("scheduler", "machine"),
    [
        (Scheduler("6.12", hz=1000, base_slice="3ms"), Machine(4, "reference", "smt=2,llc=4")),
        (Scheduler("6.1", weights="dw-cfs:beta=1.1"), Machine(2, "linsched")),
        (Scheduler("6.12", rules={"yield_forfeits": False}), Machine(1, "ideal")),
        (
            Scheduler("6.1"),
            Machine(4, "reference", "smt=2,siblings=last", "smt=62.5%,turbo=130%/120%"),
        ),
    ],
    ids=str,
)
def test_a_simulated_place_is_made_again_from_its_facts(
    scheduler: Scheduler, machine: Machine
) -> None:
    place = Simulated(scheduler, machine)
    # As the store has them: what was written is read as JSON.
    again = Simulated.from_facts(json.loads(json.dumps(dict(place.facts()))))
    assert (again.scheduler, again.machine) == (scheduler, machine)
    assert again.machine.costs.times == machine.costs.times


def test_a_place_of_another_schedlab_is_refused_in_a_line() -> None:
    facts = dict(Simulated(Scheduler("6.1"), Machine(2, "reference")).facts())
    machine = json.loads(facts["machine"])
    facts["machine"] = json.dumps({**machine, "turbo": "yes"})
    with pytest.raises(InputError, match="cannot be simulated as it was"):
        Simulated.from_facts(facts)
