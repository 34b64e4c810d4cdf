"""``perf bench sched messaging`` and ``perf bench sched pipe``."""

from typing import ClassVar

from schedlab.boundary.errors import RunError
from schedlab.experiment.subjects import Metric
from schedlab.programs.program import Option, Program, Start, need, number


class Messaging(Program):
    """``perf bench sched messaging``: hackbench as perf ships it.

    >>> Messaging.parse("perf-messaging:groups=2").name
    'perf-messaging:groups=2,loops=100,pipe=0,threads=0'
    """

    __slots__ = ()
    family = "perf-messaging"
    table: ClassVar = {
        "groups": Option("10", high=1000),
        "loops": Option("100"),
        "pipe": Option("0", low=0, high=1),
        "threads": Option("0", low=0, high=1),
    }
    metrics = (Metric.known("seconds"),)

    def needs(self) -> tuple[str, ...]:
        """Return perf."""
        return ("perf",)

    def run(self, start: Start) -> dict[str, float]:
        """Run it once; perf prints the seconds it took."""
        command = [need("perf"), "bench", "-f", "simple", "sched", "messaging"]
        command += ["-g", str(self.count("groups")), "-l", str(self.count("loops"))]
        command += ["-p"] * self.count("pipe") + ["-t"] * self.count("threads")
        return {"seconds": _seconds(start.run(command).output)}


class Pipe(Program):
    """``perf bench sched pipe``: two tasks that hand a word to and fro.

    >>> Pipe.parse("perf-pipe").name
    'perf-pipe:loops=100000,threads=0'
    """

    __slots__ = ()
    family = "perf-pipe"
    table: ClassVar = {
        "loops": Option("100000", high=1_000_000_000),
        "threads": Option("0", low=0, high=1),
    }
    metrics = (Metric.known("seconds"), Metric.known("operations", "1/s"))

    def needs(self) -> tuple[str, ...]:
        """Return perf."""
        return ("perf",)

    def run(self, start: Start) -> dict[str, float]:
        """Run it once."""
        command = [need("perf"), "bench", "-f", "simple", "sched", "pipe"]
        command += ["-l", str(self.count("loops"))] + ["-T"] * self.count("threads")
        seconds = _seconds(start.run(command).output)
        return {"seconds": seconds, "operations": self.count("loops") / seconds}


def _seconds(output: str) -> float:
    r"""Return the time that ``perf bench -f simple`` prints.

    >>> _seconds("0.052\n")
    0.052
    """
    seconds = number(r"^\s*([0-9]+\.[0-9]+)\s*$", output, "perf bench")
    if seconds <= 0:
        raise RunError("perf bench took less than a millisecond: give it more loops")
    return seconds
