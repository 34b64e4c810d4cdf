"""Real benchmarks from their own packages: started, stopped and read, not rewritten."""

import re
import shutil
from dataclasses import dataclass

from schedlab import processes
from schedlab.errors import InputError, RunError

PACKAGES = {"hackbench": "rt-tests"}
"""The Debian package of each program."""

_CONFIGURATION = re.compile(
    r"Running in (?P<mode>process|threaded) mode with (?P<groups>\d+) groups "
    r"using (?P<fds>\d+) file descriptors each \(== (?P<tasks>\d+) tasks\)"
)
_MESSAGES = re.compile(r"Each sender will pass (?P<loops>\d+) messages of (?P<bytes>\d+) bytes")
_TIME = re.compile(r"^Time: (?P<seconds>[0-9.]+)\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Hackbench:
    """What rt-tests' hackbench said of a run.

    Attributes:
        seconds: its turnaround, to the millisecond.
        tasks: workers.
        messages: messages sent to each receiver by each sender, all together.
        bytes: bytes of all messages.
        threads: whether the workers were threads.
    """

    seconds: float
    tasks: int
    messages: int
    bytes: int
    threads: bool


def hackbench_installed() -> bool:
    """Return whether rt-tests' hackbench is on PATH."""
    return shutil.which("hackbench") is not None


def hackbench(
    *,
    groups: int = 10,
    fds: int = 20,
    loops: int = 100,
    datasize: int = 100,
    pipe: bool = False,
    threads: bool = False,
    timeout: float = 60,
) -> Hackbench:
    """Run rt-tests' hackbench.

    Args:
        groups: groups of senders and receivers.
        fds: senders, and as many receivers, in a group.
        loops: messages from each sender to each receiver.
        datasize: bytes of a message.
        pipe: pipes, not stream sockets.
        threads: threads, not processes.
        timeout: seconds until it is ended.

    Raises:
        InputError: it is not installed, or what it was told is wrong.
        RunError: it failed, did not end in time, or printed something unknown.
    """
    if not hackbench_installed():
        raise InputError("hackbench is not installed; on Debian it is in the package rt-tests")
    command = ["hackbench", f"-g{groups}", f"-f{fds}", f"-l{loops}", f"-s{datasize}"]
    command += ["-T"] if threads else ["-P"]
    command += ["-p"] if pipe else []
    completed = processes.run(command, timeout=timeout)
    if completed.code != 0:
        said = completed.errors.strip() or completed.output.strip()
        raise RunError(f"hackbench ended with code {completed.code}: {said}")
    return read_hackbench(completed.output)


def read_hackbench(text: str) -> Hackbench:
    r"""Read what rt-tests' hackbench printed.

    A group of F descriptors a side has F senders and F receivers, so ``groups`` times F squared
    pairs, each with ``loops`` messages.

    Raises:
        RunError: it is not what hackbench prints.

    >>> read_hackbench(
    ...     "Running in process mode with 5 groups using 40 file descriptors each (== 200 tasks)\n"
    ...     "Each sender will pass 10 messages of 100 bytes\nTime: 0.049\n"
    ... )
    Hackbench(seconds=0.049, tasks=200, messages=20000, bytes=2000000, threads=False)
    """
    found = [pattern.search(text) for pattern in (_CONFIGURATION, _MESSAGES, _TIME)]
    if any(match is None for match in found):
        raise RunError(f"hackbench printed something unknown: {text.strip()[:200]!r}")
    configuration, sent, time = (match for match in found if match is not None)
    groups, tasks = int(configuration["groups"]), int(configuration["tasks"])
    pairs = groups * (tasks // groups // 2) ** 2
    messages = pairs * int(sent["loops"])
    return Hackbench(
        seconds=float(time["seconds"]),
        tasks=tasks,
        messages=messages,
        bytes=messages * int(sent["bytes"]),
        threads=configuration["mode"] == "threaded",
    )
