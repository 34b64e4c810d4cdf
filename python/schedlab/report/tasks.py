"""A run's tasks in the manner of ``perf sched latency``."""

from collections.abc import Iterable
from dataclasses import dataclass

from schedlab.model.outcome import Outcome, TaskOutcome, kind


@dataclass(frozen=True, slots=True)
class TaskRow:
    """One or several equal tasks, all times in nanoseconds.

    Attributes:
        name: the task's, or what the names of several have in common.
        tasks: how many.
        run_ns: on a CPU, their sum.
        voluntary: switches because they went to sleep.
        involuntary: switches because they were preempted.
        migrations: changes of CPU.
        delays: times they became runnable and had to be picked.
        delay_ns: how long that took, their sum.
        max_delay_ns: the longest; 0 where it was not measured.
    """

    name: str
    tasks: int
    run_ns: int
    voluntary: int
    involuntary: int
    migrations: int
    delays: int
    delay_ns: int
    max_delay_ns: int

    @property
    def average_delay_ns(self) -> float:
        """The mean delay, 0 without any."""
        return self.delay_ns / self.delays if self.delays else 0.0


def by_kind(outcome: Outcome) -> list[TaskRow]:
    """Return a row a kind of task, the one with most CPU time first, and the total."""
    groups: dict[str, list[TaskOutcome]] = {}
    for task in outcome.tasks:
        groups.setdefault(kind(task.name), []).append(task)
    return _sorted([_row(name, tasks) for name, tasks in groups.items()], outcome)


def each(outcome: Outcome) -> list[TaskRow]:
    """Return a row a task, the one with most CPU time first, and the total."""
    return _sorted([_row(task.name, [task]) for task in outcome.tasks], outcome)


def _sorted(rows: list[TaskRow], outcome: Outcome) -> list[TaskRow]:
    ordered = sorted(rows, key=lambda row: (-row.run_ns, row.name))
    return [*ordered, _row("TOTAL", outcome.tasks)] if len(rows) > 1 else ordered


def _row(name: str, tasks: Iterable[TaskOutcome]) -> TaskRow:
    members = list(tasks)
    return TaskRow(
        name=name,
        tasks=len(members),
        run_ns=sum(task.run_ns for task in members),
        voluntary=sum(task.voluntary for task in members),
        involuntary=sum(task.involuntary for task in members),
        migrations=sum(task.migrations for task in members),
        delays=sum(task.delays for task in members),
        delay_ns=sum(task.delay_ns for task in members),
        max_delay_ns=max((task.max_delay_ns for task in members), default=0),
    )
