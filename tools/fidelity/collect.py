"""The recordings that the lines are about: made in guests, one boot a release, and replayed."""

import datetime as dt
import gzip
import json
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path
from typing import Any

from fidelity.held_out.draw import Drawn, draw, seeds_of
from fidelity.judge import Key, Report
from fidelity.register import CFS, Line, Register, Scenario
from schedlab import _core
from schedlab.boundary.errors import InputError, SchedlabError
from schedlab.boundary.files import make_directory, write_text
from schedlab.measure.recording import Recording, record
from schedlab.model import Machine, Workload
from schedlab.targets import host
from schedlab.targets.sim import simulate
from schedlab.vm import Guest

BUFFER = 262_144
"""KiB of the guest's buffer: at some hundred bytes an event, millions of them."""

MEMORY = 2_048
"""MiB of the guest: the buffer, and the recording until it is handed over."""

CLOCK = ("-icount", "shift=5,sleep=off")
"""The guests' clock is the number of their instructions, 32 ns each. Whatever else this machine
does, a recording shows what its tasks did; the kernel's ticks come after so few instructions that
many can be recorded; and idle time is skipped."""

BOOT = 600.0
"""Seconds within which a guest has to be up, on a machine that does other things too."""

LARGEST = 150_000
"""Switches and messages of a random workload, simulated: at some 20 events each, a recording of
more does not fit the guest's buffer."""

ATTEMPTS = 8
"""Of each recording: one that lost anything is refused."""

_SLICE = """\
file=/sys/kernel/debug/sched/base_slice_ns own=/dev/shm/base_slice_ns
[ -e $file ] || exit 0
[ -e $own ] || cat $file > $own
if [ "$1" = 0 ]; then cat $own > $file; else echo "$1" > $file; fi"""
"""Sets the slice, or what it was before the first recording, where the kernel has one."""

_ACCELERATORS = {"accelerator": "", "accelerator-several": "several CPUs: "}
"""Files beside a series' recordings that say how its guests ran, of one CPU and of several, and
what is put before each."""

Note = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Collected:
    """What was recorded and what the replays found.

    Attributes:
        kernels: the releases that ran, by series.
        accelerators: how their guests ran, by series.
        days: when their recordings were made, by series.
        recordings: what is known of each recording, by scenario and series.
        drawn: each random workload: its kind, its seed and the commit that this follows from, by
            scenario and series.
        reports: the replays, by scenario, series and level.
        reasons: why a recording or replay is missing, by the same.
    """

    kernels: dict[str, str] = field(default_factory=dict)
    accelerators: dict[str, str] = field(default_factory=dict)
    days: dict[str, set[str]] = field(default_factory=dict)
    recordings: dict[tuple[str, str], Recording] = field(default_factory=dict)
    drawn: dict[tuple[str, str], str] = field(default_factory=dict)
    reports: dict[Key, Report] = field(default_factory=dict)
    reasons: dict[Key, str] = field(default_factory=dict)

    def add(self, other: "Collected") -> None:
        """Take over what was found of another series."""
        self.kernels.update(other.kernels)
        self.accelerators.update(other.accelerators)
        self.days.update(other.days)
        self.recordings.update(other.recordings)
        self.drawn.update(other.drawn)
        self.reports.update(other.reports)
        self.reasons.update(other.reasons)


def collect_all(
    register: Register, directory: Path, note: Note, *, kept: bool, commit: str
) -> Collected:
    """Record and replay all series, as many side by side as there are CPUs.

    Args:
        register: what was written down.
        directory: where the recordings are put.
        note: told what is being done.
        kept: replay recordings that are there already instead of making them.
        commit: whose hash random workloads are drawn from.
    """

    def one(series: str) -> Collected:
        found = Collected()
        if kept:
            replay_kept(register, series, directory, found)
        else:
            collect(register, series, directory, found, note, commit=commit)
        return found

    # A guest ends with the thread that booted it: each series has a thread of its own to its end.
    whole = Collected()
    with ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0))) as series:
        for found in series.map(one, register.releases):
            whole.add(found)
    return whole


def collect(
    register: Register,
    series: str,
    directory: Path,
    into: Collected,
    note: Note,
    *,
    commit: str,
) -> None:
    """Record every scenario of a series and replay what its lines read.

    Args:
        register: what was written down.
        series: the series.
        directory: where the recordings are put.
        into: where what is found is put.
        note: told what is being done.
        commit: whose hash random workloads are drawn from.
    """
    lines = [line for line in register.lines if line.release == series]
    todo: dict[tuple[int, int, int, int], list[str]] = {}
    for name in dict.fromkeys(line.scenario for line in lines):
        scenario = register.scenarios[name]
        machine = (scenario.cpus, scenario.sockets, scenario.threads, scenario.nodes)
        todo.setdefault(machine, []).append(name)
    make_directory(directory / series)
    for machine, names in todo.items():
        cpus = machine[0]
        # Several translated CPUs may run into code that another one is just changing: the guest
        # is gone then.
        for _ in range(ATTEMPTS if cpus > 1 else 1):
            left = [name for name in names if (name, series) not in into.recordings]
            try:
                with _boot(series, *machine) as guest:
                    clock = f", {' '.join(CLOCK)}" if cpus == 1 else ""
                    beside = list(_ACCELERATORS)[cpus > 1]
                    write_text(directory / series / beside, f"{guest.accelerator}{clock}")
                    for name in left:
                        path, scenario = _path(directory, series, name), register.scenarios[name]
                        what = what_runs(scenario, series, commit, path)
                        try:
                            made = _one(guest, scenario, what, path)
                        except InputError as error:
                            note(f"{series} {name}: {error}")
                            _miss([line for line in lines if line.scenario == name], error, into)
                            continue
                        into.recordings[name, series] = made
                        note(f"{series} {name}: {made.events} events")
                break
            except SchedlabError as error:
                note(f"{series}: {error}")
                recorded = {name for name, release in into.recordings if release == series}
                missing = [name for name in left if name not in recorded]
                _miss([line for line in lines if line.scenario in missing], error, into)
    for line in lines:
        if (line.scenario, series) in into.recordings:
            _replay(
                line.scenario, series, line.level, _path(directory, series, line.scenario), into
            )


