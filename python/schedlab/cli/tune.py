"""``schedlab tune``."""

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from schedlab import tuning
from schedlab.boundary.errors import InputError
from schedlab.cli import (
    aim_options,
    comparison,
    options,
    setting_file,
    tune_outcome,
    tune_screening,
)
from schedlab.cli.tune_outcome import Verified
from schedlab.experiment import campaign
from schedlab.experiment.group_sequential import Protocol
from schedlab.report.terminal import emit_json, note, running, say
from schedlab.report.tuning_result import describe_tuning
from schedlab.report.words import merit
from schedlab.store import Store
from schedlab.targets.target import Simulated, Target, label
from schedlab.targets.workers import opened
from schedlab.tuning import racing
from schedlab.tuning.result import summary
from schedlab.tuning.searches import DRAWS_NOTHING

Metric = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        metavar="AIM",
        help="What to improve, once an aim. Of workloads: METRIC, or 'METRIC of WORKLOAD'. Of "
        "--command: a pattern with one group, or seconds, user, system, cpu.",
    ),
]
Better = Annotated[
    list[str] | None,
    typer.Option(
        "--better",
        metavar="lower|higher",
        help="Of --command, once a --metric: whether lower or higher values are better, where the "
        "pattern's words do not say.",
    ),
]


class By(StrEnum):
    """Which search."""

    PSO = "pso"
    GOLDEN = "golden"
    RSM = "rsm"
    RANDOM = "random"
    TPE = "tpe"
    CMAES = "cmaes"
    NSGA2 = "nsga2"


class Scale(StrEnum):
    """How ranges are searched."""

    LOG = "log"
    LINEAR = "linear"


