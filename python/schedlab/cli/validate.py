"""``schedlab validate``."""

from typing import Annotated

import typer

from schedlab import programs
from schedlab.boundary.errors import InputError
from schedlab.cli import options
from schedlab.cli.options import Target
from schedlab.measure import validation as validating
from schedlab.report.summary import validation_json
from schedlab.report.terminal import emit_json, note, progress
from schedlab.report.text import describe_equivalence, describe_validation


def command(
    workload: Annotated[str, typer.Argument(help="hackbench", metavar="WORKLOAD")],
    *,
    on: Annotated[
        Target, typer.Option("--on", metavar="host", help="Where the real runs take place.")
    ] = Target.HOST,
    repeats: Annotated[
        int, typer.Option("--repeats", metavar="N", help="Real runs of each workload.", min=1)
    ] = 5,
    wide: Annotated[
        bool,
        typer.Option("--wide", help="48 workloads: groups, pipes, threads, message sizes."),
    ] = False,
    messages: Annotated[
        str | None,
        typer.Option("--messages", metavar="A,B,…", help="Message counts (1,2,5,10,20,50,100)."),
    ] = None,
    costs: options.Costs = None,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", help="Seed of the order of runs.")
    ] = 0,
    json: options.Json = False,
) -> None:
    """Compare the simulator with this kernel: hackbench in both, with the costs frozen.

    Where rt-tests' hackbench is installed it runs beside ours.

    Example: [bold]schedlab validate hackbench --messages 1,2,5 --repeats 2[/bold]
    """
    if workload != "hackbench":
        raise InputError(f"no validation is called '{workload}'; known: hackbench")
    if on is not Target.HOST:
        raise InputError("--on is sim; allowed: host (the simulator is compared with it)")
    if wide and messages is not None:
        raise InputError("--messages means nothing with --wide: leave it out")
    settings = validating.wide() if wide else validating.figure_1(_counts(messages))
    machine = options.machine_of(None, costs)
    options.note_costs(machine)
    scheduler = options.scheduler_of(None, None, None)
    beside = programs.hackbench_installed() and not wide
    total = (repeats + 1) * len(settings) * (2 if beside else 1)
    with progress("running", total) as tell:
        experiment = validating.measure(
            settings, repeats=repeats, seed=seed, beside=beside, progress=lambda p: tell(p.done)
        )
    result = validating.validate(settings, experiment, machine=machine, scheduler=scheduler)
    equivalence = validating.equivalence(settings, experiment) if beside else None
    if json:
        emit_json({"validation": validation_json(result), "equivalence": equivalence})
        return
    for text in result.scheduler.notes:
        note(text)
    describe_validation(result)
    if equivalence is not None:
        describe_equivalence(equivalence)
    elif not wide:
        package = programs.PACKAGES["hackbench"]
        note(f"rt-tests' hackbench is not installed (apt-get install {package}): not compared")


def _counts(text: str | None) -> tuple[int, ...]:
    if text is None:
        return validating.MESSAGES
    try:
        counts = tuple(int(part) for part in text.split(","))
    except ValueError:
        counts = ()
    if len(set(counts)) < 2 or min(counts) < 1 or len(set(counts)) < len(counts):
        raise InputError(
            f"--messages is '{text}'; allowed: at least two different whole numbers from 1, as in "
            "1,2,5"
        )
    return counts
