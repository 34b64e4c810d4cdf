"""Parsers of what people give, with mutated inputs for them; for scripts/fuzz and test_corpus.py.

An input is good if it is read or refused with a `SchedlabError`; whatever else comes of it is a
fault of the program: another exception, a crash, a hang, or memory that grows with a number in it.
"""

import contextlib
import gzip
import io
import json
import os
import random
import re
import resource
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from schedlab import _core, calibration, inference, spans
from schedlab.cli.main import invoke
from schedlab.errors import SchedlabError
from schedlab.knobs import journal
from schedlab.knobs.places import Place
from schedlab.model import Attributes, Machine, Scheduler, Workload, parse_time
from schedlab.outcome import Outcome
from schedlab.programs.apache import read_ab, read_wrk
from schedlab.programs.fio import read_fio
from schedlab.programs.hackbench import read_hackbench
from schedlab.programs.stress_ng import read_stress_ng
from schedlab.store import Store
from schedlab.targets.sim import simulate

ROOT = Path(__file__).resolve().parent.parent
CORPUS = ROOT / "tests" / "corpus"
FIXTURES = ROOT / "crates" / "replay" / "tests" / "fixtures"

LONGEST_MESSAGE = 2_000
"""Characters of an error: one line, whatever was given."""

_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


class FaultError(AssertionError):
    """The program did what it must not do with an input."""


@dataclass(frozen=True, slots=True)
class Parser:
    """Something that reads what people give.

    Attributes:
        name: its directory in the corpus.
        read: reads an input; a refusal is a `SchedlabError`.
        share: how many of a million inputs are for it.
        seeds: good inputs, which are mutated.
        make: makes an input from a seed, where mutating its bytes at random would seldom get far.
    """

    name: str
    read: Callable[[bytes], object]
    share: int
    seeds: Callable[[], Sequence[bytes]]
    make: "Callable[[random.Random, bytes], bytes] | None" = None

    def input(self, seed: int, number: int) -> bytes:
        """Return one input: the same for the same seed and number, whatever else is asked for."""
        chance = random.Random(f"{seed}/{self.name}/{number}")
        found = chance.choice(self.seeds())
        return mutated(chance, found) if self.make is None else self.make(chance, found)

    def check(self, data: bytes) -> bool:
        """Read an input, and return whether it was taken rather than refused.

        Raises:
            FaultError: neither.
        """
        try:
            self.read(data)
        except SchedlabError as error:
            if len(str(error)) > LONGEST_MESSAGE:
                raise FaultError(f"a message of {len(str(error))} characters") from None
            return False
        except FaultError:
            raise
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            raise FaultError(f"{type(error).__name__}: {str(error)[:300]}") from error
        return True


PIECES = [
    *(b"0", b"1", b"-1", b"4294967296", b"18446744073709551615", b"18446744073709551616"),
    *(b"-9223372036854775808", b"9223372036854775807", b"1e999", b"nan", b"NaN", b"inf", b"-0"),
    *(b"1e-400", b"0x10", b"1_000", "٣".encode(), "²".encode(), "é".encode(), b"\xff", b"\x00"),
    *(b"\x1b[31m", b"\xc2\x9b31m", "\u202e".encode(), b"\xed\xb2\x80", b"\n", b"\r", b"\t", b" "),
    *(b"[", b"]", b"{", b"}", b'"', b"'", b"\\", b",", b":", b"=", b"/", b"%", b"#", b"..", b"+"),
    *(b"null", b"true", b"[]", b"{}", b'""', b"[" * 2000, b'{"a":' * 500, b"9" * 400, b"a" * 5000),
    *(b"ns", b"us", b"ms", b"s", b"20ms", b"99999999999s", b"1.5ms", b"other", b"fifo:99"),
]
"""What parsers stumble over."""

_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")

_EXTREMES = [
    *(b"0", b"1", b"-1", b"2", b"127", b"128", b"255", b"256", b"4095", b"4096", b"65536"),
    *(b"2147483647", b"2147483648", b"-2147483648", b"4294967295", b"4294967296"),
    *(b"9223372036854775807", b"-9223372036854775808", b"18446744073709551615"),
    *(b"9223372036854775808", b"-9223372036854775809", b"18446744073709551616", b"9" * 40),
]


