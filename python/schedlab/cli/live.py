"""``schedlab live``."""

import json
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from schedlab.boundary.errors import InputError
from schedlab.cli import options
from schedlab.live import Server, address, is_recording
from schedlab.model import Machine, Scheduler, settings
from schedlab.report.terminal import say

_COSTS = ("ideal", "reference", "linsched")


def command(
    workload: Annotated[
        str | None,
        typer.Argument(
            help="A workload's name, a file of one, or a recording.", metavar="WORKLOAD|RECORDING"
        ),
    ] = None,
    *,
    kernel: Annotated[
        list[str] | None,
        typer.Option(
            "--kernel",
            metavar="RELEASE",
            help="The kernel of A and, given twice, that of B (6.1 and 6.12).",
        ),
    ] = None,
    cpus: Annotated[int, typer.Option("--cpus", metavar="N", help="CPUs of the machine.")] = 1,
    knobs: options.Set = None,
    costs: Annotated[
        str, typer.Option("--costs", metavar="NAME", help="ideal, reference or linsched.")
    ] = "ideal",
    seed: options.Seed = 1,
    port: Annotated[
        int, typer.Option("--port", metavar="N", help="Serve on this port; any free one else.")
    ] = 0,
    open_browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")
    ] = True,
    as_json: options.Json = False,
) -> None:
    """Open the live page: two kernels' schedules, redrawn as a knob moves, with the reason why.

    Without a workload it opens with its gallery. It is served on loopback until Ctrl-C.

    Example: [bold]schedlab live sleepers:tasks=8 --kernel 6.1 --kernel 6.12 --cpus 2[/bold]
    """
    if costs not in _COSTS:
        raise InputError(f"--costs is '{costs}'; allowed: {', '.join(_COSTS)}")
    if not 0 <= port <= 65535:
        raise InputError(f"--port is {port}; allowed: 0 to 65535")
    kernels = [*(kernel or []), *("6.1", "6.12")[len(kernel or []) :]]
    if len(kernels) > 2:
        raise InputError(f"--kernel is given {len(kernels)} times; allowed: twice, for A and B")
    # Whatever the page would refuse is refused here.
    Scheduler(kernels[0])
    given = Scheduler(kernels[1], knobs=settings(knobs or []))
    Machine(cpus, costs)
    fragment = ""
    recording = None
    if workload is not None and is_recording(Path(workload)):
        recording = Path(workload)
    elif workload is not None:
        fragment = "#" + address(
            workload,
            kernels=(kernels[0], kernels[1]),
            knobs=given.knobs,
            cpus=cpus,
            costs=costs,
            seed=seed,
        )
    server = Server(port, recording=recording)
    url = server.url + fragment
    if as_json:
        say(json.dumps({"url": url}))
    else:
        say(f"the live page is at {url}")
        say("Ctrl-C ends it")
    if open_browser:
        webbrowser.open(url)
    try:
        server.serve()
    except KeyboardInterrupt:
        say()
