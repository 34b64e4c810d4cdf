"""One workload under six kernels: what did the scheduler do with it?"""

import schedlab

WORKLOAD = "schbench:messages=1,threads=4,duration=2s"
KERNELS = ["2.6.24", "5.10", "6.1", "6.12", "6.18", "7.2", "7.3"]


def main() -> None:
    """Simulate the workload on two CPUs under each kernel and print a line for each."""
    machine = schedlab.Machine(cpus=2, costs="reference")
    print(f"{WORKLOAD} on two CPUs")
    print(f"{'kernel':8} {'switches':>9} {'preempted':>10} {'requests':>9} {'wake-up p99':>12}")
    for kernel in KERNELS:
        outcome = schedlab.simulate(WORKLOAD, scheduler=kernel, machine=machine)
        preempted = sum(task.involuntary for task in outcome)
        woken = outcome.latencies["wakeup work"]
        print(
            f"{kernel:8} {outcome.switches:9} {preempted:10} "
            f"{outcome.latencies['request'].count:9} {woken.p99_ns / 1e3:9.1f} us"
        )


if __name__ == "__main__":
    main()
