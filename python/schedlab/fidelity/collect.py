"""The recordings that the lines are about: made in guests, one boot a release, and replayed."""

import gzip
import json
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from schedlab import _core
from schedlab.errors import InputError, SchedlabError
from schedlab.fidelity.judge import Key, Report
from schedlab.fidelity.register import Register, Scenario
from schedlab.files import make_directory, write_text
from schedlab.model import Workload
from schedlab.recording import Recording, record
from schedlab.targets import host
from schedlab.vm import Guest

BUFFER = 524_288
"""KiB of the guest's buffer: at some hundred bytes an event, millions of them."""

MEMORY = 3_072
"""MiB of the guest: the buffer, and the recording until it is handed over."""

ATTEMPTS = 3
"""Of each recording: one that lost anything is refused."""

_ACCELERATOR = "accelerator"
"""A file beside a series' recordings that says how its guest ran."""

Note = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Collected:
    """What was recorded and what the replays found.

    Attributes:
        kernels: the releases that ran, by series.
        accelerators: how their guests ran, by series.
        recordings: what is known of each recording, by scenario and series.
        reports: the replays, by scenario, series and level.
        reasons: why a recording or replay is missing, by the same.
    """

    kernels: dict[str, str] = field(default_factory=dict)
    accelerators: dict[str, str] = field(default_factory=dict)
    recordings: dict[tuple[str, str], Recording] = field(default_factory=dict)
    reports: dict[Key, Report] = field(default_factory=dict)
    reasons: dict[Key, str] = field(default_factory=dict)


def collect(register: Register, series: str, directory: Path, into: Collected, note: Note) -> None:
    """Record every scenario of a series and replay what its lines read.

    Args:
        register: what was written down.
        series: the series.
        directory: where the recordings are put.
        into: where what is found is put.
        note: told what is being done.
    """
    lines = [line for line in register.lines if line.release == series]
    todo: dict[tuple[int, int], list[str]] = {}
    for name in dict.fromkeys(line.scenario for line in lines):
        scenario = register.scenarios[name]
        todo.setdefault((scenario.cpus, scenario.sockets), []).append(name)
    make_directory(directory / series)
    for (cpus, sockets), names in todo.items():
        left = list(names)
        # Several translated CPUs may run into code that another one is just changing: the guest
        # is gone then.
        for _ in range(ATTEMPTS if cpus > 1 else 1):
            try:
                with _boot(series, cpus, sockets) as guest:
                    write_text(directory / series / _ACCELERATOR, guest.accelerator)
                    while left:
                        path = _path(directory, series, left[0])
                        made = _one(guest, register.scenarios[left[0]], path)
                        into.recordings[left[0], series] = made
                        note(f"{series} {left.pop(0)}: {made.events} events")
                break
            except SchedlabError as error:
                note(f"{series}, {cpus} CPUs: {error}")
                for line in lines:
                    if line.scenario in left:
                        into.reasons[line.scenario, series, line.level] = str(error)
    for line in lines:
        if (line.scenario, series) in into.recordings:
            _replay(
                line.scenario, series, line.level, _path(directory, series, line.scenario), into
            )


def _boot(series: str, cpus: int, sockets: int) -> AbstractContextManager[Guest]:
    """Return a guest of so many CPUs, each socket of which has a last-level cache of its own.

    Several of them take the counter of their cycles for the time.
    """
    options = ("-smp", f"{cpus},sockets={sockets},cores={cpus // sockets}") if cpus > 1 else ()
    append = "noautogroup tsc=reliable" if cpus > 1 else "noautogroup"
    return Guest.boot(series, cpus=cpus, memory=MEMORY, append=append, options=options)


def replay_kept(register: Register, series: str, directory: Path, into: Collected) -> None:
    """Replay recordings that are there already."""
    for line in register.lines:
        path = _path(directory, series, line.scenario)
        if line.release == series and path.exists():
            _replay(line.scenario, series, line.level, path, into)


def _path(directory: Path, series: str, scenario: str) -> Path:
    return directory / series / f"{scenario}.txt.gz"


def _one(guest: Guest, scenario: Scenario, path: Path) -> Recording:
    what: Workload | list[str]
    if scenario.run:
        what = Workload.parse(scenario.run)
    else:
        what = [str(host.runner()), "scenario", scenario.play, f"--length={scenario.length}s"]
    # Sessions that begin while this is 1 are groups; those before it stay what they are.
    autogroup = f"echo {int(scenario.autogroup)} > /proc/sys/kernel/sched_autogroup_enabled"
    guest.run(["sh", "-c", autogroup])
    path.unlink(missing_ok=True)
    # Where instructions are translated and the machine is shared, everything takes its time.
    limit = 10.0 * scenario.length + 300
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return record(path, what, guest=guest, buffer=BUFFER // scenario.cpus, timeout=limit)
        except InputError:
            # A probe was hit while another one was at work: the recording was not kept.
            if attempt == ATTEMPTS:
                raise
    raise AssertionError


def _replay(scenario: str, series: str, level: str, path: Path, into: Collected) -> None:
    key = (scenario, series, level)
    try:
        into.kernels[series] = _kernel(path)
        report: Any = json.loads(_core.replay(path, None, None, level))
        into.reports[key] = report
    except (SchedlabError, OSError, EOFError, ValueError) as error:
        into.reasons[key] = f"its replay: {error}"
    with suppress(OSError):
        into.accelerators[series] = (path.parent / _ACCELERATOR).read_text(encoding="utf-8")


def _kernel(path: Path) -> str:
    """Return the release that a recording's head names, and the stable one behind it."""
    facts: dict[str, str] = {}
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            key, _, value = line.removeprefix("# ").partition(": ")
            facts[key] = value.strip()
            if {"release", "kernel"} <= facts.keys():
                break
    return f"{facts.get('kernel', '?')} ({facts.get('release', '?')})"
