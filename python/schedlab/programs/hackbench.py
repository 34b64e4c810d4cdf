"""rt-tests' ``hackbench``."""

import re
from dataclasses import dataclass
from typing import ClassVar

from schedlab.experiment.subjects import Metric
from schedlab.model import Attributes
from schedlab.programs.program import Option, Program, Start, find, need, reading_output

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
    return find("hackbench") is not None


def hackbench(
    *,
    groups: int = 10,
    fds: int = 20,
    loops: int = 100,
    datasize: int = 100,
    pipe: bool = False,
    threads: bool = False,
    timeout: float = 60,
    attributes: Attributes | None = None,
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
        attributes: of its tasks.

    Raises:
        InputError: it is not installed, or what it was told is wrong.
        RunError: it failed, did not end in time, or printed something unknown.
    """
    command = [need("hackbench"), f"-g{groups}", f"-f{fds}", f"-l{loops}", f"-s{datasize}"]
    command += ["-T"] if threads else ["-P"]
    command += ["-p"] if pipe else []
    return read_hackbench(Start(attributes, timeout).run(command).output)


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
    with reading_output("hackbench", text):
        configuration, sent, time = (match.groupdict() for match in found if match is not None)
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


class RtHackbench(Program):
    """rt-tests' hackbench as the subject of an experiment.

    >>> RtHackbench.parse("rt-hackbench:groups=5,loops=10").name
    'rt-hackbench:groups=5,fds=20,loops=10,datasize=100,pipe=0,threads=0'
    """

    __slots__ = ()
    family = "rt-hackbench"
    table: ClassVar = {
        "groups": Option("10", high=100_000),
        "fds": Option("20", high=10_000),
        "loops": Option("100", high=1_000_000_000),
        "datasize": Option("100", "size", high=2**20),
        "pipe": Option("0", low=0, high=1),
        "threads": Option("0", low=0, high=1),
    }
    metrics = (Metric.known("seconds"),)

    def needs(self) -> tuple[str, ...]:
        """Return hackbench."""
        return ("hackbench",)

    def run(self, start: Start) -> dict[str, float]:
        """Run it once."""
        result = hackbench(
            groups=self.count("groups"),
            fds=self.count("fds"),
            loops=self.count("loops"),
            datasize=self.count("datasize"),
            pipe=bool(self.count("pipe")),
            threads=bool(self.count("threads")),
            timeout=start.timeout,
            attributes=start.attributes,
        )
        return {"seconds": result.seconds}
