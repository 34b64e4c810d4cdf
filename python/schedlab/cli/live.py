"""``schedlab live``."""

import json
import re
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from schedlab.boundary.errors import InputError
from schedlab.cli import comparison, options
from schedlab.live import Server, address, is_recording, runs
from schedlab.model import Machine, Scheduler, settings
from schedlab.report import experiments
from schedlab.report.terminal import say
from schedlab.store import Store
from schedlab.store.store import default_path

_ID = re.compile(r"[0-9a-f]{4,32}")
"""An experiment's id, or its beginning."""

_COSTS = ("ideal", "reference", "linsched")


def command(
    workload: Annotated[
        str | None,
        typer.Argument(
            help="A workload's name, a file of one, a recording, or a report: report.html, a "
            "study's summary.json, or an experiment's id.",
            metavar="WORKLOAD|RECORDING|REPORT",
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
    store: comparison.File = None,
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

    A report opens with the run that it speaks of: its baseline as A, its best setting as B.

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
    shown = None if workload is None else _reported(workload, store)
    if shown is not None:
        fragment = f"#{shown}"
    elif workload is not None and is_recording(Path(workload)):
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


def _reported(text: str, file: Path | None) -> str | None:
    """Return the address that a report speaks of; None where the text names none.

    Raises:
        InputError: a report without one, an experiment of commands, or an unknown id with a store.
    """
    path = Path(text)
    if path.suffix == ".html" or path.name == "summary.json":
        return runs.of_report(path)
    if path.is_file() or not _ID.fullmatch(text) or not (file or default_path()).exists():
        return None
    with Store(file, create=False) as store:
        stored = store.experiment(text)
        if stored.kind == "study":
            shown = ((stored.result or {}).get("timeline") or {}).get("live")
        else:
            shown = next(iter(experiments.addresses(stored, store).values()), None)
    if shown is None:
        raise InputError(
            f"experiment {stored.id} runs no workload that the live page could show; allowed: one "
            "that compares or tunes workloads"
        )
    return str(shown)
