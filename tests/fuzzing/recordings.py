"""Recordings and snapshots: parts of the kept ones, with events dropped, doubled and changed."""

import gzip
import random
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tests.fuzzing.mutation import EXTREMES, NUMBER, mutated
from tests.fuzzing.parser import directory, file

from schedlab import _core
from schedlab.attribution.waiting import why_recorded
from schedlab.measure import inference
from schedlab.model import Machine
from schedlab.targets.sim import simulate

FIXTURES = Path(__file__).resolve().parents[2] / "crates" / "replay" / "tests" / "fixtures"
OTHERS = Path(__file__).resolve().parents[2] / "crates" / "trace" / "tests" / "fixtures"


@cache
def recordings() -> Sequence[bytes]:
    """Return the kept recordings' texts."""
    return [gzip.decompress(path.read_bytes()) for path in sorted(FIXTURES.glob("*.txt.gz"))]


@cache
def _lines(text: bytes) -> tuple[list[bytes], list[bytes]]:
    lines = text.splitlines()
    head = [line for line in lines if line.startswith(b"#") and not line.startswith(b"# end")]
    return head, [line for line in lines if not line.startswith(b"#")]


def recording(chance: random.Random, text: bytes) -> bytes:  # noqa: PLR0912 - a branch a kind
    """Return a part of a recording with lines dropped, doubled, swapped and changed."""
    head, events = _lines(text)
    head = list(head)
    # The beginning has what the rest needs, such as where each task stood.
    first = 0 if chance.random() < 0.7 else chance.randrange(len(events))
    lines = events[first : first + chance.choice([5, 20, 80, 200, 600])]
    for _ in range(chance.randint(1, 6)):
        if not lines:
            break
        at = chance.randrange(len(lines))
        match chance.randrange(10):
            case 0:
                del lines[at]
            case 1:
                lines.insert(at, lines[at])
            case 2:
                other = chance.randrange(len(lines))
                lines[at], lines[other] = lines[other], lines[at]
            case 3:
                # Often of another kernel: what cannot be here.
                others = events if chance.random() < 0.4 else _lines(chance.choice(recordings()))[1]
                lines[at:at] = [chance.choice(others) for _ in range(chance.randint(1, 5))]
            case 4 | 5 | 6 if numbers := list(NUMBER.finditer(lines[at], 40)):
                one = chance.choice(numbers)
                line = lines[at]
                lines[at] = line[: one.start()] + chance.choice(EXTREMES) + line[one.end() :]
            case 7 if chance.random() < 0.2:
                lines[at] = mutated(chance, lines[at], 2).replace(b"\n", b" ")
            case 8 if head:
                place = chance.randrange(len(head))
                if numbers := list(NUMBER.finditer(head[place])):
                    one = chance.choice(numbers)
                    line = head[place]
                    head[place] = line[: one.start()] + chance.choice(EXTREMES) + line[one.end() :]
            case _:
                # One number everywhere, so that what belongs together still does.
                if numbers := list(NUMBER.finditer(lines[at])):
                    old = chance.choice(numbers).group()
                    new = chance.choice(EXTREMES)
                    lines = [re.sub(rb"\b%s\b" % re.escape(old), new, line) for line in lines]
    if head and chance.random() < 0.1:
        del head[chance.randrange(len(head))]
    if chance.random() < 0.9:
        lines = _in_order(lines)
    end = [b"# end: events=%d" % len(lines)] if head else []
    return b"\n".join([*head, *lines, *end]) + b"\n"


_TIME = re.compile(rb"(?<= )\d+\.\d{6,9}(?=:)")


def _in_order(lines: list[bytes]) -> list[bytes]:
    """Return lines whose times do not go back: a reader refuses such ones before anything else."""
    lines = [line for line in lines if _TIME.search(line)] if lines else lines
    times = sorted(match.group() for line in lines if (match := _TIME.search(line)))
    rest = iter(times)
    return [_TIME.sub(lambda _: next(rest), line, count=1) for line in lines]


def replay(data: bytes) -> None:
    path = file(data, "recording.txt")
    chance = random.Random(data)
    release = None if b"schedlab" in data[:200] else chance.choice(["5.10", "6.1", "6.12", "7.2"])
    level = chance.choice([None, None, "L0", "L0k", "L1"])
    # Reasons are told of whatever state a hostile recording leads to.
    reasons = chance.choice([None, directory() / "reasons.jsonl"])
    _core.replay(path, None, release, level, decisions=reasons, json_lines=True)


def infer(data: bytes) -> None:
    inference.infer(file(data, "recording.txt"))


def observe(data: bytes) -> None:
    path = file(data, "recording.txt")
    if random.Random(data).random() < 0.5:
        _core.check_invariants(path, "10ms")
    else:
        _core.wakeup_latency(path, None)


@cache
def perf_texts() -> Sequence[bytes]:
    return [gzip.decompress(path.read_bytes()) for path in sorted(OTHERS.glob("*.txt.gz"))]


@cache
def perfetto_traces() -> Sequence[bytes]:
    return [path.read_bytes() for path in sorted(OTHERS.glob("*.perfetto-trace"))]


def other(data: bytes) -> None:
    path = file(data, "recording")
    if random.Random(data).random() < 0.5:
        why_recorded(path, kernel="6.18")
    else:
        inference.infer(path)


@cache
def snapshots() -> Sequence[bytes]:
    return [path.read_bytes() for path in sorted(FIXTURES.glob("*.snap1"))]


def snapshot(data: bytes) -> None:
    trace = directory() / "one.txt"
    if not trace.exists():
        trace.write_bytes(b"bash-1 0d..2. 1.0: sched_switch: bash:1 [120] S ==> cat:2 [120]\n")
    _core.replay(trace, file(data, "debug.snap"))


@cache
def traces() -> Sequence[bytes]:
    path = directory() / "run.txt"
    simulate("hackbench:groups=1,fds=2,loops=2", scheduler="6.1", machine=machine(), trace=path)
    return [path.read_bytes()]


@cache
def machine() -> Machine:
    return Machine(2, "ideal")
