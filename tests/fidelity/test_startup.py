"""Simulated runs that start as the runner starts real ones."""

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest

from fidelity.observation import Observation, simulated_recorded
from fidelity.startup import beginning, is_begun, simulate_begun, with_runner
from schedlab.model import Machine, Scheduler, Workload
from schedlab.model.outcome import Outcome
from schedlab.targets.sim import simulate

COSTS = """[costs]
switch = "5us"
wakeup = "5us"
fork_thread = "100us"
start_thread = "30us"
"""


def _file(tasks: dict[str, object], duration: str | None) -> Workload:
    whole = {} if duration is None else {"global": {"duration": duration}}
    return Workload.from_dict({**whole, "tasks": tasks})


def _begun(work: Workload, tmp_path: Path, rules: Scheduler) -> Outcome:
    costs = tmp_path / "costs.toml"
    costs.write_text(COSTS)
    machine = Machine(1, str(costs))
    trace = tmp_path / "trace.txt"
    return simulate_begun(work, scheduler=rules, machine=machine, seed=1, phase_ns=0, trace=trace)


ONCE = {"loop": 1, "run": 1000, "sleep": 900_000}


@pytest.mark.parametrize(
    ("debit", "first"),
    [
        # Each new task is put latency / (number of tasks) late into the queue's virtual time: with
        # the one that makes them the first comes 6 / 2 = 3 ms late, the second 6 / 3 = 2 ms.
        ("1", "second"),
        # Without that they have the same virtual time, and the first that is woken comes first.
        ("0", "first"),
    ],
)
def test_the_last_made_comes_first_under_start_debit(
    tmp_path: Path, debit: str, first: str
) -> None:
    work = _file({"first": ONCE, "second": ONCE}, "200ms")
    rules = Scheduler("6.1", knobs={"feature.START_DEBIT": debit, "latency": "6ms"})
    found = {task.name: task for task in _begun(work, tmp_path, rules)}
    other = {"first": "second", "second": "first"}[first]
    # Each computes for 1 ms once: the second task waits for that.
    assert found[first].delay_ns < 200_000
    assert 1_000_000 <= found[other].delay_ns < 1_200_000


BIRTHS = """[costs]
page = "10us"
copy_per_kib = "2us"
fork_process = "400us"

[measured.forking_a_process]
median_ns = 300000.0
p25_ns = 300000.0
p75_ns = 300000.0
samples = 1
"""


@pytest.mark.parametrize(
    ("makes", "apart_us"),
    [
        # A bare fork, and a page of 4 KiB that the runner copies: 300 + 10 + 4 * 2.
        (False, 318),
        # Where tasks make processes, too, all births take what theirs do.
        (True, 400),
    ],
)
def test_births_of_the_runner_are_a_bare_fork_and_a_page_apart(
    tmp_path: Path, makes: bool, apart_us: int
) -> None:
    one = {"instances": 3, "kind": "process", "steps": [{"run": {"fixed": "1ms"}}]}
    made = {"name": "made", **one, "instances": 0}
    fork = [{"fork": {"task": "made", "count": 1}}, "join"]
    first = {"name": "first", **one, **({"steps": fork} if makes else {})}
    tasks = [first, made] if makes else [first]
    work = Workload.from_dict({"name": "births", "duration": "100ms", "tasks": tasks})
    costs, trace = tmp_path / "costs.toml", tmp_path / "trace.txt"
    costs.write_text(BIRTHS)
    rules = Scheduler("6.1")
    machine = Machine(1, str(costs))
    simulate_begun(work, scheduler=rules, machine=machine, seed=1, phase_ns=0, trace=trace)
    lines = [line for line in trace.read_text().splitlines() if "sched_wakeup_new:" in line]
    born = [float(re.findall(r" (\d+\.\d+): ", line)[0]) for line in lines if "comm=first" in line]
    apart = [round(1e6 * (later - one)) for one, later in pairwise(born)]
    assert apart == [apart_us, apart_us]


