"""A small controller of control groups' weights: PFS and DW-CFS where there is no sched_ext.

It runs a command and puts every process below it into a separate control group, whose
``cpu.weight`` follows the number of the process's threads: threads times the rule's factor, as all
of them share it. It follows the processes that first threads make; nice levels count among the
threads of a process then, not between processes.

`around` gives the words that go before a command. The file itself is that program: it imports
nothing but the standard library, as a guest's Python starts it where every import takes long.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_OWN = _ROOT / "schedlab-weights"
_ONE = 100
"""``cpu.weight`` of a process of one thread."""

_LEAST, _MOST = 1, 10_000
"""What ``cpu.weight`` may be (Documentation/admin-guide/cgroup-v2.rst)."""

_EVERY = 0.02
"""Seconds from one look to the next."""

_THREADS = 64


def around(rule: str, cpus: int) -> list[str]:
    """Return the words that run a command under the controller.

    Args:
        rule: ``pfs`` or ``dw-cfs:beta=1.1``, whose factors come from the simulator's rules.
        cpus: on line.

    >>> around("pfs", 1)[:3] == [sys.executable, "-I", "-S"]
    True
    """
    from schedlab import _core  # noqa: PLC0415 - the program itself has no package around it

    weights = [
        weight(_core.thread_weight_factor(rule, threads, cpus), threads)
        for threads in range(1, _THREADS + 1)
    ]
    return [sys.executable, "-I", "-S", __file__, json.dumps(weights), "--"]


def weight(factor: float, threads: int) -> int:
    """Return the weight of a process's group.

    >>> weight(1 / 8, 8), weight(1.1, 4), weight(1.0, 1)
    (100, 440, 100)
    """
    return min(max(round(_ONE * factor * threads), _LEAST), _MOST)


def _read(path: str) -> bytes:
    file = os.open(path, os.O_RDONLY)
    try:
        return os.read(file, 4096)
    finally:
        os.close(file)


class _Controller:
    def __init__(self, weights: Sequence[int]) -> None:
        self._weights = weights
        self._now: dict[int, int] = {}

    def look(self, process: int) -> None:
        """Give a process and all below it the weights that they should have by now."""
        with suppress(OSError):
            # num_threads is the 18th field behind the name (proc_pid_stat(5)).
            fields = _read(f"/proc/{process}/stat").rpartition(b")")[2].split()
            wanted = self._weights[min(int(fields[17]), len(self._weights)) - 1]
            if self._now.get(process) != wanted:
                group = _OWN / str(process)
                if process not in self._now:
                    group.mkdir(exist_ok=True)
                    (group / "cgroup.procs").write_text(str(process))
                (group / "cpu.weight").write_text(str(wanted))
                self._now[process] = wanted
            for child in _read(f"/proc/{process}/task/{process}/children").split():
                self.look(int(child))

    def end(self) -> None:
        """Remove the groups; a process left in one stays, with its group."""
        for process in self._now:
            with suppress(OSError):
                (_OWN / str(process)).rmdir()
        with suppress(OSError):
            _OWN.rmdir()


def _main(weights: Sequence[int], command: Sequence[str]) -> int:
    _OWN.mkdir(exist_ok=True)
    for group in (_ROOT, _OWN):
        (group / "cgroup.subtree_control").write_text("+cpu")
    child = subprocess.Popen(command)
    for asked in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(asked, lambda number, _frame: child.send_signal(number))
    # It is late if those that it holds back keep it from the CPU.
    with suppress(OSError):
        os.nice(-20)
    controller = _Controller(weights)
    while (code := child.poll()) is None:
        controller.look(child.pid)
        time.sleep(_EVERY)
    controller.end()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(_main(json.loads(sys.argv[1]), sys.argv[3:]))