def command(
    workloads: comparison.Workloads = None,
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
    by: Annotated[
        By | None,
        typer.Option(
            "--by",
            help="Search algorithm: pso otherwise, nsga2 for several aims.",
            show_default=False,
        ),
    ] = None,
    scale: Annotated[
        Scale, typer.Option("--scale", help="Search in equal ratios (log) or equal steps (linear).")
    ] = Scale.LOG,
    run: comparison.Command = None,
    metric: Metric = None,
    better: Better = None,
    metrics: Annotated[
        str | None,
        typer.Option("--metrics", metavar="NAME", help="Metric of workloads to improve, alone."),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            "--keep",
            metavar="FLOOR",
            help="Leave out what changes a metric for the worse by more: 'throughput>=-2%', "
            "'p99 of WORKLOAD<=+5%'; of --command also a pattern.",
        ),
    ] = None,
    points: Annotated[
        int | None,
        typer.Option(
            "--points",
            metavar="N",
            min=1,
            help=f"Points of the front of several aims that are certified: {tuning.POINTS} "
            "otherwise.",
            show_default=False,
        ),
    ] = None,
    on: Annotated[
        str, typer.Option("--on", metavar="PLACE", help="sim, host or vm:KERNEL.")
    ] = "sim",
    verify: Annotated[
        str | None,
        typer.Option(
            "--verify",
            metavar="PLACE",
            help="Compare winner and default there: host, vm:KERNEL, or none. A simulated winner "
            "meets fresh seeds first; without this a real one is compared where it was found.",
        ),
    ] = None,
    screen: Annotated[
        bool | None,
        typer.Option(
            "--screen/--no-screen",
            help="Of a real place: search in simulation with its kernel's rules and --costs, and "
            "begin real runs with what ranks first there. The default wherever that can be "
            "simulated.",
            show_default=False,
        ),
    ] = None,
    executions: Annotated[
        int | None,
        typer.Option("--executions", metavar="N", min=2, help="Settings that each search tries."),
    ] = None,
    repeats: Annotated[
        int,
        typer.Option(
            "--repeats",
            metavar="N",
            min=1,
            help="Seeds of each simulated setting; blocks in which real ones are screened.",
        ),
    ] = 1,
    kernel: options.Kernel = None,
    cpus: options.Cpus = None,
    topology: options.Topology = None,
    speed: options.Speed = None,
    hz: options.Hz = None,
    given: options.Set = None,
    costs: options.Costs = None,
    background: options.Background = None,
    weights: options.Weights = None,
    rule: options.Rule = None,
    group: options.Group = None,
    session: options.Session = None,
    seed: options.Seed = 1,
    seeds: Annotated[
        int,
        typer.Option(
            "--seeds", metavar="N", help="Number of searches, with seeds from --seed on.", min=1
        ),
    ] = 1,
    blocks: Annotated[
        int | None,
        typer.Option(
            "--blocks",
            metavar="N",
            min=2,
            help="Pairs of winner and default at the most: "
            f"{comparison.BUDGET} for real, {tuning.SIMULATED_BLOCKS} fresh seeds simulated, "
            f"{racing.BUDGET} in each heat of a race.",
            show_default=False,
        ),
    ] = None,
    workers: options.Workers = None,
    band: comparison.Band = 0.01,
    timeout: comparison.Timeout = "60s",
    store: comparison.File = None,
    afresh: comparison.Afresh = False,
    exported: setting_file.Export = None,
    uncertified: setting_file.Uncertified = False,
    json: options.Json = False,
) -> None:
    """Search for the setting that serves workloads, programs or a command best.

    The winner is compared with the present setting in fresh runs, or with fresh seeds, before
    a verdict is printed. Several workloads are served together: the result says what each gains
    or loses. Several aims (--metric given again) have a front of trades, of which the points worth
    choosing are compared and one is recommended. Every run is kept, and the same command continues
    where it was stopped.

    Example: [bold]schedlab tune --on host --policy other,batch --slice 1ms..30ms --metric
    'time: (.*)' -- ./my-benchmark --flag[/bold]
    """
    simulation = comparison.Simulation(
        kernel, cpus, hz, costs, topology, speed, weights, group, session, rule, background
    )
    # Those of a real place are for screening.
    of_place = None if on == "sim" else costs
    if of_place is not None:
        simulation = replace(simulation, costs=None)
    target = comparison.targets(_one(on), simulation)[0]
    target = _with_knobs(target, simulation, given)
    asked = aim_options.read(
        workloads or (),
        run,
        simulation,
        single=metrics,
        metrics=metric or (),
        better=better or (),
        keep=keep or (),
    )
    what, several = asked.subjects, len(asked.aims.aims) > 1
    _check_search(by, points, seeds, several=several)
    _check_real(target, on, seeds=seeds, workers=workers)
    file = setting_file.wanted(exported)
    where = _verified_on(verify, target)
    _check_export(file, where, uncertified=uncertified)
    if file is not None and label(target) != target.release:
        raise InputError(
            "--export writes settings of a kernel, and none has these rules: leave out --rule"
        )
    searched = tuning.parameters(
        target,
        knobs=_names(knobs),
        policies=_names(policy),
        slices=time_slice if time_slice and ".." in time_slice else _names(time_slice),
        scale=scale.value,
    )
    _check_places(searched, where)
    simulated, why = tune_screening.wanted(
        screen, target, where, what, searched, aims=len(asked.aims.aims), costs=of_place
    )
    if simulated is not None:
        where = [place for place in where if place is not target]
    protocols = [_protocol(place, blocks, band) for place in where]
    seconds, words = options.seconds(timeout, "timeout"), options.words()
    with (
        comparison.ending([target, *where]),
        Store(store) as kept,
        opened(workers) as simulating,
    ):
        try:
            with running("searching") as tell:
                found = tuning.tune_subjects(
                    what,
                    searched,
                    target if simulated is None else simulated,
                    by=None if by is None else by.value,
                    metrics=asked.metrics,
                    keep=asked.keep,
                    seeds=range(seed, seed + seeds),
                    executions=executions,
                    repeats=repeats,
                    band=band,
                    timeout=seconds,
                    store=kept,
                    command=words,
                    afresh=afresh,
                    workers=simulating,
                    progress=lambda pace: tell(
                        pace.done,
                        pace.most,
                        pace.seconds_left,
                        f"best {merit(pace.effect, pace.better)}",
                    ),
                )

            raced = tune_screening.raced(
                found,
                simulated,
                why,
                asked,
                target,
                kept,
                budget=racing.BUDGET if blocks is None else blocks,
                band=band,
                timeout=seconds,
                command=words,
                afresh=afresh,
            )
            settings = (
                tuning.candidates(found, points or tuning.POINTS, band=band)
                if simulated is None
                else raced.settings
            )

            def compared(place: Target, protocol: Protocol) -> campaign.Result:
                with running(f"comparing on {place.name}") as tell_blocks:
                    return tuning.certify(
                        settings,
                        what,
                        place,
                        kept,
                        metrics=asked.metrics,
                        keep=asked.keep,
                        protocol=protocol,
                        seed=found.fresh_seed,
                        timeout=seconds,
                        command=words,
                        afresh=afresh,
                        progress=comparison.telling_progress(tell_blocks),
                    )

            results = (*raced.heat, *(map(compared, where, protocols) if settings else ()))
            outcome = Verified(found, tuple(settings), results)
            kept.finish(found.id, "done", {**summary(found), **outcome.as_data(), **raced.data})
            conditions = tune_outcome.conditions(found, outcome, kept) if file is not None else []
        except tuning.Stopped as stop:
            note(f"{stop.done} runs are kept in {kept.path}: the same command continues from there")
            raise
        except campaign.Interrupted:
            note(f"all runs are kept in {kept.path}: the same command continues from there")
            raise
    _tell(found, outcome, raced, json=json)
    if file is not None:
        tune_outcome.write(
            file, target, what, outcome, uncertified=uncertified, conditions=conditions
        )