def test_nothing_counts_before_the_signal(tmp_path: Path) -> None:
    hog = {"instance": 2, "loop": -1, "run": 1000}
    outcome = _begun(_file({"hog": hog}, "100ms"), tmp_path, Scheduler("6.1"))
    assert [task.name for task in outcome] == ["hog[0]", "hog[1]"]
    # From the signal on both share 100 ms, less what switching takes: the runner's one wake-up of
    # each, and a switch of 5 us a slice of at least 0.75 ms.
    total = sum(task.run_ns for task in outcome)
    assert 98_000_000 <= total <= 100_000_000
    # They wait at the gate once, before it opens, and never again.
    assert sum(task.voluntary for task in outcome) == 0
    assert outcome.turnaround_ns == outcome.elapsed_ns == 100_000_000
    again = _begun(_file({"hog": hog}, "100ms"), tmp_path, Scheduler("6.1"))
    assert again == outcome


def test_tasks_that_end_by_themselves_begin_at_the_signal_too(tmp_path: Path) -> None:
    once = {"loop": 1, "run": 1000}
    outcome = _begun(_file({"one": once, "two": once}, None), tmp_path, Scheduler("6.1"))
    assert [task.name for task in outcome] == ["one", "two"]
    # From the signal on each computes for 1 ms; waking both, and some switches between the two and
    # their runner, take 5 us each.
    assert 2_010_000 <= outcome.turnaround_ns <= 2_100_000
    assert sum(task.voluntary for task in outcome) == 0


def test_the_signal_is_no_wake_up_of_the_workload(tmp_path: Path) -> None:
    costs = tmp_path / "costs.toml"
    costs.write_text(COSTS)
    once: dict[str, object] = {"loop": 1, "run": 1000}

    def seen(task: dict[str, object]) -> Observation:
        work = _file({"one": once, "two": task}, None)
        return simulated_recorded(
            work, Scheduler("6.1"), Machine(1, str(costs)), seed=1, phase_ns=0
        )

    # No task sleeps: the runner alone wakes them.
    assert "p50" not in seen(once).values
    # Woken after 5 ms, when the other one is done: it comes when the wake-up is over.
    assert seen({"loop": 1, "run": 100, "sleep": 5000}).values["p99"] == 5_000


def test_wake_ups_of_background_are_not_the_workloads() -> None:
    kworker = {"loop": -1, "run": 100, "sleep": 900}
    others = _file({"kworker/0": {"background": True, **kworker}, "hog": ONCE}, "1s")
    value = json.loads(others.json)
    value["tasks"] = [task for task in value["tasks"] if task.get("background")]
    machine = Machine(1, "ideal", background=Workload("others", json.dumps(value)))
    work = _file({"one": {"loop": 20, "run": 1000}, "two": {"loop": 20, "run": 1000}}, None)
    found = simulated_recorded(work, Scheduler("6.12"), machine, seed=1, phase_ns=0)
    # The kernel thread preempts both, and they each other; the runner alone wakes them.
    assert found.values["involuntary"] > 0
    assert "p50" not in found.values


@pytest.mark.parametrize(
    "work",
    [
        _file({"alone": {"loop": -1, "run": 1000}}, "100ms"),
        # A barrier waits for the tasks that exist from the start.
        _file({"a": {"run": 1000, "barrier": "b"}, "b": {"run": 2000, "barrier": "b"}}, "100ms"),
        _file({"was": {"asleep": True, "loop": -1, "sleep": 1000, "run": 10}, "is": ONCE}, "100ms"),
    ],
)
def test_a_single_task_begins_by_itself(work: Workload, tmp_path: Path) -> None:
    assert not is_begun(work)
    assert _begun(work, tmp_path, Scheduler("6.1")).tasks


def test_who_makes_all_others_is_made_and_has_a_clock_of_its_own(tmp_path: Path) -> None:
    work = Workload.parse("hackbench:groups=1,fds=2,loops=2")
    assert is_begun(work)
    outcome = _begun(work, tmp_path, Scheduler("6.12"))
    names = {task.name.partition("[")[0] for task in outcome.tasks}
    assert names == {"main", "receiver.g0.0", "receiver.g0.1", "sender.g0"}
    # It counts from the mark that main sets once all are there.
    assert 0 < outcome.turnaround_ns < outcome.elapsed_ns