def mutated(chance: random.Random, data: bytes, most: int = 4) -> bytes:
    """Return data with a few changes."""
    for _ in range(chance.randint(1, most)):
        at = chance.randint(0, len(data))
        end = min(len(data), at + chance.randint(1, 30))
        match chance.randrange(8):
            case 0:
                data = data[:at] + data[end:]
            case 1:
                data = data[:at] + chance.choice(PIECES) + data[at:]
            case 2:
                data = data[:at] + chance.choice(PIECES) + data[end:]
            case 3:
                data = data[:end] + data[at:end] * chance.randint(1, 3) + data[end:]
            case 4 if data:
                place = chance.randrange(len(data))
                flipped = data[place] ^ (1 << chance.randrange(8))
                data = data[:place] + bytes([flipped]) + data[place + 1 :]
            case 5 | 6 if numbers := list(_NUMBER.finditer(data)):
                one = chance.choice(numbers)
                data = data[: one.start()] + chance.choice(_EXTREMES) + data[one.end() :]
            case _:
                data = data[:at]
    return data


def mutated_json(chance: random.Random, data: bytes) -> bytes:
    """Return JSON whose values were exchanged, dropped or replaced; seldom no JSON any more."""
    if chance.random() < 0.2:
        return mutated(chance, data)
    value = json.loads(data)
    for _ in range(chance.randint(1, 3)):
        value = _wounded(chance, value)
    return json.dumps(value).encode()


def _wounded(chance: random.Random, value: object) -> object:
    odd: list[object] = [
        None,
        True,
        0,
        -1,
        1e308,
        float("nan"),
        2**64,
        10**400,
        "",
        "\x1b[2J",
        [],
        {},
    ]
    if isinstance(value, dict) and value and chance.random() < 0.9:
        changed = dict(value)
        key = chance.choice(list(changed))
        match chance.randrange(6):
            case 0:
                del changed[key]
            case 1:
                changed[chance.choice(["", "\x1b[2J", "x" * 300, "tasks"])] = changed[key]
            case _:
                changed[key] = _wounded(chance, changed[key])
        return changed
    if isinstance(value, list) and value and chance.random() < 0.9:
        items = list(value)
        at = chance.randrange(len(items))
        match chance.randrange(6):
            case 0:
                del items[at]
            case 1:
                items.append(items[at])
            case _:
                items[at] = _wounded(chance, items[at])
        return items
    return chance.choice(odd)


# --- files


@cache
def _directory() -> Path:
    memory = Path("/dev/shm")
    return Path(tempfile.mkdtemp(prefix="schedlab-fuzz.", dir=memory if memory.is_dir() else None))


def _file(data: bytes, name: str) -> Path:
    path = _directory() / name
    path.write_bytes(data)
    return path


def _word(data: bytes) -> str:
    """Return an argument as Python makes it of a command line's bytes."""
    return os.fsdecode(data.replace(b"\0", b""))


def _texts(*texts: str) -> Callable[[], Sequence[bytes]]:
    return lambda: [text.encode() for text in texts]


# --- recordings


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
            case 4 | 5 | 6 if numbers := list(_NUMBER.finditer(lines[at], 40)):
                one = chance.choice(numbers)
                line = lines[at]
                lines[at] = line[: one.start()] + chance.choice(_EXTREMES) + line[one.end() :]
            case 7 if chance.random() < 0.2:
                lines[at] = mutated(chance, lines[at], 2).replace(b"\n", b" ")
            case 8 if head:
                place = chance.randrange(len(head))
                if numbers := list(_NUMBER.finditer(head[place])):
                    one = chance.choice(numbers)
                    line = head[place]
                    head[place] = line[: one.start()] + chance.choice(_EXTREMES) + line[one.end() :]
            case _:
                # One number everywhere, so that what belongs together still does.
                if numbers := list(_NUMBER.finditer(lines[at])):
                    old = chance.choice(numbers).group()
                    new = chance.choice(_EXTREMES)
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