def _tell(
    found: tuning.Tuning, outcome: Verified, raced: tune_screening.Told, *, json: bool
) -> None:
    """Print what it came to."""
    if json:
        emit_json({**tune_outcome.plain(found, outcome), **raced.data})
        return
    describe_tuning(found, bool(outcome.results))
    for sentence in raced.sentences:
        say(sentence)
    for result in outcome.results:
        say()
        comparison.tell_result(result, json=False)
    for sentence in [*outcome.sentences(), *outcome.conclusion()]:
        say(sentence)


def _check_search(by: By | None, points: int | None, seeds: int, *, several: bool) -> None:
    """Refuse what a search or a single aim has no use for."""
    if points is not None and not several:
        raise InputError("--points means nothing with one aim, which has no front: leave it out")
    if by is not None and by.value in DRAWS_NOTHING and seeds > 1:
        raise InputError(f"--seeds means nothing with --by {by.value}, which draws nothing")


def _check_places(searched: tuning.Parameters, where: Sequence[Target]) -> None:
    """Refuse before the search what could not be verified after it."""
    for place in where:
        for corner in (searched.space.low, searched.space.high):
            searched.setting(corner).check(place)


def _check_real(target: Target, on: str, *, seeds: int, workers: str | None) -> None:
    """Refuse what only a simulation can have."""
    if target.real and seeds > 1:
        raise InputError(f"--seeds means nothing with --on {on}: one search is raced at a time")
    if target.real and workers is not None:
        raise InputError(f"--workers means nothing with --on {on}: real runs are made there")


def _one(on: str) -> str:
    if "," in on:
        raise InputError(f"--on is '{on}'; allowed: one of sim, host, vm:KERNEL")
    return on or "nowhere"


def _with_knobs(
    target: Target, simulation: comparison.Simulation, given: list[str] | None
) -> Target:
    if not given:
        return target
    if not isinstance(target, Simulated):
        raise InputError(f"--set means nothing with --on {target.name}: leave it out")
    return Simulated(simulation.scheduler(given), target.machine)


def _check_export(
    file: tuple[str, Path] | None, where: Sequence[Target], *, uncertified: bool
) -> None:
    """Refuse options that could not but end in an error after hours of search."""
    if uncertified and file is None:
        raise InputError("--uncertified means nothing without --export: leave it out")
    if file is not None and not where and not uncertified:
        raise InputError(
            "--export writes a winner with the verdict better, and --verify none asks for none: "
            "leave it out, or add --uncertified"
        )


def _protocol(place: Target, blocks: int | None, band: float) -> Protocol:
    usual = comparison.BUDGET if place.real else tuning.SIMULATED_BLOCKS
    try:
        return Protocol.within(usual if blocks is None else blocks, band=band)
    except ValueError as error:
        raise InputError(str(error)) from None


def _verified_on(verify: str | None, target: Target) -> list[Target]:
    """Return where the winner is compared with the default; the last place decides."""
    if verify == "none":
        return []
    if verify is None or (verify == target.name and target.real):
        return [target]
    if verify != "host" and not verify.startswith("vm:"):
        raise InputError(f"--verify is '{verify}'; allowed: host, vm:KERNEL, none")
    there = comparison.targets(verify)[0]
    return [there] if target.real else [target, there]


def _names(text: str | None) -> list[str]:
    return [name.strip() for name in (text or "").split(",") if name.strip()]