def _boot(
    series: str, cpus: int, sockets: int, threads: int = 1, nodes: int = 1
) -> AbstractContextManager[Guest]:
    """Return a guest of so many CPUs, each socket of which has a last-level cache of its own.

    One CPU counts its instructions for the time, several the cycles of the machine. Cores may have
    several threads, and the sockets may be dealt out to several nodes of memory.
    """
    append = "noautogroup"
    options: tuple[str, ...] = CLOCK
    if cpus > 1:
        append += " tsc=reliable"
        cores = cpus // sockets // threads
        options = ("-smp", f"{cpus},sockets={sockets},cores={cores},threads={threads}")
    if nodes > 1:
        of_node = cpus // nodes
        for node in range(nodes):
            memory = f"memory-backend-ram,id=node{node},size={MEMORY // nodes}M"
            numbers = f"cpus={node * of_node}-{(node + 1) * of_node - 1}"
            options += (
                "-object",
                memory,
                "-numa",
                f"node,nodeid={node},{numbers},memdev=node{node}",
            )
    return Guest.boot(
        series, cpus=cpus, memory=MEMORY, append=append, options=options, timeout=BOOT
    )


def _miss(lines: Iterable[Line], error: SchedlabError, into: Collected) -> None:
    for line in lines:
        into.reasons[line.scenario, line.release, line.level] = str(error)


def replay_kept(register: Register, series: str, directory: Path, into: Collected) -> None:
    """Replay recordings that are there already."""
    for line in register.lines:
        path = _path(directory, series, line.scenario)
        if line.release == series and path.exists():
            _replay(line.scenario, series, line.level, path, into)


def _path(directory: Path, series: str, scenario: str) -> Path:
    return directory / series / f"{scenario}.txt.gz"


def what_runs(scenario: Scenario, series: str, commit: str, path: Path) -> Workload | list[str]:
    """Return what is recorded; of a random workload, note beside the recording which it is.

    Random workloads are the first of a commit's that are not larger than `LARGEST`.

    Args:
        scenario: the scenario.
        series: the series, from which a random workload follows too.
        commit: the hash of the commit whose rules are compared.
        path: of the recording.
    """
    if scenario.random:
        small = _small_enough(series, commit, scenario.cpus)
        drawn = next(islice(small, scenario.random - 1, None))
        write_text(_drawn_beside(path), f"{drawn.kind}, seed {drawn.seed}, commit {commit}\n")
        return drawn.workload
    if scenario.run:
        return Workload.parse(scenario.run)
    return [str(host.runner()), "scenario", scenario.play, f"--length={scenario.length}s"]


def _small_enough(series: str, commit: str, cpus: int) -> Iterator[Drawn]:
    machine = Machine(cpus, "reference")
    for number in count(1):
        seed = seeds_of(f"{commit} {series} {cpus}", number)[-1]
        drawn = draw(seed, cpus=cpus, slices=series not in CFS)
        run = simulate(drawn.workload, scheduler=series, machine=machine)
        if run.switches + run.messages <= LARGEST:
            yield drawn


def _drawn_beside(path: Path) -> Path:
    return path.with_name(path.name.removesuffix(".txt.gz") + ".drawn")


def _one(guest: Guest, scenario: Scenario, what: Workload | list[str], path: Path) -> Recording:
    # Sessions that begin while this is 1 are groups; those before it stay what they are.
    autogroup = f"echo {int(scenario.autogroup)} > /proc/sys/kernel/sched_autogroup_enabled"
    guest.run(["sh", "-c", autogroup])
    guest.run(["sh", "-c", _SLICE, "sh", str(scenario.base_slice_us * 1000)])
    path.unlink(missing_ok=True)
    # Where instructions are translated and the machine is shared, everything takes its time.
    limit = 10.0 * scenario.length + 900
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
        made = dt.datetime.fromtimestamp(path.stat().st_mtime, dt.UTC).date().isoformat()
        into.days.setdefault(series, set()).add(made)
        with suppress(FileNotFoundError):
            drawn = _drawn_beside(path).read_text(encoding="utf-8").strip()
            into.drawn[scenario, series] = drawn
        report: Any = json.loads(_core.replay(path, None, None, level))
        into.reports[key] = report
    except (SchedlabError, OSError, EOFError, RuntimeError, ValueError) as error:
        into.reasons[key] = f"its replay: {error}"
    into.accelerators[series] = how_it_ran(path.parent)


def how_it_ran(directory: Path) -> str:
    """Return how the guests ran whose recordings lie in a directory.

    Args:
        directory: that of a series.

    Returns:
        The accelerator and the clock of the guest of one CPU and of those of several, as far as
        there were any.
    """
    found = []
    for name, of in _ACCELERATORS.items():
        with suppress(OSError):
            found.append(of + (directory / name).read_text(encoding="utf-8"))
    return "; ".join(found)


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
