"""``schedlab tune``."""

import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from schedlab import campaign, tuning
from schedlab.cli import comparing, options
from schedlab.errors import InputError
from schedlab.files import write_text
from schedlab.programs.command import Command
from schedlab.report.terminal import emit_json, note, running, say
from schedlab.report.tuned import describe_tuning, verdict_sentences
from schedlab.sequential import Protocol
from schedlab.settings import Setting
from schedlab.store import Store
from schedlab.subjects import Subject
from schedlab.targets.target import Simulated, Target
from schedlab.tuning.certifying import candidate, certify
from schedlab.tuning.exporting import FILES, export
from schedlab.tuning.searches import DRAWS_NOTHING
from schedlab.tuning.tuner import summary


class By(StrEnum):
    """Which search."""

    PSO = "pso"
    GOLDEN = "golden"
    RSM = "rsm"
    RANDOM = "random"
    TPE = "tpe"
    CMAES = "cmaes"


class Scale(StrEnum):
    """How ranges are searched."""

    LOG = "log"
    LINEAR = "linear"


def command(
    workloads: comparing.Workloads = None,
    *,
    knobs: Annotated[
        str | None,
        typer.Option(
            "--knobs", metavar="A,B=LOW..HIGH,…", help="Knobs to search, over their ranges."
        ),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option("--policy", metavar="A,B", help="Policies to choose from."),
    ] = None,
    time_slice: Annotated[
        str | None,
        typer.Option("--slice", metavar="LOW..HIGH", help="Slices: a range, or A,B (6.12 on)."),
    ] = None,
    by: Annotated[By, typer.Option("--by", help="The search.")] = By.PSO,
    scale: Annotated[
        Scale, typer.Option("--scale", help="Whether equal steps are ratios or lengths.")
    ] = Scale.LOG,
    run: comparing.Command = None,
    metric: comparing.Metric = None,
    better: comparing.Better = None,
    metrics: Annotated[
        str | None, typer.Option("--metrics", metavar="NAME", help="What counts, of workloads.")
    ] = None,
    on: Annotated[
        str, typer.Option("--on", metavar="PLACE", help="sim, host or vm:KERNEL.")
    ] = "sim",
    verify: Annotated[
        str | None,
        typer.Option(
            "--verify",
            metavar="PLACE",
            help="Compare winner and default there: host, vm:KERNEL, or none. Real places verify "
            "themselves otherwise.",
        ),
    ] = None,
    executions: Annotated[
        int | None,
        typer.Option("--executions", metavar="N", min=2, help="Settings to try, a search."),
    ] = None,
    repeats: Annotated[
        int,
        typer.Option(
            "--repeats", metavar="N", min=1, help="Seeds a simulated run; blocks real ones screen."
        ),
    ] = 1,
    kernel: options.Kernel = None,
    cpus: options.Cpus = None,
    topology: options.Topology = None,
    speed: options.Speed = None,
    hz: options.Hz = None,
    given: options.Set = None,
    costs: options.Costs = None,
    weights: options.Weights = None,
    group: options.Group = None,
    session: options.Session = None,
    seed: options.Seed = 1,
    seeds: Annotated[
        int, typer.Option("--seeds", metavar="N", help="Searches, from --seed on.", min=1)
    ] = 1,
    blocks: comparing.Blocks = comparing.BUDGET,
    band: comparing.Band = 0.01,
    timeout: comparing.Timeout = "60s",
    store: comparing.File = None,
    afresh: comparing.Afresh = False,
    exported: Annotated[
        str | None,
        typer.Option(
            "--export", metavar="KIND[:FILE]", help=f"Write the winner: {', '.join(FILES)}."
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Search for the setting that serves workloads, programs or a command best.

    Several workloads are served together: the result says what each gains or loses. Every run is
    kept, and the same command goes on where it was stopped.

    Example: [bold]schedlab tune --on host --policy other,batch --slice 1ms..30ms --metric
    'total: (.*)' -- ./my-benchmark --flag[/bold]
    """
    simulation = comparing.Simulation(
        kernel, cpus, hz, costs, topology, speed, weights, group, session
    )
    target = comparing.targets(_one(on), simulation)[0]
    target = _with_knobs(target, kernel, hz, given, weights)
    what = comparing.subjects(workloads, run, metric, better, simulation)
    if by.value in DRAWS_NOTHING and seeds > 1:
        raise InputError(f"--seeds means nothing with --by {by.value}, which draws nothing")
    if target.real and seeds > 1:
        raise InputError(f"--seeds means nothing with --on {on}: one search is raced at a time")
    file = _export_file(exported)
    where = _verified_on(verify, target)
    searched = tuning.parameters(
        target,
        knobs=_names(knobs),
        policies=_names(policy),
        slices=time_slice if time_slice and ".." in time_slice else _names(time_slice),
        scale=scale.value,
    )
    if where is not None:
        # Refuse before the search what could not be verified after it.
        for corner in (searched.space.low, searched.space.high):
            searched.setting(corner).check(where)
    try:
        protocol = Protocol.within(blocks, band=band)
    except ValueError as error:
        raise InputError(str(error)) from None
    seconds, words = options.seconds(timeout, "timeout"), sys.argv[1:]
    places = [target] if where is None else [target, where]
    with comparing.ending(places), Store(store) as kept:
        try:
            with running("searching") as tell:
                found = tuning.tune_subjects(
                    what,
                    searched,
                    target,
                    by=by.value,
                    metric=metrics,
                    seeds=range(seed, seed + seeds),
                    executions=executions,
                    repeats=repeats,
                    band=band,
                    timeout=seconds,
                    store=kept,
                    command=words,
                    afresh=afresh,
                    progress=lambda pace: tell(
                        pace.done, pace.most, pace.seconds_left, f"best {pace.effect - 1:+.1%}"
                    ),
                )
            winner, certified = candidate(found), None
            if where is not None and winner is not None:
                with running(f"comparing on {where.name}") as tell_blocks:
                    certified = certify(
                        winner,
                        what,
                        where,
                        kept,
                        metric=metrics,
                        protocol=protocol,
                        seed=seed,
                        timeout=seconds,
                        command=words,
                        afresh=afresh,
                        progress=lambda one: tell_blocks(one.done, one.most, None, ""),
                    )
        except tuning.Stopped as stop:
            note(f"{stop.done} runs are kept in {kept.path}: the same command goes on from there")
            raise
        except campaign.Interrupted:
            note(f"all runs are kept in {kept.path}: the same command goes on from there")
            raise
    if json:
        emit_json(_plain(found, winner, certified))
    else:
        describe_tuning(found)
        for sentence in [] if certified is None else verdict_sentences(winner, certified):
            say(sentence)
    if file is not None:
        _write(file, found.best, target, what, certified)


def _one(on: str) -> str:
    if "," in on:
        raise InputError(f"--on is '{on}'; allowed: one of sim, host, vm:KERNEL")
    return on or "nowhere"


def _with_knobs(
    target: Target, kernel: str | None, hz: int | None, given: list[str] | None, weights: str | None
) -> Target:
    if not given:
        return target
    if not isinstance(target, Simulated):
        raise InputError(f"--set means nothing with --on {target.name}: leave it out")
    return Simulated(options.scheduler_of(kernel, hz, given, weights), target.machine)


def _verified_on(verify: str | None, target: Target) -> Target | None:
    """Return where the winner is to be compared with the default."""
    if verify is None:
        return target if target.real else None
    if verify == "none":
        return None
    if verify == target.name and target.real:
        return target
    if verify != "host" and not verify.startswith("vm:"):
        raise InputError(f"--verify is '{verify}'; allowed: host, vm:KERNEL, none")
    return comparing.targets(verify)[0]


def _names(text: str | None) -> list[str]:
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def _export_file(text: str | None) -> tuple[str, Path] | None:
    """Read ``kind:file``, and refuse a file that could not be written after hours of search."""
    if text is None:
        return None
    kind, _, name = text.partition(":")
    if kind not in FILES:
        raise InputError(f"--export is '{text}'; allowed: {', '.join(FILES)}, each with :FILE")
    path = Path(name or FILES[kind])
    options.output(path)
    return kind, path


def _write(
    file: tuple[str, Path],
    best: Setting,
    target: Target,
    what: Sequence[tuple[str, Subject]],
    certified: campaign.Result | None,
) -> None:
    kind, path = file
    if not best.values:
        note(f"'{path}' was not written: what is set at present served best")
        return
    subject = what[0][1]
    words = subject.words if isinstance(subject, Command) else ()
    told = "; ".join(name for name, _ in what)
    verdicts = "" if certified is None else f", {'; '.join(verdict_sentences(best, certified))}"
    release = target.release
    made = export(kind, best, release, target.cpus, command=words, why=f"for {told}{verdicts}")
    write_text(path, made.text)
    for sentence in made.left_out:
        note(sentence)
    note(f"written to {path}; the system looks for it in {made.place}")
    if certified is not None and not all(
        str(answer.judged.verdict) == "better" for answer in certified.settled.answers
    ):
        note("not every verdict is 'better': weigh that before you make the setting permanent")


def _plain(
    found: tuning.Tuning, winner: Setting | None, certified: campaign.Result | None
) -> dict[str, Any]:
    return {
        "experiment": found.id,
        **summary(found),
        "stored": found.stored,
        "verified": None
        if certified is None or winner is None
        else {"setting": dict(winner.values), **comparing.plain(certified)},
    }