def test_tasks_ask_for_what_they_are_to_have_before_they_wait() -> None:
    # The runner's tasks are made with what their maker has, ask for their own, tell that they are
    # ready, and wait.
    hog = {"instance": 2, "loop": -1, "run": 1000, "policy": "SCHED_BATCH"}
    begun = with_runner(_file({"hog": hog}, "100ms"), duration_ns=100_000_000, begin_ns=0)
    tasks = {task["name"]: task for task in json.loads(begun.json)["tasks"]}
    assert tasks["hog"].get("attributes") is None
    asks, ready, waits = tasks["hog"]["steps"][:3]
    assert asks == {"set": {"policy": "batch", "nice": 0}}
    assert [*ready, *waits] == ["post", "acquire"]
    # The gate is a futex, which wakes in the order in which they came, all in one system call.
    runner = tasks["schedlab.runner"]["steps"]
    assert {"post_all": [waits["acquire"]] * 2} in runner


def test_a_real_time_task_locks_its_pages_while_it_is_an_ordinary_one() -> None:
    # The runner calls mlockall, where the file says lock_pages, and sets the policy after that.
    hog = {"instance": 1, "loop": -1, "run": 1000}
    tasks = {"urgent": {**hog, "policy": "SCHED_RR", "priority": 5}, "fair": hog}

    def begins(locks: bool) -> dict[str, list[str]]:
        work = Workload.from_dict(
            {"global": {"duration": "100ms", "lock_pages": locks}, "tasks": tasks}
        )
        begun = json.loads(with_runner(work, duration_ns=100_000_000, begin_ns=0).json)
        return {
            task["name"]: [*task["steps"][0], *task["steps"][1]]
            for task in begun["tasks"]
            if task["name"] in tasks
        }

    assert begins(locks=True) == {"urgent": ["run", "set"], "fair": ["set", "post"]}
    assert begins(locks=False) == {"urgent": ["set", "post"], "fair": ["set", "post"]}


@pytest.mark.parametrize(
    ("rounds", "touched"),
    [
        # The first access of a file finds 12 pages that its process has not touched, each of which
        # is a fresh one (10 us). That is so once, however many accesses follow.
        (1, 120_000),
        (3, 120_000),
        # Tasks that access no file touch none of them.
        (0, 0),
    ],
)
def test_a_process_touches_memory_at_its_first_access(
    tmp_path: Path, rounds: int, touched: int
) -> None:
    access = {"read_file": {"file": "file", "bytes": 4096}}
    steps: list[object] = [{"run": {"fixed": "1ms"}}]
    if rounds:
        steps.append({"loop": {"count": rounds, "steps": [access]}})
    reader = {"name": "reader", "instances": 2, "kind": "process", "steps": steps}
    value: dict[str, object] = {"name": "readers", "tasks": [reader]}
    if rounds:
        value["files"] = {"file": {"size": 4096, "open": "cached"}}
    rules = Scheduler("6.1")

    def run_ns(page: str) -> list[int]:
        costs = tmp_path / f"{page}.toml"
        costs.write_text(f'[costs]\npage = "{page}"\n')
        machine = Machine(1, str(costs))
        work = Workload.from_dict(value)
        found = simulate_begun(work, scheduler=rules, machine=machine, seed=1, phase_ns=0)
        return [task.run_ns for task in found]

    assert [more - less for more, less in zip(run_ns("10us"), run_ns("0us"), strict=True)] == [
        touched,
        touched,
    ]


def test_timers_count_from_the_signal(tmp_path: Path) -> None:
    timer = {"loop": -1, "run": 1000, "timer": {"ref": "unique", "period": 10_000}}
    costs = tmp_path / "costs.toml"
    costs.write_text('[costs]\nfork_thread = "3ms"\n')
    outcome = simulate_begun(
        _file({"timer": {**timer, "instance": 2}}, "95ms"),
        scheduler=Scheduler("6.1"),
        machine=Machine(1, str(costs)),
        seed=1,
        phase_ns=0,
    )
    # Each computes for 1 ms at once and 10, 20, …, 90 ms after the signal. From the runner's own
    # start on, 6 ms earlier, an eleventh time would be due after 94 ms.
    assert [task.run_ns for task in outcome] == [10_000_000, 10_000_000]