def _replay(data: bytes) -> None:
    path = _file(data, "recording.txt")
    chance = random.Random(data)
    release = None if b"schedlab" in data[:200] else chance.choice(["5.10", "6.1", "6.12", "7.2"])
    _core.replay(path, None, release, chance.choice([None, None, "L0", "L0k", "L1"]), None)


def _infer(data: bytes) -> None:
    inference.infer(_file(data, "recording.txt"))


def _observe(data: bytes) -> None:
    path = _file(data, "recording.txt")
    if random.Random(data).random() < 0.5:
        _core.check_invariants(path, "10ms")
    else:
        _core.wakeup_latency(path, None)


@cache
def _snapshots() -> Sequence[bytes]:
    return [path.read_bytes() for path in sorted(FIXTURES.glob("*.snap1"))]


def _snapshot(data: bytes) -> None:
    trace = _directory() / "one.txt"
    if not trace.exists():
        trace.write_bytes(b"bash-1 0d..2. 1.0: sched_switch: bash:1 [120] S ==> cat:2 [120]\n")
    _core.replay(trace, _file(data, "debug.snap"), None, None, None)


@cache
def _traces() -> Sequence[bytes]:
    path = _directory() / "run.txt"
    simulate("hackbench:groups=1,fds=2,loops=2", scheduler="6.1", machine=_machine(), trace=path)
    return [path.read_bytes()]


@cache
def _machine() -> Machine:
    return Machine(2, "ideal")


# --- what schedlab itself wrote


@cache
def _costs() -> Sequence[bytes]:
    costs = dict.fromkeys(json.loads(_core.costs("ideal")), "1us")
    lines = ["[machine]", 'kernel = "6.1"', "cpus = 2", "hz = 250", 'notes = ["a", "b"]', "[costs]"]
    lines += [f'{name} = "{time}"' for name, time in costs.items()]
    lines += ["[devices]", 'disk_sync = "1ms"']
    for table in ("spread.switch", "measured.pipe", "later.fork"):
        lines += [f"[{table}]", "median_ns = 1.0", "p25_ns = 0.5", "p75_ns = 2.0", "samples = 5"]
    return ["\n".join(lines).encode(), "\n".join(lines[:20]).encode()]


def _read_costs(data: bytes) -> None:
    calibration.load(_file(data, "costs.toml"))


@cache
def _journals() -> Sequence[bytes]:
    places = [Place(Path("/proc/sys/kernel/sched_latency_ns")), Place(Path("/proc/x"), "FLAG")]
    entries = [journal.Entry("latency", place, "1", "2", "boot", 7) for place in places]
    return [journal.to_text(entries).encode(), b""]


@cache
def _stores() -> Sequence[bytes]:
    path = _directory() / "seed.db"
    with Store(path) as store:
        plan = {"cases": [{"name": "a", "metric": {"name": "time"}}], "arms": ["one"]}
        experiment = store.begin("compare", "a title", plan, ["schedlab"])
        for block in range(3):
            store.add(
                *(experiment, "one", block, 0),
                seed=1,
                begun="2026-01-01",
                seconds=0.5,
                definition={"a": block},
                facts={"kernel": "6.1"},
                outcome={"x": 1},
                values={"time": 0.5},
            )
        store.fail(experiment, "one", 9, "it failed")
        store.finish(experiment, "done", {"best": {}})
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("VACUUM")
    return [path.read_bytes()]


def _mutated_store(chance: random.Random, data: bytes) -> bytes:
    found = bytearray(data)
    for _ in range(chance.randint(1, 8)):
        # Where there is something: most of a page is empty.
        at = chance.randrange(len(found))
        near = next((place for place in range(at, len(found)) if found[place]), at)
        found[near] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)])
    if chance.random() < 0.1:
        del found[chance.randrange(len(found)) :]
    return bytes(found)


def _read_store(data: bytes) -> None:
    path = _file(data, "runs.db")
    for name in ("runs.db-wal", "runs.db-shm", "runs.db-journal"):
        (_directory() / name).unlink(missing_ok=True)
    with Store(path, create=False) as store:
        for one in store.experiments():
            store.values(one.id)
            store.failures(one.id)
            list(store.runs(one.id))


