"""What the commands of this package have in common: arguments, exit codes, and what they say."""

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

from fidelity.places import Anew
from fidelity.register_file import Named
from fidelity.tally import Judged, Tally
from schedlab.boundary.errors import SchedlabError
from schedlab.report.terminal import complain, say


def parser(package: str, register: str) -> argparse.ArgumentParser:
    """Return what reads the arguments that all of them take.

    Args:
        package: what comes after ``python -m``.
        register: the file of lines, as it is mostly called.
    """
    found = argparse.ArgumentParser(prog=f"python -m {package}")
    add_register(found, register)
    found.add_argument("--page", type=Path, help="the page to write, its figures beside it")
    return found


def add_register(given: argparse.ArgumentParser, register: str) -> None:
    """Add what says which lines, and where the runs are."""
    given.add_argument("register", type=Path, help=f"the lines, {register}")
    given.add_argument("--directory", type=Path, required=True, help="where runs are kept")
    given.add_argument("--kept", action="store_true", help="make no runs, judge those there are")


def add_calibrations(given: argparse.ArgumentParser) -> None:
    """Add the argument that says how costs are measured."""
    often = Anew().calibrations
    given.add_argument(
        "--calibrations",
        type=int,
        default=often,
        choices=range(1, 100),
        metavar="N",
        help=f"of which median costs are taken ({often})",
    )
    given.add_argument("--quick", action="store_true", help="measure fewer batches of each cost")


def anew(given: argparse.Namespace) -> Anew | None:
    """Return how what is not kept is made; None if only what is kept is judged."""
    return None if given.kept else Anew(given.calibrations, given.quick)


def add_parts(given: argparse.ArgumentParser) -> None:
    """Add the arguments that choose places and workloads."""
    given.add_argument("--place", action="append", default=[], help="only that place")
    given.add_argument("--workload", action="append", default=[], help="only that workload")


def carry_out(run: Callable[[argparse.Namespace], bool], given: argparse.Namespace) -> int:
    """Do it; return 0 if all holds, 1 if something fails, 2 if it could not be done."""
    try:
        return 0 if run(given) else 1
    except SchedlabError as error:
        complain(str(error))
        return 2


class Finding(Judged, Protocol):
    """What became of a line."""

    @property
    def line(self) -> Named: ...  # noqa: D102

    @property
    def failure(self) -> str: ...  # noqa: D102


def tell(findings: Iterable[Finding], called: str = "criteria") -> bool:
    """Say which lines fail, and how many have each verdict; return whether none fails."""
    all_of_them = list(findings)
    failed = [finding for finding in all_of_them if finding.failure]
    for finding in failed:
        say(f"FAILS {finding.line.name}: {finding.failure}")
    say(Tally.of(all_of_them).headline(called))
    return not failed
