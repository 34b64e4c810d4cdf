"""The sched_ext scheduler in a real kernel: shares, hand-overs, storms and rejections, in one boot.

The guest's clock counts instructions (QEMU's ``-icount``), so that what else this machine does
takes no time away inside.
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import needs

from schedlab import _core
from schedlab.boundary.errors import SchedlabError
from schedlab.model import Attributes, Machine, Scheduler, Workload
from schedlab.model.outcome import Outcome
from schedlab.studies.thread_fairness import greedy
from schedlab.targets import ext, group_weights, host, vm
from schedlab.targets.virtual import Virtual
from schedlab.vm import Guest, archive, cached

INSIDE = Path(__file__).parent / "inside.py"
TOLERANCE = 0.03
"""Of all CPU time: what a measured share may be off, as the issue of this scheduler asks."""

NICE = {0: 1024, 5: 335, -5: 3121}
"""`sched_prio_to_weight` (kernel/sched/core.c)."""

pytestmark = [needs.ext_loader, needs.guest]

Line = dict[str, Any]


@pytest.fixture(scope="module")
def guest() -> Iterator[Guest]:
    found = [kernel for kernel in cached() if kernel.series == "7.2"]
    try:
        kernel = found[-1] if found else archive.get("7.2", [])
    except SchedlabError as error:
        pytest.skip(f"NO KERNEL 7.2 TO BOOT: {error}")
    options = ("-icount", "shift=3,sleep=off")
    with Guest.boot(kernel, cpus=2, append="noautogroup", options=options, timeout=400) as booted:
        yield booted


def _inside(guest: Guest, *names: str, timeout: float = 1200.0) -> list[Line]:
    """Run functions of inside.py in the guest, and return the lines that they tell."""
    words = [sys.executable, "-I", "-S", str(INSIDE), str(ext.loader()), str(host.runner())]
    done = guest.run([*words, *names], timeout=timeout)
    assert done.code == 0, done.errors
    return [json.loads(line) for line in done.output.splitlines()]


@pytest.fixture(scope="module")
def fairness(guest: Guest) -> list[Line]:
    return _inside(guest, "fairness")


def _factor(rule: str, threads: int, online: int) -> float:
    """PFS: 1 / Nt. DW-CFS: equation (5) of its paper; on one CPU, where it has no value, as PFS."""
    if rule == "none":
        return 1.0
    if rule == "pfs" or online == 1:
        return 1 / threads
    c, k = 1.2, 11 * online - 12
    return 1.1 - abs(c * (1 + k) / (threads + k) - 1.1)


def _feasible(rule: str, processes: list[list[int]], cpus: int, online: int) -> list[float]:
    """Return each process's share of some CPUs: by weight, but no thread can use two CPUs."""
    weights = [NICE[nice] * _factor(rule, count, online) for count, nice in processes]
    room = float(cpus)
    got = [0.0] * len(processes)
    free = set(range(len(processes)))
    while free:
        total = sum(processes[one][0] * weights[one] for one in free)
        full = {one for one in free if weights[one] * room / total >= 1}
        for one in full or free:
            count = processes[one][0]
            got[one] = count * (1.0 if full else weights[one] * room / total)
        room -= sum(got[one] for one in full)
        free = free - full if full else set()
    return [one / sum(got) for one in got]


def _assert_near(line: Line, expected: list[float]) -> None:
    for found, wanted in zip(line["shares"], expected, strict=True):
        assert abs(found - wanted) <= TOLERANCE, f"{line} instead of {expected}"


def test_water_filling_gives_no_thread_more_than_a_cpu() -> None:
    # 3121 of 4480 would be 1.39 of 2 CPUs: it gets one, and 1024 and 335 share the other.
    nearly = pytest.approx([1024 / 1359 / 2, 335 / 1359 / 2, 0.5])
    assert _feasible("none", [[1, 0], [1, 5], [1, -5]], 2, 2) == nearly
    # Figure 3 of the thread-fairness paper: 1, 1 and 8 threads on one CPU.
    assert _feasible("pfs", [[1, 0], [1, 0], [8, 0]], 1, 1) == pytest.approx([1 / 3] * 3)


def test_shares_on_two_cpus_are_the_feasible_ones_and_those_of_the_simulator(
    fairness: list[Line],
) -> None:
    lines = [line for line in fairness if line["what"] in ("free", "changing")]
    # Per rule: 1 against 2, 4, 8 and 32 threads, two of mixed nice levels, one after a CPU came
    # back, and 8, 1 and 7 threads of one process as they end and are made.
    assert len(lines) == 3 * (4 + 2 + 1 + 3)
    for line in lines:
        _assert_near(line, _feasible(line["rule"], line["processes"], 2, 2))
        _assert_near(line, _simulated(line["rule"], line["processes"], []))


def test_shares_on_a_cpu_are_the_feasible_ones_and_those_of_the_simulator(
    fairness: list[Line],
) -> None:
    lines = [line for line in fairness if line["what"] == "pinned"]
    assert len(lines) == 3 * 4
    for line in lines:
        _assert_near(line, _feasible(line["rule"], line["processes"], 1, 2))
        _assert_near(line, _simulated(line["rule"], line["processes"], [0]))


