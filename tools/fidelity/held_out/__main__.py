"""``python -m fidelity.held_out``: draw, run, simulate, and write the page."""

import argparse
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from fidelity import command
from fidelity.behaviour.register import Register
from fidelity.held_out.collect import Found, collect
from fidelity.held_out.draw import KINDS, seeds_of
from fidelity.held_out.errors import errors
from fidelity.held_out.page import amount, figure, page
from fidelity.held_out.plan import Plan
from fidelity.programs.collect import collect as collect_programs
from fidelity.programs.register import Register as Programs
from fidelity.programs.section import programs
from schedlab.boundary.errors import InputError, SchedlabError
from schedlab.boundary.files import read_text, write_text
from schedlab.processes import processes
from schedlab.report.terminal import say


def main(arguments: list[str] | None = None) -> int:
    """Do it; return 1 if a goal is missed, 2 if it could not be done."""
    parser = command.parser("fidelity.held_out", "validation/held-out.toml")
    command.add_calibrations(parser)
    parser.add_argument("--place", action="append", default=[], help="only that place")
    parser.add_argument("--count", type=int, help="so many workloads, in place of the plan's")
    parser.add_argument("--runs", type=int, help="so many real runs of each")
    parser.add_argument(
        "--without",
        metavar="KIND",
        choices=list(KINDS),
        action="append",
        default=[],
        help="draw none of that kind, and the next one in its place",
    )
    parser.add_argument(
        "--background", choices=["calibrated", "none"], default="calibrated", help="what else runs"
    )
    parser.add_argument(
        "--judge",
        metavar="COMMIT",
        help="the workloads that follow from that commit's hash; without it those of development",
    )
    parser.add_argument(
        "--programs",
        type=Path,
        metavar="DIRECTORY",
        help="recordings that python -m fidelity.programs kept, for the page",
    )
    parser.add_argument(
        "--refuted",
        type=float,
        metavar="CHANCE",
        help="fail only where so few workloads or fewer would be predicted well with less than "
        "this chance if the goal held (0 to 1): for a few workloads",
    )
    return command.carry_out(_run, parser.parse_args(arguments))


def _run(given: argparse.Namespace) -> bool:
    plan = Plan.read(given.register)
    unknown = [place for place in given.place if place not in plan.places]
    if unknown:
        known = ", ".join(plan.places)
        raise InputError(f"no place is called {', '.join(unknown)}; known: {known}")
    count = plan.workloads if given.count is None else given.count
    plan = replace(plan, runs=plan.runs if given.runs is None else given.runs)
    if count < 1 or plan.runs < 1:
        raise InputError("--count and --runs are whole numbers from 1 on")
    if given.refuted is not None and not 0 < given.refuted < 1:
        raise InputError(f"--refuted is {given.refuted:g}; allowed: above 0, below 1")
    # Enough that others can take the place of what is left out.
    many = count * len(KINDS) if given.without else count
    if given.judge is None:
        seeds, judged = list(range(many)), f"The first {count} seeds, those of development."
    else:
        commit = _commit(given.judge)
        seeds = seeds_of(commit, many)
        judged = f"{count} workloads a place, whose seeds follow from commit {commit[:12]}."
    if given.without:
        judged += f" No {' or '.join(given.without)}."
    found: dict[str, Found] = {}
    for place in given.place or plan.places:
        try:
            found[place] = collect(
                plan,
                place,
                seeds,
                given.directory,
                count=count,
                note=say,
                anew=command.anew(given),
                background=given.background != "none",
                without=given.without,
            )
        except SchedlabError as error:
            say(f"{place}: {error}")
    if not found:
        raise InputError("no place could be run at")
    missed = _tell(plan, found, given.refuted)
    if given.page is not None:
        _write(given, plan, found, judged)
    return missed == 0


def _tell(plan: Plan, found: Mapping[str, Found], refuted: float | None) -> int:
    """Say how well each metric is predicted; return how many goals are missed."""
    missed = 0
    for place, there in found.items():
        for metric, goal in plan.goals.items():
            one = errors(metric, there.workloads)
            missed += not one.meets(goal) if refuted is None else one.chance(goal) < refuted
            if not one.errors:
                # No workload that was drawn has it, as a turnaround.
                say(f"{place}: {metric}: of none of the workloads")
                continue
            middle = amount(metric, one.percentile(0.5))
            said = f"{one.within(goal.within):.0%} of {len(one.errors)} within"
            say(f"{place}: {metric}: median {middle}, {said} {amount(metric, goal.within)}")
    return missed


def _write(given: argparse.Namespace, plan: Plan, found: Mapping[str, Found], judged: str) -> None:
    """Write the page and its picture."""
    drawn = figure(plan, found)
    name = f"{given.page.stem}.svg"
    write_text(given.page.parent / name, drawn.svg)
    register = Register.parse(read_text(given.register.with_name("behaviour.toml"), "register"))
    about = [] if given.programs is None else _programs(given)
    whole = page(
        plan, found, judged, {name: drawn}, lines_of_behaviour=register.lines, programs=about
    )
    write_text(given.page, whole)


def _programs(given: argparse.Namespace) -> list[str]:
    """Return the page's section about real programs, from their recordings."""
    register = Programs.read(given.register.with_name("programs.toml"))
    names = list(register.programs)
    there = {
        place: collect_programs(register, place, names, given.programs, note=say, anew=None)
        for place in register.protocol.places
    }
    return programs(register, there)


def _commit(name: str) -> str:
    """Return a commit's whole hash.

    Raises:
        InputError: there is no such commit.
    """
    done = processes.run(["git", "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"])
    if done.code != 0:
        raise InputError(f"there is no commit '{name}'")
    return done.output.strip()


if __name__ == "__main__":
    sys.exit(main())
