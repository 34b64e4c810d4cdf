"""``python -m fidelity.whatif``: record, predict, judge, and write the page."""

import argparse
import sys
from pathlib import Path

from fidelity import command
from fidelity.whatif import noise
from fidelity.whatif.collect import Collected, collect, fix
from fidelity.whatif.judge import judge
from fidelity.whatif.page import figure, page
from fidelity.whatif.register import Register
from schedlab.boundary.errors import SchedlabError
from schedlab.boundary.files import write_text
from schedlab.report.terminal import say


def main(arguments: list[str] | None = None) -> int:
    """Do it; return 1 if a line fails, 2 if it could not be done."""
    parser = command.parser("fidelity.whatif", "validation/what-if.toml")
    command.add_calibrations(parser)
    parser.add_argument("--place", action="append", default=[], help="only that place")
    parser.add_argument("--noise", type=Path, required=True, help="the A/A intervals")
    given = parser.parse_args(arguments)
    return command.carry_out(_run, given)


def _run(given: argparse.Namespace) -> bool:
    everything = Register.read(given.register)
    register = everything.of(given.place)
    known: noise.Noise = noise.read(given.noise)
    collected: dict[str, Collected | str] = {}
    for place in register.places:
        try:
            if command.anew(given) is not None:
                known = fix(register, place, given.directory, known, say)
                noise.write(given.noise, known)
            collected[place] = collect(
                register,
                place,
                given.directory,
                say,
                anew=command.anew(given),
            )
        except SchedlabError as error:
            collected[place] = str(error)
            say(f"{place}: {error}")
    findings = judge(register, collected, known)
    holds = command.tell(findings)
    if given.page is not None:
        name = f"{given.page.stem}.svg"
        drawn = figure(collected, findings)
        write_text(given.page.parent / name, drawn.svg)
        write_text(
            given.page,
            page(register, collected, findings, {name: drawn}, known, whole=len(everything.lines)),
        )
        say(f"written to {given.page}")
    return holds


if __name__ == "__main__":
    sys.exit(main())