def _simulated(
    rule: str, processes: list[list[int]], affinity: list[int], cpus: int = 2
) -> list[float]:
    """Return the shares of processes that the simulator predicts for the scheduler.

    From the start on, where 33 threads begin together: of 8 s that is as little as of the window of
    4 s, once that has settled.
    """
    tasks: list[dict[str, Any]] = []
    for number, (count, nice) in enumerate(processes):
        run = {"run": {"fixed": "17s"}}
        fork = {"fork": {"task": f"p{number}t", "count": count - 1}}
        attributes = {"nice": nice, "affinity": affinity}
        steps = [*([fork] if count > 1 else []), run, "join"]
        tasks.append(
            {"name": f"p{number}", "instances": 1, "attributes": attributes, "steps": steps}
        )
        tasks.append({"name": f"p{number}t", "kind": "thread", "steps": [run]})
    described = {"name": "shares", "tasks": tasks, "duration": "8s"}
    work = Workload.from_dict(described)
    rules = Scheduler("7.2", weights=rule)
    # What --policy ext:RULE simulates; as attributes it would take the nice levels' place.
    text = _core.simulate(work.json, rules.json, Machine(cpus, "ideal").json, 1, ext=True)
    got = [0] * len(processes)
    for task in Outcome.from_json(text).tasks:
        got[int(task.name[1])] += task.run_ns
    return [one / sum(got) for one in got]


def test_a_cpu_off_line_changes_the_weights_at_once(fairness: list[Line]) -> None:
    lines = [line for line in fairness if line["what"] == "unplugged"]
    assert len(lines) == 3
    for line in lines:
        _assert_near(line, _feasible(line["rule"], line["processes"], 1, 1))
        _assert_near(line, _simulated(line["rule"], line["processes"], [], cpus=1))
    reports = [line for line in fairness if line["what"] == "report"]
    # Off and on again, and the scheduler stayed loaded.
    assert [(line["hotplugs"], line["ejected"]) for line in reports] == [(2, None)] * 3


def test_the_kernels_class_is_back_after_unloading_and_after_kill_9(guest: Guest) -> None:
    lines = _inside(guest, "handing_back")
    assert [line["how"] for line in lines] == ["SIGTERM"] * 2 + ["SIGKILL"] * 2
    for line in lines:
        # 1 and 4 threads on a CPU: halves under PFS, a fifth and four under EEVDF.
        _assert_near(line, [0.5, 0.5] if line["what"] == "held" else [0.2, 0.8])


def test_order_holds_across_queues_of_cpus(guest: Guest) -> None:
    (line,) = _inside(guest, "per_cpu_queues")
    _assert_near(line, _feasible("pfs", line["processes"], 2, 2))


def test_threads_ahead_of_the_others_are_not_starved(guest: Guest) -> None:
    bound, alone, *shared, first_held, second_held = _inside(guest, "behind")
    # 15 of 2063: 87 ms of the 12 s that two CPUs have in 6, some ten slices of 8 ms. At least half
    # of them come, and no more than twice as many: a CPU that finds the thread it had chosen gone
    # to the other one gives a slice out of turn. The guest's CPUs run by turns, so that one stands
    # still for milliseconds in the middle of that; 10.7 per mille were seen for that, in 60 times.
    due = 15 / 2063
    assert 0.5 * due < bound["shares"][2] < 2 * due
    # Eight are bound to CPU 0: CPU 1 is left to one thread for 6 s, and is then halved with
    # another.
    # If what it had alone were held against it, it would get nothing in the first two windows,
    # which end after 5 s: it gets at least half of its due in each. Twice in more than 800 such
    # runs something was made up for in the first windows, for a cause not known (31 and 69 %; 41
    # and 59 %, and then 47 and 53 %), so three of the five have to be even.
    assert alone["shares"][0] > 0.9
    got = [line["shares"][0] for line in shared]
    assert len(got) == 5
    assert min(got) > 0.25, got
    assert sum(abs(share - 0.5) <= TOLERANCE for share in got) >= 3, got
    assert first_held["held"]
    assert second_held["held"]


def test_a_clock_that_leaps_takes_nothing_from_the_current_thread(guest: Guest) -> None:
    (line,) = _inside(guest, "jumping")
    # Both processes' threads run on the same CPU: however far their queue is moved, halves.
    _assert_near(line, [0.5, 0.5])


def test_the_lag_cap_lets_the_least_of_threads_run(guest: Guest) -> None:
    (line,) = _inside(guest, "extremes")
    # By weight it has 15 of 88776, 2 ms of 12 s, and would wait for 30 s. The cap of 500 ms counts
    # both CPUs, of which one is shared: a slice a second, of 5 ms at least and 2 ticks at most.
    assert line["held"]
    assert 0.03e9 < line["ran"] < 0.4e9


