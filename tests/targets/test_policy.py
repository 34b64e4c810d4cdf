"""Policies written in Python, against schedules worked out by hand."""

# ruff: noqa: ARG002 - a policy's methods need not look at all that they are given

from collections.abc import Sequence

import pytest

from schedlab.boundary.errors import InputError
from schedlab.model import Machine, Scheduler, Workload
from schedlab.model.outcome import Outcome
from schedlab.targets.policy import Cpu, Policy, Task, simulate

MS = 1_000_000


def hogs(*milliseconds: int) -> Workload:
    tasks = [
        {"name": f"t{number}", "instances": 1, "steps": [{"run": {"fixed": f"{time}ms"}}]}
        for number, time in enumerate(milliseconds)
    ]
    return Workload.from_dict({"name": "hogs", "tasks": tasks})


def run(workload: Workload, policy: Policy, cpus: int = 1, release: str = "6.1") -> Outcome:
    machine = Machine(cpus=cpus, costs="ideal")
    return simulate(workload, policy, scheduler=Scheduler(release, hz=1000), machine=machine)


def ends(outcome: Outcome) -> list[float]:
    return [task.life_ns / MS for task in outcome]


class RoundRobin(Policy):
    """Ten milliseconds each, in the order of arrival."""

    def dispatch(self, cpu: Cpu, waiting: Sequence[Task], current: Task | None) -> Task | None:
        return waiting[0]

    def tick(self, cpu: Cpu, task: Task) -> bool:
        return task.ran_ns >= 10 * MS


def test_without_methods_tasks_run_in_turn_to_their_ends() -> None:
    # First come, first served: 30, then 30 + 10, then 40 + 20.
    assert ends(run(hogs(30, 10, 20), Policy())) == [30, 40, 60]


@pytest.mark.parametrize("release", ["2.6.24", "5.10", "6.1", "6.12", "6.18", "7.2", "7.3"])
def test_round_robin_is_the_rust_example_s(release: str) -> None:
    # a 0-10, b 10-20, a 20-30, b 30-40, a 40-50, b 50-60: each is preempted twice.
    outcome = run(hogs(30, 30), RoundRobin(), release=release)
    assert (ends(outcome), outcome.switches) == ([50, 60], 4)


def test_least_attained_service_first() -> None:
    class LeastSoFar(Policy):
        def dispatch(self, cpu: Cpu, waiting: Sequence[Task], current: Task | None) -> Task | None:
            everybody = [*waiting, *([current] if current else [])]
            return min(everybody, key=lambda task: (task.runtime_ns, task.id))

        def tick(self, cpu: Cpu, task: Task) -> bool:
            return True

    # Each millisecond goes to the task that had least, the lower number first: t0 0-1,
    # t1 1-2, t0 2-3, t1 3-4 and out with its 2 ms, then t0 alone from 4 to 12.
    assert ends(run(hogs(10, 2), LeastSoFar())) == [12, 4]


def test_a_woken_task_may_preempt() -> None:
    class Urgent(Policy):
        def dispatch(self, cpu: Cpu, waiting: Sequence[Task], current: Task | None) -> Task | None:
            return waiting[0]

        def preempt(self, cpu: Cpu, woken: Task, current: Task) -> bool:
            return True

    sleeper = {
        "name": "s",
        "instances": 1,
        "steps": [{"sleep": {"fixed": "5ms"}}, {"run": {"fixed": "1ms"}}],
    }
    hog = {"name": "h", "instances": 1, "steps": [{"run": {"fixed": "20ms"}}]}
    workload = Workload.from_dict({"name": "both", "tasks": [sleeper, hog]})
    # With preemption the sleeper ends at 5 + 1, and the hog, interrupted for 1 ms, at 21.
    # Without the hog ends at 20 and the sleeper after it.
    assert ends(run(workload, Urgent())) == [6, 21]
    assert ends(run(workload, Policy())) == [21, 20]


def test_idle_cpus_take_waiting_tasks() -> None:
    # Two CPUs, three tasks of 10 ms: two at once, the third as soon as a CPU is free.
    assert sorted(ends(run(hogs(10, 10, 10), Policy(), cpus=2))) == [10, 10, 20]


def test_enqueue_is_called_for_each_task_that_starts_to_wait() -> None:
    seen: list[tuple[int, bool, int]] = []

    class Watching(RoundRobin):
        def enqueue(self, cpu: Cpu, task: Task, wakeup: bool) -> None:
            seen.append((task.id, wakeup, cpu.now_ns // MS))

    run(hogs(20, 20), Watching())
    # Both are new at 0; the turns end at 10 (t0), 20 (t1, as t0 has 10 ms left) and 30 is t0's end.
    assert seen == [(0, False, 0), (1, False, 0), (0, False, 10), (1, False, 20)]


def test_what_a_policy_raises_comes_out() -> None:
    class Broken(Policy):
        def tick(self, cpu: Cpu, task: Task) -> bool:
            raise ValueError("at last")

    with pytest.raises(ValueError, match="at last"):
        run(hogs(1000), Broken())


def test_a_choice_that_does_not_wait_is_refused() -> None:
    class Wrong(Policy):
        def dispatch(self, cpu: Cpu, waiting: Sequence[Task], current: Task | None) -> Task | None:
            return waiting[0]._replace(id=7)

    with pytest.raises(
        InputError, match=r"returned task 7, which does not wait there; waiting: 0, 1"
    ):
        run(hogs(30, 30), Wrong())

    class Number(Policy):
        def dispatch(self, cpu: Cpu, waiting: Sequence[Task], current: Task | None) -> Task | None:
            return 0  # type: ignore[return-value]

    with pytest.raises(TypeError, match="one of waiting, current, None"):
        run(hogs(30, 30), Number())
