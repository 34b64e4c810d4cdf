"""Timelines: a sleeper beside CPU-bound tasks, and lag and deadline of EEVDF."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pictures.svg import WIDTH, Drawing
from schedlab import Machine, Scheduler, Workload, simulate
from schedlab.measure import trace_spans
from schedlab.processes import leftovers

_LEFT, _RIGHT = 96, WIDTH - 16
_LANE, _GAP = 22, 8
_COLOURS = {"sleeper": "blue", "hog 1": "orange", "hog 2": "green"}
_MS = 1_000_000

WORKLOAD = Path(__file__).resolve().parents[2] / "examples" / "sleeper_beside_hogs.json"
"""On CPU 0 a sleeper computes 1.5 ms of every 13 ms beside two CPU-bound tasks."""

_CPUS = 8
"""Of the machine: slices and latencies grow with their number."""


@dataclass(frozen=True, slots=True)
class Wait:
    """A wake-up of the sleeper, in nanoseconds.

    Attributes:
        woken: when the task became runnable.
        running: when it got the CPU.
    """

    woken: int
    running: int

    @property
    def latency(self) -> int:
        """How long the task waited."""
        return self.running - self.woken


def run(kernel: str, slice_of_sleeper: str | None = None) -> trace_spans.Spans:
    """Simulate the workload with the shipped costs and return which task ran when."""
    described = json.loads(WORKLOAD.read_text(encoding="utf-8"))
    if slice_of_sleeper is not None:
        described["tasks"]["sleeper"]["slice"] = slice_of_sleeper
    with leftovers.directory("picture") as directory:
        trace = directory / "run.txt"
        simulate(
            Workload.from_dict(described),
            scheduler=Scheduler(kernel),
            machine=Machine(_CPUS, "reference"),
            trace=trace,
        )
        return trace_spans.read(trace)


def waits(spans: trace_spans.Spans, name: str) -> list[Wait]:
    """Return each wake-up of a task with the moment it got the CPU."""
    (pid,) = [pid for pid, called in spans.names.items() if called.startswith(name)]
    starts = [span.start_ns for span in spans.spans if span.pid == pid]
    found = []
    for wakeup in spans.wakeups:
        after = [start for start in starts if start >= wakeup.time_ns]
        if wakeup.pid == pid and after:
            found.append(Wait(wakeup.time_ns, after[0]))
    return found


def two_kernels() -> Drawing:
    """CFS of 6.1 above EEVDF of 6.12: the same sleeper beside the same two CPU-bound tasks."""
    return _panels(
        [("Linux 6.1, CFS", run("6.1")), ("Linux 6.12, EEVDF", run("6.12"))],
        "The same three tasks under CFS and under EEVDF",
        "Two timelines of 90 ms, one lane a task. Under CFS of Linux 6.1 the sleeper runs as soon "
        "as its timer wakes it. Under EEVDF of Linux 6.12 it waits some milliseconds at most "
        "wake-ups, while two CPU-bound tasks take turns.",
    )


def shorter_slice() -> Drawing:
    """EEVDF of 6.12 twice: the sleeper with the default slice, and with one of 1 ms."""
    return _panels(
        [
            ("6.12, default slice", run("6.12")),
            ("6.12, the sleeper asks for 1 ms", run("6.12", "1ms")),
        ],
        "A shorter slice buys latency",
        "Two timelines of 90 ms under EEVDF. With the default slice the sleeper waits some "
        "milliseconds at most wake-ups; with a slice of 1 ms it runs as soon as it wakes, and "
        "each task has the same share of the CPU as before.",
    )


def _panels(
    kinds: Sequence[tuple[str, trace_spans.Spans]], title: str, description: str
) -> Drawing:
    """Draw timelines below one another, with the median wait of the sleeper over the whole run."""
    begin, end = 498 * _MS, 588 * _MS
    picture = Drawing(148 * len(kinds) + 56, title, description)
    top = 30
    for name, spans in kinds:
        every = sorted(wait.latency for wait in waits(spans, "sleeper"))
        picture.text(16, top, name, size=18, bold=True)
        words = f"the sleeper waits {_time(every[len(every) // 2])} in the median"
        picture.text(_RIGHT, top, words, size=16, anchor="end")
        _lanes(picture, spans, top + 14, begin, end)
        top += 148
    _axis(picture, top - 28, begin, end)
    for place, (colour, words) in enumerate(
        (("blue", "sleeper runs"), ("red", "sleeper waits"), ("orange", "CPU-bound tasks run"))
    ):
        x = _LEFT + place * 190
        picture.rect(x, top + 1, 12, 12, colour)
        if colour == "orange":
            picture.rect(x + 14, top + 1, 12, 12, "green")
        picture.text(x + (32 if colour == "orange" else 18), top + 12, words, "soft", size=15)
    return picture


def _lanes(picture: Drawing, spans: trace_spans.Spans, top: float, begin: int, end: int) -> None:
    """Draw a lane a task between two times."""
    scale = (_RIGHT - _LEFT) / (end - begin)

    def across(time: int) -> float:
        return _LEFT + (min(max(time, begin), end) - begin) * scale

    for place, (name, colour) in enumerate(_COLOURS.items()):
        y = top + place * (_LANE + _GAP)
        picture.text(16, y + 16, name, size=15)
        (pid,) = [pid for pid, called in spans.names.items() if called.startswith(name)]
        own = [span for span in spans.spans if span.pid == pid]
        picture.line(_LEFT, y + _LANE / 2, _RIGHT, y + _LANE / 2)
        if name == "sleeper":
            for wait in waits(spans, name):
                if wait.woken < end and wait.running > begin:
                    wide = across(wait.running) - across(wait.woken)
                    picture.rect(across(wait.woken), y + 4, wide, _LANE - 8, "red")
        for span in own:
            if span.start_ns < end and span.end_ns > begin:
                wide = across(span.end_ns) - across(span.start_ns)
                picture.rect(across(span.start_ns), y, wide, _LANE, colour)


def _axis(picture: Drawing, y: float, begin: int, end: int) -> None:
    """Draw an axis of milliseconds since the first of them."""
    scale = (_RIGHT - _LEFT) / (end - begin)
    for time in range(begin, end + 1, 10 * _MS):
        x = _LEFT + (time - begin) * scale
        picture.line(x, y - 6, x, y - 1, "soft")
        picture.text(x, y + 13, f"{(time - begin) // _MS}", "soft", anchor="middle", size=14)
    picture.text(16, y + 13, "ms", "soft", size=14)


def _time(nanoseconds: int) -> str:
    """Return a time for people.

    >>> _time(6_840), _time(2_500_000)
    ('7 µs', '2.5 ms')
    """
    if nanoseconds < _MS:
        return f"{nanoseconds / 1000:.0f} µs"
    return f"{nanoseconds / _MS:.1f} ms"