@pytest.mark.parametrize("phase_ns", [0, 400_000, 1_700_000, 3_990_000])
def test_the_signal_comes_as_long_after_a_tick_as_asked(phase_ns: int, tmp_path: Path) -> None:
    # Ticks come 4 ms apart and take 300 us of the 6 ms that making the tasks takes: one or two are
    # within that, by where it begins.
    costs = tmp_path / "costs.toml"
    costs.write_text('[costs]\nfork_thread = "3ms"\ntick = "300us"\n')
    rules, machine = Scheduler("6.1", hz=250), Machine(1, str(costs))

    def run(work: Workload, phase_ns: int) -> Outcome:
        return simulate(work, scheduler=rules, machine=machine, seed=1, phase_ns=phase_ns)

    hogs = _file({"hog": {"instance": 2, "loop": -1, "run": 10_000}}, "30ms")
    began, begins = beginning(hogs, run, 0, phase_ns, rules.hz)
    assert began in {6_300_000, 6_600_000}
    assert (begins + began) % 4_000_000 == phase_ns


def test_all_sleep_before_the_signal(tmp_path: Path) -> None:
    # The last task goes to sleep, which takes 20 us, on the CPU that the runner is not on: that
    # is a part of the beginning. From the signal on none sleeps.
    costs = tmp_path / "costs.toml"
    costs.write_text('[costs]\nsystem_call = "1us"\nblock = "20us"\nwakeup = "2us"\n')
    hogs = _file({"hog": {"instance": 2, "loop": -1, "run": 10_000}}, "30ms")
    rules, machine = Scheduler("6.1"), Machine(2, str(costs))
    outcome = simulate_begun(hogs, scheduler=rules, machine=machine, seed=1, phase_ns=0)
    assert [task.voluntary for task in outcome.tasks] == [0, 0]


def _waited(work: Workload, tmp_path: Path) -> int:
    """Return how long tasks waited, as a kernel counts it."""
    costs = tmp_path / "costs.toml"
    costs.write_text(COSTS)
    rules, machine = Scheduler("6.1"), Machine(1, str(costs))
    outcome = simulate_begun(work, scheduler=rules, machine=machine, seed=1, phase_ns=0)
    return sum(task.wait_ns for task in outcome)


def test_an_idle_cpu_s_way_to_the_switch_counts_as_no_waiting(tmp_path: Path) -> None:
    # Each of ten timers finds the CPU idle, which takes 5 us to wake the task and switch to it: the
    # queue's clock stands for all of that.
    sleeper = _file({"sleeper": {"loop": 10, "sleep": 1000, "run": 100}}, None)
    assert _waited(sleeper, tmp_path) == 0


def test_waits_for_another_task_count(tmp_path: Path) -> None:
    urgent = {"policy": "SCHED_FIFO", "priority": 1, "loop": 10, "sleep": 1000, "run": 100}
    work = _file({"urgent": urgent, "busy": {"loop": 1, "run": 20_000}}, None)
    # 'urgent' preempts 'busy' ten times, 5 us after its timer, for which it is charged, and has the
    # CPU for 100 us and its switch each time; 'busy' waits for that. What is left is the beginning,
    # some switches long.
    assert 10 * 105_000 <= _waited(work, tmp_path) <= 10 * 105_000 + 200_000


def test_autogroup_makes_one_group_of_the_runner_and_its_tasks(tmp_path: Path) -> None:
    # Of three tasks that compute two are in the runner's session, which has the weight of one task,
    # and one is in a group of its own of that weight: 1/4, 1/4, 1/2. Else all are in the root
    # group beside that group: 1/3 each.
    work = Workload.from_dict(
        {
            "global": {"duration": "3s"},
            "tasks": {
                "one": {"loop": -1, "run": 1000},
                "other": {"loop": -1, "run": 1000},
                "grouped": {"loop": -1, "run": 1000, "taskgroup": "/own"},
            },
        }
    )
    for autogroup, expected in (("1", (0.25, 0.25, 0.5)), ("0", (1 / 3, 1 / 3, 1 / 3))):
        rules = Scheduler("6.12", knobs={"autogroup": autogroup})
        tasks = _begun(work, tmp_path, rules).tasks
        total = sum(task.run_ns for task in tasks)
        assert [task.run_ns / total for task in tasks] == pytest.approx(expected, abs=0.01)