def test_a_starving_thread_costs_the_scheduler_its_place(guest: Guest) -> None:
    (line,) = _inside(guest, "stall")
    assert line["code"] == 1
    assert re.fullmatch(
        r"schedlab-ext: the kernel took scheduling back: runnable task stall "
        r"\(.* failed to run for .*\); its own class schedules again\n",
        line["said"],
    )


def test_a_storm_of_threads_and_fifty_loads_leave_a_clean_log(guest: Guest) -> None:
    guest.run(["dmesg", "--clear"])
    (storm,) = _inside(guest, "storm")
    assert (storm["held"], storm["state"]) == (True, "enabled")
    # Its weight is that of all 201 others: it may use one of the two CPUs, less what forks take.
    assert storm["beside"] > 0.85
    (loads,) = _inside(guest, "loads", timeout=2400)
    assert (loads["codes"], loads["state"]) == ([0] * 50, "disabled")
    ordinary = re.compile(
        r'sched_ext: BPF scheduler "schedlab" (enabled|disabled \(unregistered from user space\))'
    )
    log = guest.run(["dmesg", "--notime"]).output.splitlines()
    assert [line for line in log if line and not ordinary.fullmatch(line)] == []
    assert sum("enabled" in line for line in log) == 51


def test_a_rejected_scheduler_is_told_in_a_line_and_changes_nothing(guest: Guest) -> None:
    source = Path(__file__).parents[2] / "crates/ext/bpf/thread_fair.bpf.o"
    # r6 = *(u64 *)(r1 + 0) is how programs begin that read their context; r9 was never written.
    begin, broken = bytes.fromhex("7916000000000000"), bytes.fromhex("7996000000000000")
    data = source.read_bytes()
    assert begin in data
    (guest.shared / "broken.o").write_bytes(data.replace(begin, broken, 1))
    command = f"{ext.loader()} run --weights pfs --object $OUT/broken.o -- true"
    done = guest.run(["sh", "-c", command])
    assert done.code == 2
    assert re.fullmatch(
        r"schedlab-ext: kernel \S+ does not take the scheduler: its verifier says of '\w+': "
        r".*R9 !read_ok.*; nothing was changed\n",
        done.errors,
    )
    assert guest.run(["cat", "/sys/kernel/sched_ext/state"]).output == "disabled\n"


def test_a_second_scheduler_no_types_and_no_root_are_refused(guest: Guest) -> None:
    loader = ext.loader()
    second = f"{loader} run --weights pfs --quiet -- {loader} run --weights none -- true"
    done = guest.run(["sh", "-c", second])
    assert done.code == 2
    assert "the sched_ext scheduler 'schedlab' runs on this kernel" in done.errors
    hidden = f"mount -t tmpfs none /sys/kernel/btf; {loader} run --weights pfs -- true; code=$?; "
    done = guest.run(["sh", "-c", hidden + "umount /sys/kernel/btf; exit $code"])
    assert done.code == 2
    assert "does not describe its types (/sys/kernel/btf/vmlinux is missing)" in done.errors
    user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    done = guest.run([*user, str(loader), "run", "--weights", "pfs", "--", "true"])
    assert done.code == 2
    assert "needs root" in done.errors
    assert done.errors.count("\n") == 1
    assert guest.run(["cat", "/sys/kernel/sched_ext/state"]).output == "disabled\n"


def test_workloads_run_under_the_policy(guest: Guest) -> None:
    guest.run(["dmesg", "--clear"])
    seen = vm.run("hogs:tasks=2,time=50ms", guest, attributes=Attributes("ext:dw-cfs"))
    assert [task.run_ns > 0 for task in seen.tasks] == [True] * len(seen.tasks)
    log = guest.run(["dmesg"]).output
    assert log.count('BPF scheduler "schedlab" enabled') == 1


def test_a_controller_of_group_weights_gives_processes_equal_shares(guest: Guest) -> None:
    # Under the kernel's own class 1 and 4 threads on a CPU have 20 and 80 %; by processes, halves.
    processes = [
        greedy.process(name, count, 5_000_000_000, affinity=(0,))
        for name, count in (("A", 1), ("B", 4))
    ]
    described = json.loads(greedy.workload("pair", processes).json) | {"duration": "3s"}
    work = Workload.from_dict(described)
    for around, expected in (((), 0.2), (group_weights.around("pfs", 2), 0.5)):
        outcome = vm.run(work, guest, around=around, timeout=120)
        got = {"A": 0, "B": 0}
        for task in outcome.tasks:
            got[task.name[0]] += task.run_ns
        assert abs(got["A"] / sum(got.values()) - expected) < TOLERANCE, (around, got)
    assert guest.run(["ls", "-d", "/sys/fs/cgroup/schedlab-weights"]).code != 0


def test_commands_run_under_the_policy_and_no_longer(guest: Guest) -> None:
    place = Virtual(guest.kernel.release, cpus=1)
    try:
        look = ["cat", "/sys/kernel/sched_ext/state"]
        under = place.execute(look, attributes=Attributes("ext:pfs", nice=1), timeout=300)
        assert under.output == "enabled\n"
        assert place.execute(look, timeout=300).output == "disabled\n"
    finally:
        place.close()
