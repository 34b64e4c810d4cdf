"""Lag and virtual deadline of each task on a schedule of EEVDF."""

import itertools
import json
import struct
from bisect import bisect_right
from dataclasses import dataclass

from pictures.schedules import WORKLOAD, run
from pictures.svg import WIDTH, Drawing
from schedlab import Machine, Scheduler, Workload, _core, simulate
from schedlab.measure.trace_spans import Spans

_MS = 1_000_000
_LEFT, _RIGHT = 96, WIDTH - 20
_BEGIN, _END = 498 * _MS, 588 * _MS
_SCALE = (_RIGHT - _LEFT) / (_END - _BEGIN)
_NAMES = (("sleeper", "blue"), ("hog 1", "orange"), ("hog 2", "green"))
_UNIT = 13.0
"""Height of a millisecond of virtual time."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A task as it is switched in or out, in nanoseconds.

    Attributes:
        time: when.
        lag: its queue's average virtual time less its own.
        average: that average.
        deadline: its virtual deadline.
    """

    time: int
    lag: int
    average: int
    deadline: int


def lag() -> Drawing:
    """Return lag and deadline of the example's tasks under EEVDF of 6.12, and what runs."""
    picture = Drawing(
        590,
        "Lag and virtual deadline under EEVDF, and the task that runs",
        "90 ms of one CPU. Above: the lag of three tasks, which falls while a task runs and rises "
        "while it waits. In the middle: the task that runs. Below: how far ahead of the average "
        "virtual time each runnable task's deadline is. At each pick the task with the earliest "
        "deadline among those with lag of 0 or more is chosen. The sleeper keeps its lag while it "
        "sleeps.",
    )
    found = _standings()
    spans = run("6.12")
    _lags(picture, found)
    _running(picture, spans)
    _deadlines(picture, found, spans)
    for place, (name, colour) in enumerate(_NAMES):
        x = _LEFT + place * 150.0
        picture.rect(x, 564, 14, 14, colour)
        picture.text(x + 20, 576, name, size=15)
    return picture


def _standings() -> dict[str, list[Standing]]:
    """Return each task's standings, as the live page asks for them."""
    workload, machine = Workload.parse(str(WORKLOAD)), Machine(8, "reference")
    names = [task.name for task in simulate(workload, scheduler="6.12", machine=machine)]
    request = {
        "op": "run",
        "workload": {"text": WORKLOAD.read_text(encoding="utf-8")},
        "machine": json.loads(machine.json),
        "scheduler": json.loads(Scheduler("6.12").json),
        "seed": 1,
        "standings": list(range(len(names))),
    }
    told = _arrays(_core.answer_page(json.dumps(request).encode()))
    found: dict[str, list[Standing]] = {name: [] for name, _ in _NAMES}
    rows = zip(*(told[f"standing_{name}"] for name in _FIELDS), strict=True)
    for at, task, vruntime, owed, deadline in rows:
        if _BEGIN - 30 * _MS <= at <= _END + 30 * _MS and deadline == deadline:  # noqa: PLR0124
            standing = Standing(int(at), int(owed), int(vruntime + owed), int(deadline))
            found[names[int(task)]].append(standing)
    return found


_FIELDS = ("time", "task", "vruntime", "lag", "deadline")
_WIDTHS = {"f64": 8, "u32": 4, "u16": 2, "u8": 1}


