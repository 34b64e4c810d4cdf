"""Whether lower or higher values of a metric are better: one table for every metric."""

import re
from typing import Literal

Better = Literal["lower", "higher"]
"""Whether a lower or a higher value is better."""

HIGHER = [
    "throughput",
    "goodput",
    "bandwidth",
    "iops",
    "ops",
    "fps",
    "rps",
    "qps",
    "tps",
    "mips",
    "flops",
    "mflops",
    "gflops",
    "tflops",
    "bps",
    "kbps",
    "mbps",
    "gbps",
    "speedup",
    "score",
]
"""Words of metrics of which higher values are better."""

LOWER = [
    "latency",
    "latencies",
    "delay",
    "delays",
    "turnaround",
    "makespan",
    "time",
    "elapsed",
    "duration",
    "runtime",
    "took",
    "seconds",
    "jitter",
    "overhead",
    "cost",
    "p50",
    "p90",
    "p95",
    "p99",
    "p999",
    "error",
    "errors",
    "failed",
    "dropped",
    "lost",
    "missed",
    "timeouts",
    "retries",
    "stalls",
    "aborted",
    "rejected",
    "timed",
    "late",
    "migrations",
    "voluntary",
    "involuntary",
]
"""Words of metrics of which lower values are better; units of time say the same."""

COUNTED = [
    "requests",
    "req",
    "transactions",
    "queries",
    "operations",
    "messages",
    "msg",
    "events",
    "calls",
    "iterations",
    "loops",
    "frames",
    "packets",
    "bytes",
    "bits",
    "jobs",
    "tasks",
    "records",
    "rows",
    "reads",
    "writes",
    "connections",
    "samples",
    "tokens",
    "transfer",
    "instructions",
    "b",
    "kb",
    "mb",
    "gb",
    "tb",
    "kib",
    "mib",
    "gib",
    "kbit",
    "mbit",
    "gbit",
    "kbits",
    "mbits",
    "gbits",
]
"""What is better done more often: as a rate, ``requests/s`` or ``requests per second``."""

_TIMES = [
    "ns",
    "us",
    "µs",
    "ms",
    "nsec",
    "nsecs",
    "usec",
    "usecs",
    "msec",
    "msecs",
    "sec",
    "secs",
    "second",
    "seconds",
    "minutes",
    "hours",
]
_A_SECOND = ("s", "sec", "secs", "second", "seconds")
_CLOCK_WORDS = (*_TIMES, "time", "elapsed", "duration", "runtime", "took")

_TURNING = [
    "avoided",
    "before",
    "between",
    "budget",
    "failure",
    "failures",
    "fewer",
    "free",
    "headroom",
    "hit",
    "hits",
    "idle",
    "improvement",
    "left",
    "less",
    "limit",
    "loss",
    "met",
    "no",
    "not",
    "reduction",
    "remaining",
    "saved",
    "slack",
    "sleep",
    "slice",
    "until",
    "without",
]
"""Words that may turn the sense of the others round (``time between failures``)."""

_TOKEN = re.compile(r"#|/|[a-zµ][a-z0-9µ]*|\d+")

_NOT_CAPTURED = re.compile(r"\(\?:([^()]*)\)")
_GROUP_OF_ONE = re.compile(r"\([^()]*\)")


def direction_of(words: str) -> Better | None:
    """Return whether lower or higher values are better; None where the words do not tell.

    Words that contradict each other (``dropped frames/s``), or of which one may turn the sense of
    the others (``time between failures``), do not tell.

    Args:
        words: a metric's name or description; ``#`` marks where its number stands.

    >>> direction_of("Requests/sec: #"), direction_of("time to first frame: # ms")
    ('higher', 'lower')
    >>> direction_of("frames #"), direction_of("dropped frames/s #"), direction_of("IPC #")
    (None, None, None)
    """
    tokens = _TOKEN.findall(words.lower())
    found: set[Better] = set()
    for place, word in enumerate(tokens):
        if word in _TURNING:
            return None
        before = tokens[place - 1] if place else ""
        after = tokens[place + 1] if place + 1 < len(tokens) else ""
        if before in ("/", "per") and word in _A_SECOND:
            what = tokens[place - 2] if place > 1 else ""
            named = [what] if what.isalpha() else tokens
            if any(one in COUNTED or f"{one}s" in COUNTED for one in named):
                found.add("higher")
        elif word in HIGHER:
            found.add("higher")
        elif word in _CLOCK_WORDS:
            # Beside a number that is not the metric's it says over which period that is taken.
            if not (before.isdigit() or after.isdigit()):
                found.add("lower")
        elif word in LOWER or (word == "s" and before == "#"):
            found.add("lower")
    return found.pop() if len(found) == 1 else None


def pattern_words(pattern: str) -> str:
    r"""Return the words of a regular expression, with ``#`` for the group that is its number.

    >>> pattern_words(r"Requests/sec:\s+([0-9.]+(?:e\d+)?)").split()
    ['Requests/sec:', '#']
    >>> pattern_words(r"(?P<latency>\d+) us in [0-9.]+ s").split()
    ['latency', '#', 'us', 'in', '0', 's']
    """
    text = re.sub(r"\[(?:\\.|[^\]\\])*\]", " 0 ", pattern)
    text = re.sub(r"\\d", " 0 ", text)
    text = re.sub(r"\\[A-Za-z]|\\[^/%.:\w]", " ", text).replace("\\", "")
    text = re.sub(r"\(\?P<(\w+)>", r" \1 (", text)
    text = re.sub(r"\(\?[a-zA-Z]+\)|\(\?<?[=!][^()]*\)", " ", text)
    while (plainer := _NOT_CAPTURED.sub(r" \1 ", text)) != text:
        text = plainer
    text = _GROUP_OF_ONE.sub(" # ", text)
    return re.sub(r"\{[\d,]*\}|[+*?^$|()]", " ", text)


def known_words() -> str:
    """Return the words by which a direction is known, as a part of a sentence.

    >>> known_words().startswith("higher is better of throughput, ")
    True
    """
    return (
        f"higher is better of {', '.join(HIGHER)}, and of requests/s and other rates; lower is "
        f"better of {', '.join(LOWER)}, and of units of time"
    )
