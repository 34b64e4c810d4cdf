"""Options that several commands share, and what they stand for."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from contextvars import ContextVar
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from schedlab.boundary.arguments import is_directory
from schedlab.boundary.errors import InputError
from schedlab.measure.background import background_from
from schedlab.measure.calibration import references
from schedlab.model import Attributes, Machine, Scheduler, parse_time, settings
from schedlab.report.terminal import note
from schedlab.targets.facts import facts

_asked: ContextVar[tuple[str, ...]] = ContextVar("_asked", default=())


def ask(words: Sequence[str]) -> None:
    """Note the words of the command that is about to run, as they would repeat it."""
    _asked.set(tuple(words))


def words() -> list[str]:
    """Return the words of the command that runs, as they would repeat it."""
    return list(_asked.get())


class Target(StrEnum):
    """Where a run takes place."""

    SIM = "sim"
    HOST = "host"


Workload = Annotated[
    str,
    typer.Argument(
        help="name:key=value,… or the path of a JSON file; see 'schedlab run --help'.",
        metavar="WORKLOAD",
    ),
]
Anywhere = Annotated[
    str,
    typer.Option(
        "--on",
        metavar="WHERE",
        help="sim, host, or vm:KERNEL: a series, a release or the path of a vmlinuz.",
    ),
]
On = Annotated[Target, typer.Option("--on", help="Simulate, or run on this kernel.")]
Kernel = Annotated[
    str | None,
    typer.Option(
        "--kernel",
        metavar="RELEASE",
        help="Kernel to simulate, this one by default; ~6.8 takes the nearest known series' rules.",
    ),
]
Cpus = Annotated[
    int | None,
    typer.Option("--cpus", metavar="N", help="CPUs to use; all of this machine's by default."),
]
Topology = Annotated[
    str | None,
    typer.Option(
        "--topology",
        metavar="SIZES",
        help="CPUs a core, cache and node of the simulated machine: smt=2,llc=8,node=16.",
    ),
]
Speed = Annotated[
    str | None,
    typer.Option(
        "--speed",
        metavar="SPEEDS",
        help="Speed of the simulated CPUs by what is busy: smt=62.5%,turbo=130%/100%, or turns.",
    ),
]
Hz = Annotated[
    int | None,
    typer.Option("--hz", metavar="N", help="Timer interrupts a second to simulate."),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KNOB=VALUE", help="Set a knob; may be given several times."),
]
Policy = Annotated[
    str | None,
    typer.Option(
        "--policy",
        metavar="P",
        help="other, batch, idle, fifo[:N], rr[:N], or ext:RULE (a sched_ext scheduler).",
    ),
]
Slice = Annotated[
    str | None,
    typer.Option("--slice", metavar="TIME", help="Slice of every task, 100us to 100ms (6.12 on)."),
]
Nice = Annotated[
    int | None, typer.Option("--nice", metavar="N", help="Nice level of every task, -20 to 19.")
]
Costs = Annotated[
    str | None,
    typer.Option(
        "--costs",
        metavar="COSTS",
        help=f"calibrated (the default), reference (in its place on a machine never calibrated) or "
        f"reference:NAME ({', '.join(references())}), ideal (nothing), linsched (the tuning "
        "paper's), or a calibration's file.",
    ),
]
Background = Annotated[
    str | None,
    typer.Option(
        "--background",
        metavar="none|FILE",
        help="What else runs on the simulated machine: none, or what a recording ('schedlab "
        "record') or a workload's .json has. By default what 'schedlab calibrate' measured, with "
        "calibrated costs.",
    ),
]
Weights = Annotated[
    str | None,
    typer.Option(
        "--weights",
        metavar="RULE",
        help="Weights by number of threads: none, pfs, or dw-cfs:beta=1.1 (any beta above 1).",
    ),
]
Rule = Annotated[
    list[str] | None,
    typer.Option(
        "--rule",
        metavar="NAME=on|off",
        help="Switch a rule of the simulated kernel ('schedlab kernels rules 6.12' lists them). "
        "May be given several times.",
    ),
]
Group = Annotated[
    list[str] | None,
    typer.Option(
        "--group",
        metavar="PATH[:KEY=VALUE,…]",
        help="A control group: weight=N or shares=N, max=QUOTA/PERIOD, burst=TIME, idle=1, and its "
        "tasks: tasks=N, tasks=NAME+NAME, or those that are left. May be given several times.",
    ),
]
Session = Annotated[
    list[str] | None,
    typer.Option(
        "--session",
        metavar="NAME[:tasks=…]",
        help="A session, whose tasks autogroup makes a group of. May be given several times.",
    ),
]
Clock = Annotated[
    str | None,
    typer.Option(
        "--clock",
        metavar="CLOCK",
        help="A guest's clock: host, or instructions, which load does not disturb.",
    ),
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="Seed of every random stream.")]
Workers = Annotated[
    str | None,
    typer.Option(
        "--workers",
        metavar="N|dask://HOST:PORT",
        help="Simulate in N processes of this machine, or by the workers of a Dask scheduler; the "
        "result is the same. Otherwise this process simulates on all CPUs.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Reasons = Annotated[
    Path | None,
    typer.Option(
        "--reasons",
        metavar="FILE",
        help="Write each decision with the rule that decided it: .txt or .jsonl.",
    ),
]


def rules_of(switches: Sequence[str]) -> dict[str, bool]:
    """Return the rules that ``NAME=on`` and ``NAME=off`` switch.

    Raises:
        InputError: another form, or a rule twice.

    >>> rules_of(["yield_forfeits=off"])
    {'yield_forfeits': False}
    """
    found: dict[str, bool] = {}
    for text in switches:
        name, _, value = text.partition("=")
        if not name or value not in ("on", "off"):
            raise InputError(f"--rule is '{text}'; allowed: NAME=on or NAME=off")
        if name in found:
            raise InputError(f"--rule names '{name}' twice")
        found[name] = value == "on"
    return found


def scheduler_of(
    kernel: str | None,
    hz: int | None,
    pairs: list[str] | None,
    weights: str | None = None,
    rules: Sequence[str] | None = None,
) -> Scheduler:
    """Return the scheduler that the options name, by default this kernel's.

    Its ``notes`` are for the caller to print.

    Raises:
        InputError: they name none, or the rules of this kernel's series are not known.
    """
    given = settings(pairs or [])
    if kernel is None:
        here = facts().rules
        kernel, hz, given = here.release, here.hz if hz is None else hz, {**here.knobs, **given}
    return Scheduler(
        kernel,
        hz=250 if hz is None else hz,
        knobs=given,
        weights=weights or "none",
        rules=rules_of(rules or ()),
    )


def machine_of(
    cpus: int | None,
    costs: str | None,
    topology: str | None = None,
    speed: str | None = None,
    background: str | None = None,
) -> Machine:
    """Return the machine that the options name."""
    number = facts().cpus if cpus is None else cpus
    others = background if background in (None, "none") else background_from(background)
    return Machine(number, costs, topology or "smt=1", speed or "", others)


def note_costs(machine: Machine) -> None:
    """Say what is to know of a machine's costs, in commands that print no outcome's notes."""
    if machine.costs.remark:
        note(machine.costs.remark)


def attributes_of(
    policy: str | None, time_slice: str | None, nice: int | None, affinity: tuple[int, ...] = ()
) -> Attributes | None:
    """Return the attributes that the options name; None where they name none."""
    if policy is None and time_slice is None and nice is None and not affinity:
        return None
    return Attributes(policy or "other", nice or 0, time_slice, affinity)


def guest_of(on: str) -> str | None:
    """Return the kernel of ``vm:KERNEL``; None for the other places, ``sim`` and ``host``.

    Raises:
        InputError: there is no such place.
    """
    if on.startswith("vm:") and on != "vm:":
        return on.removeprefix("vm:")
    if on not in set(Target):
        allowed = ", ".join(f"'{target}'" for target in Target)
        raise InputError(f"--on is '{on}'; allowed: {allowed}, 'vm:KERNEL'")
    return None


def refuse(target: str, **given: object) -> None:
    """Refuse options that mean nothing on a target.

    Raises:
        InputError: one of them was given.
    """
    for name, value in given.items():
        if value is not None:
            raise InputError(f"--{name} means nothing with --on {target}: leave it out")


def seconds(text: str, option: str) -> float:
    """Return the seconds of a time option.

    Raises:
        InputError: it is no time above zero.
    """
    value = parse_time(text) / 1e9
    if value <= 0:
        raise InputError(f"--{option} is {text}; allowed: above 0")
    return value


def output(path: Path | None) -> Path | None:
    """Refuse an output file whose directory is missing, before any work is done.

    Raises:
        InputError: it cannot be written there.
    """
    if path is not None and not is_directory(path.parent):
        raise InputError(f"cannot write '{path}': there is no directory '{path.parent}'")
    return path


@contextmanager
def silent() -> Iterator[None]:
    """Keep standard output for the JSON that follows."""
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):
        yield
