"""Which slice serves a latency? Of EEVDF's one knob, simulated.

A task that computes 1 ms in every 10 ms shares a CPU with three that only compute.
"""

import schedlab

WORKLOAD = {
    "name": "one that waits and three that do not",
    "global": {"duration": 5},
    "tasks": {
        "interactive": {
            "loop": -1,
            "run": 1000,
            "timer": {"ref": "unique", "period": 10000},
        },
        "batch": {"instance": 3, "loop": -1, "run": 1000000},
    },
}


def main() -> None:
    """Print for each slice how long the interactive task waited, and how often CPUs switched."""
    workload = schedlab.Workload.from_dict(WORKLOAD)
    machine = schedlab.Machine(cpus=1, costs="ideal")
    print(f"{'base_slice':>10} {'mean delay':>11} {'longest':>10} {'switches':>9}")
    for base_slice in ["1ms", "3ms", "6ms", "12ms", "24ms"]:
        scheduler = schedlab.Scheduler("6.12", hz=1000, base_slice=base_slice)
        outcome = schedlab.simulate(workload, scheduler=scheduler, machine=machine)
        task = next(task for task in outcome if task.name == "interactive")
        mean, longest = task.delay_ns / task.delays / 1e6, task.max_delay_ns / 1e6
        print(f"{base_slice:>10} {mean:8.2f} ms {longest:7.2f} ms {outcome.switches:9}")


if __name__ == "__main__":
    main()