@cache
def _outcomes() -> Sequence[bytes]:
    workload = Workload.parse("hackbench:groups=1,fds=2,loops=2")
    scheduler = Scheduler("6.1")
    return [_core.simulate(workload.json, scheduler.json, _machine().json, 1).encode()]


# --- the whole program

_COMMANDS = (
    "run hackbench:groups=1,fds=1,loops=1 --costs ideal --kernel 6.1 --cpus 2 --seed 1",
    "run hogs:tasks=2,time=10ms --costs ideal --kernel 6.12 --cpus 2 --hz 250 --set base_slice=3ms",
    "run pipe:loops=3 --costs linsched --kernel 6.1 --policy fifo:5 --json",
    "run pipe:loops=3 --costs ideal --group /a:weight=50,tasks=1 --session s --topology smt=2",
    "workload hackbench:groups=1,fds=2",
    "knobs list --kernel 6.1",
    "report abc --store {dir}/seed.db",
    "replay {dir}/one.txt --level L0 --kernel 6.1",
    "infer {dir}/one.txt --start 1ms --end 2ms",
    "sweep pipe:loops=1 --set latency=6ms,9ms --kernel 6.1 --costs ideal --store {dir}/s.db",
    "ext list",
    "study list",
)


def _mutated_command(chance: random.Random, data: bytes) -> bytes:
    words = data.split(b" ")
    at = chance.randrange(1, len(words)) if len(words) > 1 else 0
    match chance.randrange(5):
        case 0:
            del words[at]
        case 1:
            words.insert(at, words[at])
        case 2:
            words[at] = chance.choice(PIECES).replace(b" ", b"")
        case _:
            words[at] = mutated(chance, words[at], 2).replace(b" ", b"")
    # What takes long or writes elsewhere is another test's.
    return b" ".join(word[:6000] for word in words)


def _run(data: bytes) -> None:
    _stores()
    _snapshot(_snapshots()[0])
    text = _word(data).replace("{dir}", str(_directory()))
    outputs = (io.StringIO(), io.StringIO())
    before = Path.cwd()
    os.chdir(_directory())
    try:
        with contextlib.redirect_stdout(outputs[0]), contextlib.redirect_stderr(outputs[1]):
            code = invoke(text.split(" "))
    finally:
        os.chdir(before)
    said = outputs[1].getvalue()
    if code not in (0, 1, 2):
        raise FaultError(f"exit code {code}: {said[-300:]}")
    if "please report" in said:
        raise FaultError(said[-600:])
    for output in outputs:
        if found := _CONTROL.search(output.getvalue()):
            raise FaultError(f"printed {found.group()!r}: {output.getvalue()[-300:]!r}")


def _each(*readers: Callable[[str], object]) -> Callable[[bytes], None]:
    """Return a reader that gives one text to several."""

    def read(data: bytes) -> None:
        text = data.decode(errors="replace")
        for reader in readers:
            with contextlib.suppress(SchedlabError):
                reader(text)

    return read


def _words(data: bytes, parts: int) -> list[str]:
    return [*_word(data).split(" "), *[""] * parts][:parts]


def _read_scheduler(data: bytes) -> None:
    release, hz, knob, value, weights = _words(data, 5)
    number = int(hz) if hz.isascii() and hz.lstrip("-").isdigit() and len(hz) < 50 else 250
    Scheduler(release, hz=number, knobs={knob: value} if knob else None, weights=weights or "none")


def _read_machine(data: bytes) -> None:
    topology, speed = _words(data, 2)
    Machine(4, "ideal", topology or "smt=1", speed)


def _read_attributes(data: bytes) -> None:
    policy, piece = _words(data, 2)
    Attributes(policy, slice=piece or None)


def _read_groups(data: bytes) -> None:
    _hogs().with_groups(
        *(part.split(" ") if part else [] for part in (*_word(data).split("|"), "")[:2])
    )


@cache
def _hogs() -> Workload:
    return Workload.parse("hogs:tasks=10")


def _read_json(data: bytes) -> None:
    read = Workload.parse(str(_file(data, "workload.json")))
    read.export()


def _workloads() -> Sequence[bytes]:
    return [
        b"%s:%s"
        % (
            row["name"].encode(),
            ",".join(f"{k['name']}={k['default']}" for k in row["keys"]).encode(),
        )
        for row in json.loads(_core.workloads())
    ]


