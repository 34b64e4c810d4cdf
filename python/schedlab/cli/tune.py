"""``schedlab tune``."""

from enum import StrEnum
from typing import Annotated

import typer

from schedlab import tuning
from schedlab.cli import options
from schedlab.cli.options import Target
from schedlab.errors import InputError, NotPermittedError
from schedlab.experiment import Comparison
from schedlab.knobs import find, read
from schedlab.model import Workload, short_time
from schedlab.report.terminal import emit_json, progress, say, show
from schedlab.report.words import percent, verdict_words
from schedlab.targets.facts import facts


class By(StrEnum):
    """Which search."""

    PSO = "pso"
    GOLDEN = "golden"
    RANDOM = "random"


def command(
    workload: options.Workload,
    *,
    knobs: Annotated[
        str, typer.Option("--knobs", metavar="A,B,…", help="Knobs to search, over their ranges.")
    ],
    by: Annotated[By, typer.Option("--by", help="The search; golden takes one knob.")] = By.PSO,
    on: options.On = Target.SIM,
    verify: Annotated[
        Target | None,
        typer.Option("--verify", help="host: compare best and default on this kernel."),
    ] = None,
    kernel: options.Kernel = None,
    cpus: options.Cpus = None,
    topology: options.Topology = None,
    hz: options.Hz = None,
    settings: options.Set = None,
    costs: options.Costs = None,
    seed: options.Seed = 1,
    seeds: Annotated[
        int, typer.Option("--seeds", metavar="N", help="Searches, from --seed on.", min=1)
    ] = 1,
    repeats: Annotated[
        int,
        typer.Option("--repeats", metavar="N", help="Real runs of each in --verify.", min=6),
    ] = 20,
    json: options.Json = False,
) -> None:
    """Search for the knob settings with the least turnaround.

    Simulated settings can be confirmed on this kernel with --verify host, where it has those knobs
    and you may set them.

    Example: [bold]schedlab tune hackbench:groups=5,loops=1 --knobs latency,min_granularity
    --kernel 2.6.24 --hz 1000 --cpus 1 --costs linsched[/bold]
    """
    work = Workload.parse(workload)
    names = [name.strip() for name in knobs.split(",") if name.strip()]
    if on is Target.HOST:
        options.refuse(
            on, kernel=kernel, hz=hz, costs=costs, cpus=cpus, topology=topology, set=settings
        )
        scheduler = machine = None
    else:
        scheduler = options.scheduler_of(kernel, hz, settings)
        machine = options.machine_of(cpus, costs, topology)
    if verify is not None:
        _check_verifiable(verify, names)
    if by is By.GOLDEN and seeds > 1:
        raise InputError("--seeds means nothing with --by golden, which draws nothing")
    chosen = range(seed, seed + seeds)
    with progress("searching") as tell:
        result = tuning.tune(
            work,
            knobs=names,
            by=by.value,
            on=on.value,
            scheduler=scheduler,
            machine=machine,
            seeds=chosen,
            progress=lambda one: tell(one.generation),
        )
    comparison = None
    if verify is not None:
        with progress("verifying", 2 * (repeats + 1)) as tell:
            comparison = tuning.verify(
                result, repeats=repeats, seed=seed, progress=lambda one: tell(one.done)
            )
    if json:
        emit_json(_plain(result, comparison))
    else:
        _print(result, comparison)


def _check_verifiable(verify: Target, names: list[str]) -> None:
    """Refuse before the search what could not be verified after it."""
    if verify is not Target.HOST:
        raise InputError("--verify is sim; allowed: host")
    here = facts()
    for name in names:
        reading = read(find(name, here.release, here.cpus))
        if not reading.settable:
            raise NotPermittedError(f"knob '{name}' cannot be set here: {reading.why}")


def _print(result: tuning.Tuning, comparison: Comparison | None) -> None:
    say(result.workload.name)
    where = (
        f"simulated: {result.scheduler}; {result.machine}" if result.machine else "on this kernel"
    )
    say(f"{where}; {result.by}, {len(result.seeds)} seed{'' if len(result.seeds) == 1 else 's'}")
    say()
    show(
        [(name, value) for name, value in result.best.items()],
        ("knob", "best value found"),
    )
    say()
    change = percent(result.effect)
    say(
        f"turnaround {short_time(result.best_ns)}, with defaults {short_time(result.default_ns)}"
        f" ({change})"
    )
    if (minimum := result.minimum()) is not None:
        low, high = (short_time(end) for end in (minimum.interval.low, minimum.interval.high))
        say(f"over seeds: median {short_time(minimum.value)}, 95% interval {low} to {high}")
    if result.best_ns >= result.default_ns:
        say("nothing that was tried beats the defaults")
    executions, to_minimum = result.executions, result.executions_to_minimum
    say(
        f"executions {_over(executions)}, to the minimum {_over(to_minimum)}"
        + ("" if result.on == "host" else " (a repeated setting is none)")
    )
    still = [name for name, moved in result.moved.items() if not moved]
    if still:
        say(f"moving {', '.join(still)} alone changes nothing here")
    if comparison is not None:
        say()
        say(f"on this kernel: {verdict_words(comparison)}")


def _over(values: tuple[int, ...]) -> str:
    if len(values) == 1:
        return str(values[0])
    ordered = sorted(values)
    return f"{ordered[len(ordered) // 2]} (median; {ordered[0]} to {ordered[-1]})"


def _plain(result: tuning.Tuning, comparison: Comparison | None) -> dict[str, object]:
    return {
        "workload": result.workload.name,
        "on": result.on,
        "by": result.by,
        "release": result.scheduler.release,
        "hz": result.scheduler.hz,
        "machine": None
        if result.machine is None
        else {"cpus": result.machine.cpus, "costs": result.machine.costs.name},
        "knobs": result.knobs,
        "best": result.best,
        "best_ns": result.best_ns,
        "default_ns": result.default_ns,
        "effect": result.effect,
        "seeds": result.seeds,
        "minima_ns": result.minima_ns,
        "minimum": result.minimum(),
        "executions": result.executions,
        "executions_to_minimum": result.executions_to_minimum,
        "moved": result.moved,
        "verified": comparison,
    }
