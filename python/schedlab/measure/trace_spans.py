"""Which task ran where and when, from the events of a run in ftrace's text."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_LINE = re.compile(r"^\s*.+-\d+\s+\[(\d+)\]\s+\S+\s+(\d+)\.(\d{6,9}): (\w+): (.*)$")
_SWITCH = re.compile(
    r"prev_comm=(.*) prev_pid=(\d+) prev_prio=-?\d+ prev_state=(\S+) ==> "
    r"next_comm=(.*) next_pid=(\d+) next_prio=-?\d+$"
)
_WAKEUP = re.compile(r"comm=(.*) pid=(\d+) prio=-?\d+ target_cpu=(\d+)$")


@dataclass(frozen=True, slots=True)
class Span:
    """A task on a CPU, from a switch to the next.

    Attributes:
        cpu: where.
        pid: who.
        start_ns: since the trace's beginning.
        end_ns: since the trace's beginning.
        preempted: whether it would have gone on.
    """

    cpu: int
    pid: int
    start_ns: int
    end_ns: int
    preempted: bool


@dataclass(frozen=True, slots=True)
class Wakeup:
    """A task that became runnable.

    Attributes:
        cpu: the CPU it was put on.
        pid: who.
        time_ns: since the trace's beginning.
    """

    cpu: int
    pid: int
    time_ns: int


@dataclass(frozen=True, slots=True)
class Spans:
    """All of a run.

    Attributes:
        names: of tasks, by pid.
        spans: in the order of their ends.
        wakeups: in order.
        end_ns: the last event's time.
    """

    names: dict[int, str]
    spans: tuple[Span, ...]
    wakeups: tuple[Wakeup, ...]
    end_ns: int

    def run_ns(self, start: int, end: int) -> dict[str, int]:
        """Return how long each task ran between two times, by name.

        >>> Spans({1: "a"}, (Span(0, 1, 5, 20, False),), (), 20).run_ns(10, 30)
        {'a': 10}
        """
        found = dict.fromkeys(self.names.values(), 0)
        for span in self.spans:
            inside = min(span.end_ns, end) - max(span.start_ns, start)
            if inside > 0:
                found[self.names[span.pid]] += inside
        return found


def read(path: Path) -> Spans:
    """Read what ``simulate(trace="….txt")`` writes.

    >>> import tempfile
    >>> from schedlab import Machine, simulate
    >>> with tempfile.TemporaryDirectory() as name:
    ...     file = Path(name) / "run.txt"
    ...     _ = simulate("hogs:tasks=2,time=10ms", scheduler="6.1", machine=Machine(1, "ideal"),
    ...                  trace=file)
    ...     found = read(file)
    >>> found.run_ns(0, found.end_ns)
    {'hog[0]': 10000000, 'hog[1]': 10000000}
    """
    names: dict[int, str] = {}
    spans: list[Span] = []
    wakeups: list[Wakeup] = []
    running: dict[int, tuple[int, int]] = {}
    last = 0
    for cpu, time, event, payload in _events(path):
        last = time
        if event == "sched_switch" and (switch := _SWITCH.match(payload)):
            _, previous, state, name, following = switch.groups()
            if cpu in running and running[cpu][0] == int(previous):
                pid, since = running.pop(cpu)
                spans.append(Span(cpu, pid, since, time, state.startswith("R")))
            if int(following):
                names.setdefault(int(following), name)
                running[cpu] = (int(following), time)
        elif event in ("sched_wakeup", "sched_wakeup_new") and (woken := _WAKEUP.match(payload)):
            names.setdefault(int(woken[2]), woken[1])
            wakeups.append(Wakeup(int(woken[3]), int(woken[2]), time))
    return Spans(names, tuple(spans), tuple(wakeups), last)


def _events(path: Path) -> Iterator[tuple[int, int, str, str]]:
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if not line.startswith("#") and (match := _LINE.match(line)):
                cpu, whole, part, event, payload = match.groups()
                time = int(whole) * 1_000_000_000 + int(part.ljust(9, "0"))
                yield int(cpu), time, event, payload
