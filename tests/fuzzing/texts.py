"""What people write by hand: words of options, workloads, and what programs print."""

import contextlib
import json
import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from tests.fuzzing.parser import file, word
from tests.fuzzing.recordings import machine

from schedlab import _core
from schedlab.boundary.errors import SchedlabError
from schedlab.model import Attributes, Machine, Scheduler, Workload
from schedlab.programs import subject
from schedlab.programs.command import Command
from schedlab.targets.target import Simulated
from schedlab.tuning.parameters import parameters

ROOT = Path(__file__).resolve().parents[2]


def each(*readers: Callable[[str], object]) -> Callable[[bytes], None]:
    """Return a reader that gives one text to several."""

    def read(data: bytes) -> None:
        text = data.decode(errors="replace")
        for reader in readers:
            with contextlib.suppress(SchedlabError):
                reader(text)

    return read


def _words(data: bytes, parts: int) -> list[str]:
    return [*word(data).split(" "), *[""] * parts][:parts]


def read_scheduler(data: bytes) -> None:
    release, hz, knob, value, weights = _words(data, 5)
    number = int(hz) if re.fullmatch("-?[0-9]{1,50}", hz) else 250
    Scheduler(release, hz=number, knobs={knob: value} if knob else None, weights=weights or "none")


def read_machine(data: bytes) -> None:
    topology, speed = _words(data, 2)
    Machine(4, "ideal", topology or "smt=1", speed)


def read_attributes(data: bytes) -> None:
    policy, piece = _words(data, 2)
    Attributes(policy, slice=piece or None)


def read_groups(data: bytes) -> None:
    _hogs().with_groups(
        *(part.split(" ") if part else [] for part in (*word(data).split("|"), "")[:2])
    )


@cache
def _hogs() -> Workload:
    return Workload.parse("hogs:tasks=10")


def read_json(data: bytes) -> None:
    read = Workload.parse(str(file(data, "workload.json")))
    read.export()


def workloads() -> Sequence[bytes]:
    return [
        b"%s:%s"
        % (
            row["name"].encode(),
            ",".join(f"{k['name']}={k['default']}" for k in row["keys"]).encode(),
        )
        for row in json.loads(_core.workloads())
    ]


def documents() -> Sequence[bytes]:
    names = ("hackbench:groups=1,fds=2", "http:duration=1s", "aio", "schbench", "mixed", "pipe")
    files = [*sorted((ROOT / "examples").glob("*.json")), ROOT / "validation" / "interactive.json"]
    return [Workload.parse(name).export().encode() for name in names] + [
        path.read_bytes() for path in files
    ]


def read_program(data: bytes) -> None:
    """Read a benchmark's name and options, which does not start it."""
    subject(word(data))


def read_command(data: bytes) -> None:
    """Read a command and the pattern of its metric."""
    pattern, *words = word(data).split("|")
    Command(tuple(words), pattern)


def read_range(data: bytes) -> None:
    """Read what a tuning is to search."""
    knob, policy, slices = _words(data, 3)
    chosen = policy.split(",") if policy else []
    parameters(
        Simulated(Scheduler("6.12"), machine()), knobs=[knob], policies=chosen, slices=slices
    )
