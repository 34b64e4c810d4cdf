"""``schedlab bench``."""

import json as jsonlib
from typing import Annotated, Any

import typer

from schedlab import _core
from schedlab.cli import options
from schedlab.model import Machine, short_time
from schedlab.report.terminal import emit_json, progress, say, show


def command(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SCENARIO]…",
            help="Scenarios by name, or the sets basic, typical, floor, scaling, large; batch.",
            show_default=False,
        ),
    ] = None,
    repeats: Annotated[
        int, typer.Option("--repeats", metavar="N", min=1, help="Runs of each scenario.")
    ] = 5,
    json: options.Json = False,
) -> None:
    """Measure how fast the simulator is on this machine.

    Each scenario is simulated at HZ = 1000 on one thread; its figure is the median of the runs,
    beside its goal. CPU is the least CPU time of a run, which other work on the machine lengthens
    least. typical are what users run: the reference costs of a measured machine, newer kernels,
    groups. ceiling is the simulator's queue of timers alone, without any rules; floor the averages
    of load alone.

    Example: [bold]schedlab bench hogs-64x4 --repeats 3[/bold]
    """
    with progress("measuring"):
        costs = Machine(4, "reference").json
        figures = jsonlib.loads(_core.bench(names or ["basic"], repeats, costs))
    if json:
        emit_json(figures)
        return
    say(figures["machine"])
    if figures["scenarios"]:
        show(
            [_row(row) for row in figures["scenarios"]],
            (
                "scenario",
                "median",
                "least",
                "most",
                "CPU",
                "a pair",
                "a switch",
                "operations",
                "goal",
                "memory",
            ),
        )
    if "batch" in figures:
        batch = figures["batch"]
        say(
            f"batch: {batch['simulations']} simulations in {batch['one_ms']:.0f} ms on one thread, "
            f"{batch['many_ms']:.0f} ms on {batch['threads']}: {batch['speedup']:.2f} times as "
            f"fast, goal {batch['goal']}"
        )


def _row(row: dict[str, Any]) -> tuple[str, ...]:
    def time(key: str, unit_ns: float = 1e6) -> str:
        return "" if row[key] is None else short_time(row[key] * unit_ns)

    def number(key: str, form: str) -> str:
        return "" if row[key] is None else format(row[key], form)

    memory = number("peak_mib", ".0f")
    return (
        row["name"],
        time("wall_ms"),
        time("least_ms"),
        time("most_ms"),
        time("cpu_ms"),
        time("ns_per_pair", 1),
        time("ns_per_switch", 1),
        number("operations_per_pair", ".1f"),
        time("goal_ms"),
        f"{memory} MiB" if memory else "",
    )
