"""``schedlab compare``."""

import sys
from typing import Annotated

import typer

from schedlab.cli import comparing, options
from schedlab.experiment import settings


def command(
    workloads: comparing.Workloads = None,
    *,
    policy: Annotated[
        str | None,
        typer.Option(
            "--policy",
            metavar="A,B",
            help="Policies, ext:RULE among them; the first is compared with.",
        ),
    ] = None,
    time_slice: Annotated[
        str | None, typer.Option("--slice", metavar="A,B", help="Slices (6.12 on).")
    ] = None,
    given: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KNOB=A,B", help="Values of a knob; may be repeated."),
    ] = None,
    run: comparing.Command = None,
    metric: comparing.Metric = None,
    better: comparing.Better = None,
    metrics: comparing.Metrics = None,
    on: comparing.On = "sim",
    kernel: options.Kernel = None,
    cpus: options.Cpus = None,
    topology: options.Topology = None,
    speed: options.Speed = None,
    hz: options.Hz = None,
    costs: options.Costs = None,
    weights: options.Weights = None,
    rule: options.Rule = None,
    group: options.Group = None,
    session: options.Session = None,
    blocks: comparing.Blocks = comparing.BUDGET,
    band: comparing.Band = 0.01,
    check: comparing.Check = True,
    timeout: comparing.Timeout = "60s",
    seed: options.Seed = 1,
    store: comparing.File = None,
    afresh: comparing.Afresh = False,
    json: options.Json = False,
) -> None:
    """Compare settings: every workload under every policy, slice and knob value, everywhere.

    Runs are interleaved and go on until there is a verdict, or the blocks are used up. Each is kept
    in a store, and the same command goes on where it was stopped.

    Example: [bold]schedlab compare pipe --policy other,fifo --kernel 6.1 --costs reference[/bold]

    In groups: [bold]schedlab compare hogs:tasks=4 --set latency=6ms,24ms --kernel 6.1
    --group /alice:tasks=1 --group /bob[/bold]
    """
    pairs = [f"policy={policy}"] if policy is not None else []
    pairs += [f"slice={time_slice}"] if time_slice is not None else []
    axes = settings.axes([*pairs, *(given or [])])
    simulation = comparing.Simulation(
        kernel, cpus, hz, costs, topology, speed, weights, group, session, rule
    )
    comparing.carry_out(
        "compare",
        comparing.subjects(workloads, run, metric, better, simulation),
        settings.combinations(axes),
        comparing.targets(on, simulation),
        metrics=metrics,
        blocks=blocks,
        band=band,
        seed=seed,
        timeout=timeout,
        check=check,
        store=store,
        afresh=afresh,
        words=sys.argv[1:],
        json=json,
    )
