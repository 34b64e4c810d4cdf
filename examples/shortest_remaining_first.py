"""A scheduling policy in Python: whoever has least left to do runs.

The policy is told how much CPU time each task needs, as a batch system might be. No other order has
a smaller mean time to the end; the longest task pays for that.
"""

# ruff: noqa: ARG002 - a policy's methods need not look at all that they are given

from collections.abc import Sequence

import schedlab
from schedlab.targets.policy import Cpu, Policy, Task, simulate

NEEDS_MS = [80, 20, 50, 10]


class ShortestRemainingFirst(Policy):
    """Pick by what is left, and let a task that comes with less left take the CPU."""

    def __init__(self, needs_ms: Sequence[int]) -> None:
        """Remember what each task needs, in milliseconds."""
        self._needs = [1_000_000 * need for need in needs_ms]

    def _left(self, task: Task) -> tuple[int, int]:
        return (self._needs[task.id] - task.runtime_ns, task.id)

    def dispatch(self, cpu: Cpu, waiting: Sequence[Task], current: Task | None) -> Task | None:
        """Choose whoever has least left, the running task among them."""
        everybody = [*waiting, *([current] if current else [])]
        return min(everybody, key=self._left)

    def preempt(self, cpu: Cpu, woken: Task, current: Task) -> bool:
        """Say whether a task that woke has less left than the one that runs."""
        return self._left(woken) < self._left(current)


def main() -> None:
    """Print when each task ends, under the policy and under EEVDF."""
    tasks = {f"needs {need} ms": {"loop": 1, "run": 1000 * need} for need in NEEDS_MS}
    workload = schedlab.Workload.from_dict({"tasks": tasks})
    machine = schedlab.Machine(cpus=1, costs="ideal")
    kernel = schedlab.Scheduler("6.12", hz=1000)
    ours = simulate(workload, ShortestRemainingFirst(NEEDS_MS), scheduler=kernel, machine=machine)
    fair = schedlab.simulate(workload, scheduler=kernel, machine=machine)
    print(f"{'task':12} {'shortest first':>15} {'EEVDF':>10}")
    for one, other in zip(ours, fair, strict=True):
        print(f"{one.name:12} {one.life_ns / 1e6:12.1f} ms {other.life_ns / 1e6:7.1f} ms")
    means = [
        sum(task.life_ns for task in outcome) / len(NEEDS_MS) / 1e6 for outcome in (ours, fair)
    ]
    print(f"{'mean':12} {means[0]:12.1f} ms {means[1]:7.1f} ms")


if __name__ == "__main__":
    main()
