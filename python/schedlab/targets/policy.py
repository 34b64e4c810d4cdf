"""Scheduling policies written in Python, for studies where speed does not matter.

A policy takes the place of the fair class in the simulator. Its methods are in the manner of
sched_ext's operations: `Policy.enqueue` as a task starts to wait, `Policy.dispatch` when a CPU
needs one, `Policy.tick` while one runs. ``docs/guides/write-a-policy.md`` goes through an example.

>>> class ShortestSoFar(Policy):
...     def dispatch(self, cpu, waiting, current):
...         return min(waiting, key=lambda task: task.runtime_ns)
...     def tick(self, cpu, task):
...         return task.ran_ns >= 4_000_000
>>> from schedlab.model import Machine
>>> outcome = simulate("hackbench:groups=1,fds=2,loops=1", ShortestSoFar(), scheduler="6.12",
...                    machine=Machine(cpus=1, costs="ideal"))
>>> outcome.messages
8
"""

# ruff: noqa: ARG002 - what a policy does not override looks at nothing that it is given

from collections.abc import Sequence
from typing import NamedTuple

from schedlab import _core
from schedlab.model import Attributes, Machine, Scheduler, Workload, check_seed
from schedlab.model.outcome import Outcome

_CpuFacts = tuple[int, int]
_TaskFacts = tuple[int, int, int, int, int]


class Cpu(NamedTuple):
    """The CPU that asks.

    Attributes:
        id: its number, from 0.
        now_ns: its clock, in nanoseconds.
    """

    id: int
    now_ns: int


class Task(NamedTuple):
    """A task as it is at this moment.

    Attributes:
        id: its number, from 0 in the order in which tasks are made, background tasks among them;
            `Outcome.tasks` has this order, without these.
        nice: -20 to 19.
        weight: 1024 at nice 0.
        runtime_ns: CPU time so far, in nanoseconds.
        ran_ns: of that, since it last took the CPU.
    """

    id: int
    nice: int
    weight: int
    runtime_ns: int
    ran_ns: int


class Policy:
    """A policy: first come, first served, until it is overridden.

    Tasks wait on a CPU, and each CPU is asked for itself; one that runs out of tasks takes the
    first that waits elsewhere. What a policy keeps of a task may be out of date when it is asked
    again (the task may have moved, or another class's task came in between): the `waiting` that
    `dispatch` gets is not.

    Real-time tasks are above the policy and never seen by it.
    """

    def enqueue(self, cpu: Cpu, task: Task, wakeup: bool) -> None:
        """Note that a task starts to wait.

        It woke (`wakeup`), is new, came from another CPU, or ran and had to make room.
        """

    def dispatch(self, cpu: Cpu, waiting: Sequence[Task], current: Task | None) -> Task | None:
        """Choose the next task.

        Args:
            cpu: the CPU that needs a task.
            waiting: the tasks that wait there, in the order in which they came; at least one.
            current: the task that runs and could continue; None if it sleeps, ended or yielded.

        Returns:
            One of `waiting`, or `current`; None to let the current go on, or if there is none the
            first of `waiting`.
        """
        return None

    def tick(self, cpu: Cpu, task: Task) -> bool:
        """Return whether the running task's turn is over; asked at every timer interrupt.

        Then `dispatch` is asked, with the task as its `current` still.
        """
        return False

    def preempt(self, cpu: Cpu, woken: Task, current: Task) -> bool:
        """Return whether a task that has just begun to wait ends the running one's turn."""
        return False


class Calls:
    """What the core calls: makes tuples into `Cpu` and `Task`, and an answer into a number."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def enqueue(self, cpu: _CpuFacts, arguments: tuple[_TaskFacts, bool]) -> None:
        """Call the policy's `enqueue`."""
        task, wakeup = arguments
        self._policy.enqueue(Cpu(*cpu), Task(*task), wakeup)

    def dispatch(
        self, cpu: _CpuFacts, arguments: tuple[list[_TaskFacts], _TaskFacts | None]
    ) -> int | None:
        """Call the policy's `dispatch`."""
        waiting, current = arguments
        running = None if current is None else Task(*current)
        chosen = self._policy.dispatch(Cpu(*cpu), [Task(*task) for task in waiting], running)
        if chosen is not None and not isinstance(chosen, Task):
            raise TypeError(f"dispatch returned {chosen!r}; allowed: one of waiting, current, None")
        return None if chosen is None else chosen.id

    def tick(self, cpu: _CpuFacts, arguments: tuple[_TaskFacts]) -> bool:
        """Call the policy's `tick`."""
        return bool(self._policy.tick(Cpu(*cpu), Task(*arguments[0])))

    def preempt(self, cpu: _CpuFacts, arguments: tuple[_TaskFacts, _TaskFacts]) -> bool:
        """Call the policy's `preempt`."""
        woken, current = arguments
        return bool(self._policy.preempt(Cpu(*cpu), Task(*woken), Task(*current)))


def simulate(
    workload: Workload | str,
    policy: Policy,
    *,
    scheduler: Scheduler | str,
    machine: Machine,
    attributes: Attributes | None = None,
    seed: int = 1,
) -> Outcome:
    """Simulate one run under a policy.

    Args:
        workload: a workload, its text ``name:key=value,…``, or the path of its JSON file.
        policy: in the place of the fair class.
        scheduler: a scheduler or a kernel release: HZ, and the classes above.
        machine: CPUs and costs.
        attributes: scheduling attributes of every task, in place of the workload's own.
        seed: of every random stream.

    Raises:
        InputError: something given is wrong, or `Policy.dispatch` chose a task that does not wait.
        RunError: the run comes to no end, such as a deadlock.
        Exception: whatever the policy's methods raise.
    """
    work = Workload.parse(workload) if isinstance(workload, str) else workload
    if attributes is not None:
        work = work.with_attributes(attributes)
    rules = Scheduler(scheduler) if isinstance(scheduler, str) else scheduler
    text = _core.simulate_policy(
        work.json, rules.json, machine.json, check_seed(seed), Calls(policy)
    )
    return Outcome.from_json(text).with_note(machine.costs.remark)
