"""``schedlab sweep``."""

import sys
from typing import Annotated

import typer

from schedlab.boundary.errors import InputError
from schedlab.cli import comparing, options
from schedlab.experiment import settings
from schedlab.experiment.settings import Setting


def command(
    workloads: comparing.Workloads = None,
    *,
    given: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KNOB=A,B", help="Values of a knob, policy or slice; may be repeated."
        ),
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
    """Try values of one knob or several, each against what is set at present.

    Example: [bold]schedlab sweep pipe --set latency=5ms,20ms --kernel 6.1 --costs reference[/bold]
    """
    axes = settings.axes(given or [])
    if not axes:
        raise InputError("nothing to sweep over: --set names a knob and values")
    simulation = comparing.Simulation(
        kernel, cpus, hz, costs, topology, speed, weights, group, session, rule
    )
    comparing.carry_out(
        "sweep",
        comparing.subjects(workloads, run, metric, better, simulation),
        [Setting({}), *settings.combinations(axes)],
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