def _documents() -> Sequence[bytes]:
    names = ("hackbench:groups=1,fds=2", "http:duration=1s", "aio", "schbench", "mixed", "pipe")
    files = [*sorted((ROOT / "examples").glob("*.json")), ROOT / "validation" / "interactive.json"]
    return [Workload.parse(name).export().encode() for name in names] + [
        path.read_bytes() for path in files
    ]


PARSERS: Sequence[Parser] = (
    Parser("time", lambda data: parse_time(_word(data)), 100_000, _texts("20ms", "1.5s", "0ns")),
    Parser(
        "scheduler",
        _read_scheduler,
        120_000,
        _texts("6.1 250 latency 20ms none", "6.12.95-amd64 100 base_slice 3ms", "~6.8 1000",
               "7.2 250 feature.RUN_TO_PARITY 1 dw-cfs:beta=1.1", "5.10 250 rt_runtime unlimited"),
    ),
    Parser(
        "machine",
        _read_machine,
        100_000,
        _texts("smt=2,llc=8,node=16 smt=62.5%,turbo=130%/120%/100%", "siblings=last,smt=2"),
    ),
    Parser(
        "attributes",
        _read_attributes,
        80_000,
        _texts("fifo:5", "rr:99", "batch 3ms", "ext:dw-cfs:beta=1.1", "deadline", "other 100us"),
    ),
    Parser(
        "groups",
        _read_groups,
        80_000,
        _texts("/a:weight=50,tasks=2 /b:max=20ms/100ms,burst=1ms|s:tasks=hog", "/a/b:idle=1"),
    ),
    Parser(
        "workload",
        lambda data: Workload.parse(_word(data).replace("/", "")),
        140_000,
        cache(_workloads),
    ),
    Parser("document", _read_json, 120_000, cache(_documents)),
    Parser("replay", _replay, 80_000, recordings, recording),
    Parser("infer", _infer, 30_000, recordings, recording),
    Parser("observe", _observe, 30_000, recordings, recording),
    Parser("snapshot", _snapshot, 30_000, _snapshots),
    Parser("trace", lambda data: spans.read(_file(data, "trace.txt")), 10_000, _traces),
    Parser("costs", _read_costs, 20_000, _costs),
    Parser("journal", lambda data: journal.read(_file(data, "journal")), 20_000, _journals),
    Parser("store", _read_store, 6_000, _stores, _mutated_store),
    Parser(
        "outcome",
        lambda data: Outcome.from_json(data.decode()),
        10_000,
        _outcomes,
        mutated_json,
    ),
    Parser(
        "program",
        _each(
            read_wrk,
            read_ab,
            read_fio,
            read_hackbench,
            lambda text: read_stress_ng(text, "cpu"),
        ),
        10_000,
        _texts("Requests/sec:  12.5\nLatency 1.5ms 2us\n50% 1.00ms\n99% 2.00ms\nTransfer/sec: 5MB",
               "Requests per second: 5.5 [#/sec] (mean)\n"
               "Time per request: 1.0 [ms]\n 50% 3\n 99% 4\n",
               '{"jobs": [{"read": {"iops": 1.5, "bw_bytes": 5, "clat_ns": {"mean": 1}}}]}',
               "Running in process mode with 5 groups using 40 file descriptors each "
               "(== 200 tasks)\n"
               "Each sender will pass 10 messages of 100 bytes\nTime: 0.066\n",
               "stress-ng: metrc: [1] cpu 100 1.0 1.0 1.0 100 50\n"),
    ),
    Parser("command_line", _run, 4_000, _texts(*_COMMANDS), _mutated_command),
)  # fmt: skip


def parser(name: str) -> Parser:
    """Return a parser by its name."""
    return next(one for one in PARSERS if one.name == name)


def main() -> None:
    """Read one file of the corpus with so much memory; for test_corpus.py."""
    path = Path(sys.argv[1])
    one = parser(path.parent.name)
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))
    one.check(path.read_bytes())


LIMIT = 4 << 30
"""Bytes of memory, code and reservations of threads included."""

if __name__ == "__main__":
    main()