def _arrays(message: bytes) -> dict[str, list[float]]:
    """Return the arrays of the page's answer by name."""
    (length,) = struct.unpack_from("<I", message)
    head, place = json.loads(message[8 : 8 + length]), 8 + length
    found = {}
    for name, kind, count in head["arrays"]:
        code = {"f64": "d", "u32": "I", "u16": "H", "u8": "B"}[kind]
        found[name] = list(struct.unpack_from(f"<{count}{code}", message, place))
        place += -(-count * _WIDTHS[kind] // 8) * 8
    return found


def _x(time: int) -> float:
    return _LEFT + (min(max(time, _BEGIN), _END) - _BEGIN) * _SCALE


def _lags(picture: Drawing, found: dict[str, list[Standing]]) -> None:
    limit, middle = 8.0, 148.0
    picture.text(16, 24, "lag", bold=True)
    for value in (-8, -4, 0, 4, 8):
        y = middle - value * _UNIT
        picture.line(_LEFT, y, _RIGHT, y, "ink" if value == 0 else "line")
        picture.text(_LEFT - 8, y + 5, f"{value:+d} ms" if value else "0", "soft", anchor="end")
    picture.text(_RIGHT, 24, "0 or more: eligible", "soft", anchor="end", size=15)
    for name, colour in _NAMES:
        points = [
            (_x(one.time), middle - max(-limit, min(limit, one.lag / _MS)) * _UNIT)
            for one in found[name]
            if _BEGIN <= one.time <= _END
        ]
        picture.curve(points, colour, width=2.5)


def _running(picture: Drawing, spans: Spans) -> None:
    picture.text(16, 291, "runs", bold=True)
    colours = dict(_NAMES)
    for span in spans.spans:
        if span.cpu == 0 and span.end_ns > _BEGIN and span.start_ns < _END:
            x = _x(span.start_ns)
            picture.rect(x, 276, _x(span.end_ns) - x, 20, colours[spans.names[span.pid]])


def _deadlines(picture: Drawing, found: dict[str, list[Standing]], spans: Spans) -> None:
    bottom = 454.0
    picture.text(16, 326, "deadline, ahead of the average virtual time", bold=True)
    picture.text(_RIGHT, 326, "the lowest eligible one is picked", "soft", anchor="end", size=15)
    for value in (-4, 0, 4, 8):
        y = bottom - value * _UNIT
        picture.line(_LEFT, y, _RIGHT, y, "ink" if value == 0 else "line")
        picture.text(_LEFT - 8, y + 5, f"{value:+d} ms" if value else "0", "soft", anchor="end")
    averages = sorted((one.time, one.average) for each in found.values() for one in each)
    times = [time for time, _ in averages]

    def average(time: int) -> float:
        """Return the average virtual time between two switches."""
        after = bisect_right(times, time)
        if after in (0, len(times)):
            return averages[min(after, len(times) - 1)][1]
        (t1, v1), (t2, v2) = averages[after - 1], averages[after]
        return v2 if t1 == t2 else v1 + (v2 - v1) * (time - t1) / (t2 - t1)

    for name, colour in _NAMES:
        for begin, end, deadline in _held(found[name], _absent(spans, name)):
            within = [begin, *(time for time in times if begin < time < end), end]
            shown = sorted({time for time in within if _BEGIN <= time <= _END})
            points = [
                (_x(time), bottom - min(9.0, (deadline - average(time)) / _MS) * _UNIT)
                for time in shown
            ]
            if len(points) > 1:
                picture.curve(points, colour, width=2.5)
    for time in range(0, 91, 10):
        picture.text(_LEFT + time * _MS * _SCALE, 545, str(time), "soft", anchor="middle")
    picture.text(16, 545, "ms", "soft")


def _absent(spans: Spans, name: str) -> list[tuple[int, int]]:
    """Return from when to when a task sleeps."""
    (pid,) = [pid for pid, called in spans.names.items() if called == name]
    ends = [span.end_ns for span in spans.spans if span.pid == pid and not span.preempted]
    wakes = [one.time_ns for one in spans.wakeups if one.pid == pid]
    return [
        (end, next((wake for wake in wakes if wake >= end), spans.end_ns)) for end in sorted(ends)
    ]


def _held(standings: list[Standing], absent: list[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """Return from when to when a task is runnable with one deadline, and the deadline.

    A deadline that is reached is set anew as the task is switched out; one that is set at a wake-up
    is known as the task is switched in.
    """
    found = []
    for one, other in itertools.pairwise(standings):
        wake = next(
            (back for away, back in absent if one.time <= away + 1 and away < other.time), None
        )
        if wake is None:
            found.append((one.time, other.time, one.deadline))
        elif wake < other.time:
            found.append((wake, other.time, other.deadline))
    return found
