"""``python -m fidelity.prediction``: run, simulate, judge, and write the page."""

import argparse
import sys

from fidelity import command
from fidelity.prediction.collect import Collected, collect
from fidelity.prediction.judge import judge
from fidelity.prediction.page import figures, page
from fidelity.prediction.register import Register
from schedlab.boundary.files import write_text
from schedlab.report.terminal import say


def main(arguments: list[str] | None = None) -> int:
    """Do it; return 1 if a line fails, 2 if it could not be done."""
    parser = command.parser("fidelity.prediction", "validation/prediction.toml")
    command.add_calibrations(parser)
    command.add_parts(parser)
    parser.add_argument(
        "--repeats",
        type=int,
        choices=range(2, 100),
        metavar="N",
        help="runs of each, if not as many as written down",
    )
    parser.add_argument(
        "--every",
        type=int,
        choices=range(1, 100),
        default=1,
        metavar="N",
        help="try one of N settings, the first among them (%(default)s)",
    )
    given = parser.parse_args(arguments)
    return command.carry_out(_run, given)


def _run(given: argparse.Namespace) -> bool:
    everything = Register.read(given.register)
    register = everything.of(given.place, given.workload)
    if given.repeats is not None:
        register = register.repeating(given.repeats)
    register = register.thinned(given.every)
    collected: dict[str, Collected | str] = {}
    for place in register.places:
        there = collect(
            register,
            place,
            given.directory,
            say,
            anew=command.anew(given),
        )
        collected[place] = there
        if isinstance(there, str):
            say(f"{place}: {there}")
    findings = judge(register, collected)
    holds = command.tell(findings, "rankings")
    if given.page is not None:
        files = {
            f"{given.page.stem}-{place.replace(':', '-')}.svg": drawn
            for place, drawn in figures(findings).items()
        }
        for name, drawn in files.items():
            write_text(given.page.parent / name, drawn.svg)
        made = page(register, collected, findings, files, whole=len(everything.lines))
        write_text(given.page, made)
        say(f"written to {given.page}")
    return holds


if __name__ == "__main__":
    sys.exit(main())
