"""What the tests of the sched_ext scheduler do inside a guest: start processes, see what they get.

It runs with the guest's bare Python, as importing packages takes long where instructions are
translated. Functions print lines of JSON; arguments are the loader, the native runner and the names
of functions.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

# Without them it is only read, as by a search for doctests.
LOADER, NATIVE = sys.argv[1:3] if __name__ == "__main__" else ("", "")
RULES = ("none", "pfs", "dw-cfs:beta=1.1")
CPU1 = Path("/sys/devices/system/cpu/cpu1/online")
SETTLE = 0.5
AT_ONCE = 0.002
LONG = "500s"

Process = dict[str, Any]


def processes(*counts: tuple[int, int], cpu: int | None = None) -> list[Process]:
    """Return processes that compute for ever: so many threads, at such a nice level, on a CPU."""
    return [
        {"threads": threads, "nice": nice, "affinity": [] if cpu is None else [cpu]}
        for threads, nice in counts
    ]


def workload(described: list[Process]) -> str:
    """Return the native runner's workload: each process's first thread makes the others."""
    tasks: list[dict[str, Any]] = []
    for number, process in enumerate(described):
        name = f"p{number}"
        steps = process.get("steps")
        if steps is None:
            fork = {"fork": {"task": f"{name}t", "count": process["threads"] - 1}}
            steps = [fork] if process["threads"] > 1 else []
            steps = [*steps, {"run": {"fixed": LONG}}, "join"]
        kept = ("nice", "affinity", "policy")
        attributes = {key: process[key] for key in kept if key in process}
        tasks.append({"name": name, "instances": 1, "attributes": attributes, "steps": steps})
        for kind, length in process.get("kinds", {"t": LONG}).items():
            run = {"run": {"fixed": length}}
            tasks.append({"name": name + kind, "kind": "thread", "steps": [run]})
    return json.dumps({"name": "shares", "tasks": tasks})


def children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [int(word) for word in (task / "children").read_text().split()]
    return found


def threads(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/task"))  # noqa: PTH208 - only counted


def has_threads(pid: int, count: int) -> bool:
    return threads(pid) == count


def cpu_time(pid: int) -> int:
    """Return the CPU time of a process's threads in nanoseconds, those that ended included."""
    # Another process's clock, of kind CPUCLOCK_SCHED (make_process_cpuclock, posix-timers.h).
    return time.clock_gettime_ns((~pid << 3) | 2)


def cpu_times(pids: list[int]) -> list[int]:
    """Return processes' CPU times of one instant: a reader that was interrupted reads again."""
    for _ in range(100):
        began = time.monotonic()
        found = [cpu_time(pid) for pid in pids]
        if time.monotonic() - began < AT_ONCE:
            break
    return found


@contextmanager
def scheduling(rule: str, *options: str) -> "Iterator[subprocess.Popen[str]]":
    """Have the scheduler schedule for the time of a block."""
    command = [
        LOADER,
        "run",
        "--weights",
        rule,
        "--quiet",
        "--ready",
        "--report",
        "/dev/shm/report",
    ]
    loader = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True)
    assert loader.stdout is not None
    assert loader.stdout.readline() == "ready\n"
    try:
        yield loader
    finally:
        if loader.poll() is None:
            loader.terminate()
        loader.wait()


