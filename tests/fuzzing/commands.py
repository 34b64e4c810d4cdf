"""The whole program: command lines, and reports of summaries."""

import contextlib
import io
import os
import random
import re
from pathlib import Path

from tests.fuzzing.mutation import PIECES, mutated
from tests.fuzzing.parser import FaultError, directory, file, word
from tests.fuzzing.recordings import snapshot, snapshots
from tests.fuzzing.written import stores

from schedlab.cli.main import invoke

_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff]")

COMMANDS = (
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


def mutated_command(chance: random.Random, data: bytes) -> bytes:
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


def run(data: bytes) -> None:
    """Give the program a command line."""
    stores()
    snapshot(snapshots()[0])
    _invoke(word(data).replace("{dir}", str(directory())).split(" "))


def report(data: bytes) -> None:
    """Make a demo's or study's report of a summary."""
    written = str(directory() / "report.html")
    _invoke(["report", str(file(data, "summary.json")), "--output", written])


def _invoke(words: list[str]) -> None:
    outputs = (io.StringIO(), io.StringIO())
    before = Path.cwd()
    os.chdir(directory())
    try:
        with contextlib.redirect_stdout(outputs[0]), contextlib.redirect_stderr(outputs[1]):
            code = invoke(words)
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