@contextmanager
def running(described: list[Process], counts: list[int] | None = None) -> Iterator[list[int]]:
    """Run processes for the time of a block; gives their ids once all threads are there."""
    runner = subprocess.Popen(
        [NATIVE, "run", "-", "--timeout=400s"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert runner.stdin is not None
    runner.stdin.write(workload(described))
    runner.stdin.close()
    try:
        wanted = counts or [process["threads"] for process in described]
        pids: list[int] = []
        until(lambda: found_all(runner.pid, pids, wanted))
        yield pids
    finally:
        runner.send_signal(signal.SIGTERM)
        runner.wait()


def found_all(runner: int, pids: list[int], wanted: list[int]) -> bool:
    pids[:] = sorted(children(runner))
    # The runner keeps one process between itself and the workload's.
    if len(pids) == 1 and len(wanted) > 1:
        pids[:] = sorted(children(pids[0]))
    # 0 wanted stands for any number.
    return len(pids) == len(wanted) and all(
        count in (0, threads(pid)) for pid, count in zip(pids, wanted, strict=True)
    )


def until(condition: Callable[[], bool], limit: float = 200.0) -> None:
    """Wait; seconds are the guest's, which pass at once while it waits for files."""
    deadline = time.monotonic() + limit
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{condition} did not come true")
        time.sleep(0.05)


def shares(pids: list[int], window: float) -> list[float]:
    """Return what part each process gets of what all get, for some seconds from now."""
    time.sleep(SETTLE)
    before = cpu_times(pids)
    time.sleep(window)
    used = [now - past for now, past in zip(cpu_times(pids), before, strict=True)]
    return [one / sum(used) for one in used]


def tell(what: str, rule: str, **values: object) -> None:
    sys.stdout.write(json.dumps({"what": what, "rule": rule, **values}) + "\n")
    sys.stdout.flush()


def fairness() -> None:
    """Measure shares under each rule: of free, pinned and changing processes, and on one CPU."""
    for rule in RULES:
        with scheduling(rule) as loader:
            for many in (2, 4, 8, 32):
                free(rule, (1, 0), (many, 0))
            free(rule, (1, 0), (4, 5))
            free(rule, (1, 0), (1, 5), (1, -5))
            for one, other in ((2, 4), (8, 32)):
                pinned(rule, one, other)
            changing(rule)
            unplugged(rule)
            assert loader.poll() is None, "the scheduler was taken away"
        tell("report", rule, **json.loads(Path("/dev/shm/report").read_text()))


def free(rule: str, *counts: tuple[int, int], window: float = 2.0) -> None:
    with running(processes(*counts)) as pids:
        tell("free", rule, processes=counts, shares=shares(pids, window))


def pinned(rule: str, *counts: int) -> None:
    """1 against m on each of the two CPUs at once: two questions for the time of one."""
    described = [
        one for cpu, many in enumerate(counts) for one in processes((1, 0), (many, 0), cpu=cpu)
    ]
    # The window may end anywhere in a round of 33 slices: 2 s were up to 2 points off for that.
    with running(described) as pids:
        found = shares(pids, 4.0)
    for cpu, many in enumerate(counts):
        pair = found[2 * cpu : 2 * cpu + 2]
        both = [share / sum(pair) for share in pair]
        tell("pinned", rule, processes=[(1, 0), (many, 0)], shares=both)


def changing(rule: str) -> None:
    """A process of two threads beside one that has 8, then 1 as seven end, then 7 as six come."""
    [beside, other] = processes((2, 0), (8, 0))
    other["kinds"] = {"short": "300ms", "late": LONG}
    other["steps"] = [
        {"fork": {"task": "p1short", "count": 7}},
        {"run": {"fixed": "2500ms"}},
        {"fork": {"task": "p1late", "count": 6}},
        {"run": {"fixed": LONG}},
        "join",
    ]
    with running([beside, other]) as pids:
        for count in (8, 1, 7):
            until(partial(has_threads, pids[1], count))
            before, began = cpu_times(pids), time.monotonic()
            # What was counted last while the number of threads was still the same.
            after = before
            while threads(pids[1]) == count and time.monotonic() < began + 2.5:
                seen = cpu_times(pids)
                if threads(pids[1]) == count:
                    after = seen
                time.sleep(0.1)
            used = [now - past for now, past in zip(after, before, strict=True)]
            found = [one / sum(used) for one in used]
            tell("changing", rule, processes=[(2, 0), (count, 0)], shares=found)


def unplugged(rule: str) -> None:
    with running(processes((1, 0), (4, 0))) as pids:
        CPU1.write_text("0")
        try:
            found = shares(pids, 2.0)
            tell("unplugged", rule, processes=[(1, 0), (4, 0)], shares=found)
        finally:
            CPU1.write_text("1")
        # Starting a CPU takes time from those that run, which is made up for first.
        time.sleep(1)
        found = shares(pids, 2.0)
        tell("free", rule, processes=[(1, 0), (4, 0)], shares=found)


def handing_back() -> None:
    """Unload, and kill the loader: what the kernel's own class gives then is its own."""
    with running(processes((1, 0), (4, 0), cpu=0)) as pids:
        for how in (signal.SIGTERM, signal.SIGKILL):
            with scheduling("pfs") as loader:
                tell("held", "pfs", how=how.name, shares=shares(pids, 1.5))
                loader.send_signal(how)
                loader.wait()
                until(lambda: state() == "disabled")
                tell("back", "kernel", how=how.name, shares=shares(pids, 1.5))


def per_cpu_queues() -> None:
    """One queue a CPU: shares hold across queues within the stated bound."""
    with scheduling("pfs", "--queues=cpu"), running(processes((1, 0), (4, 0), (2, 0))) as pids:
        # A window may end while a thread is ahead on one queue, which counts the less the longer it
        # is: 3 s were once 3.4 points off.
        found = shares(pids, 6.0)
        tell("queues", "pfs", processes=[(1, 0), (4, 0), (2, 0)], shares=found)


def behind() -> None:
    """Measure threads that are ahead of the others' virtual time: no other thread may starve them.

    One is bound to a CPU and weighs little, beside two that may run anywhere. One had a CPU for
    itself while the other CPU was crowded, and then has to share it. And one that runs now and then
    is beside many that are bound to CPUs: how long it takes to end all of them.
    """
    with scheduling("none", "--watchdog=4s") as loader:
        with running([*processes((1, 0), (1, 0)), *processes((1, 19), cpu=0)]) as pids:
            tell("bound", "none", shares=shares(pids, 6.0))
        with running([*processes((8, 0), cpu=0), *processes((1, 0))]) as [_, alone]:
            before = cpu_time(alone)
            time.sleep(6)
            tell("alone", "none", shares=[(cpu_time(alone) - before) / 6e9])
            with running(processes((1, 0), cpu=1)) as [late]:
                for _ in range(5):
                    tell("shared", "none", shares=shares([alone, late], 2.0))
        held = loader.poll() is None
    tell("behind", "none", held=held)
    with scheduling("pfs", "--watchdog=4s") as loader:
        for _ in range(12):
            bound = [*processes((1, 0), (2, 0), cpu=0), *processes((1, 0), (4, 0), cpu=1)]
            with running(bound):
                time.sleep(0.1)
        held = loader.poll() is None
    tell("behind", "pfs", held=held)


def jumping() -> None:
    """Measure two processes bound to a CPU while the other one moves the clock by leaps.

    There a thread of nice 19 runs for 10 ms now and then, 683 ms of virtual time. On the CPU of the
    two a real-time thread preempts the current one in between, without a pick.
    """

    def now_and_then(time_on: str, time_off: str, **attributes: object) -> Process:
        round_of = [{"run": {"fixed": time_on}}, {"sleep": {"fixed": time_off}}]
        steps = [{"loop": {"count": 100_000, "steps": round_of}}]
        return {"threads": 1, "nice": 0, "kinds": {}, "steps": steps, **attributes}

    leaper = now_and_then("10ms", "90ms", nice=19, affinity=[1])
    interrupter = now_and_then("200us", "3ms", affinity=[0], policy={"fifo": 1})
    with scheduling("pfs") as loader:
        with running([*processes((1, 0), (4, 0), cpu=0), leaper, interrupter]) as pids:
            tell("jumping", "pfs", shares=shares(pids[:2], 6.0))
        assert loader.poll() is None, "the scheduler was taken away"


def extremes() -> None:
    """Nice -20 against 19 on a CPU: the lag cap lets the little one run every now and then."""
    options = ("--lag-cap=500ms", "--watchdog=5s")
    with (
        scheduling("none", *options) as loader,
        running(processes((1, -20), (1, 19), cpu=0)) as pids,
    ):
        before = cpu_time(pids[1])
        time.sleep(12)
        tell("extremes", "none", ran=cpu_time(pids[1]) - before, held=loader.poll() is None)


def storm() -> None:
    """For a minute 200 threads that live for some milliseconds, time and again, beside another."""
    storm = processes((1, 0))[0]
    storm["kinds"] = {"t": "5ms"}
    round_of = [{"fork": {"task": "p0t", "count": 200}}, "join"]
    storm["steps"] = [{"loop": {"count": 4000, "steps": round_of}}]
    with scheduling("pfs") as loader, running([storm, *processes((1, 0))], [0, 1]) as pids:
        began, past = time.monotonic(), cpu_time(pids[1])
        time.sleep(60)
        share = (cpu_time(pids[1]) - past) / (time.monotonic() - began) / 1e9
        tell("storm", "pfs", held=loader.poll() is None, state=state(), beside=share)


def loads() -> None:
    """Load and unload fifty times."""
    codes = [
        subprocess.run([LOADER, "run", "--weights", "pfs", "--quiet", "--", "true"], check=False)
        for _ in range(50)
    ]
    tell("loads", "pfs", codes=[done.returncode for done in codes], state=state())


def stall() -> None:
    """Leave a thread without a CPU for longer than the watchdog bears."""
    for cpu in (0, 1):
        # Else the kernel sets some time aside for ordinary tasks beside real-time ones.
        for server in ("ext_server", "fair_server"):
            Path(f"/sys/kernel/debug/sched/{server}/cpu{cpu}/runtime").write_text("0")
    Path("/proc/sys/kernel/sched_rt_runtime_us").write_text("-1")
    command = [LOADER, "run", "--weights", "pfs", "--quiet", "--watchdog=1s", "--", "sleep", "9"]
    loader = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    until(lambda: state() == "enabled")
    with running(processes((1, 0), cpu=1)):
        # It ends by itself: kernel threads of its CPU starve too, and all else may wait for them.
        hog = "import os,time\nos.sched_setaffinity(0,[1])\n"
        hog += "os.sched_setscheduler(0,os.SCHED_FIFO,os.sched_param(5))\n"
        hog += "end=time.monotonic()+4\nwhile time.monotonic()<end: pass"
        subprocess.run([sys.executable, "-I", "-S", "-c", hog], check=True)
        until(lambda: state() == "disabled")
    said = loader.communicate()[1]
    tell("stall", "pfs", code=loader.returncode, said=said)


def state() -> str:
    return Path("/sys/kernel/sched_ext/state").read_text().strip()


if __name__ == "__main__":
    for name in sys.argv[3:]:
        globals()[name]()
