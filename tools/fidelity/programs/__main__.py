"""``python -m fidelity.programs``: record programs, predict them, and say how well."""

import argparse
import sys

from fidelity import command
from fidelity.programs.collect import Found, collect
from fidelity.programs.register import METRICS, Register
from schedlab.boundary.errors import InputError, SchedlabError
from schedlab.report.terminal import say


def main(arguments: list[str] | None = None) -> int:
    """Do it; return 1 if a program was not recorded or predicted, 2 if nothing could be done."""
    parser = argparse.ArgumentParser(prog="python -m fidelity.programs")
    command.add_register(parser, "validation/programs.toml")
    command.add_calibrations(parser)
    parser.add_argument("--place", action="append", default=[], help="only that place")
    parser.add_argument("--program", action="append", default=[], help="only that program")
    return command.carry_out(_run, parser.parse_args(arguments))


def _run(given: argparse.Namespace) -> bool:
    register = Register.read(given.register)
    for word, asked, known in (
        ("place", given.place, register.protocol.places),
        ("program", given.program, tuple(register.programs)),
    ):
        unknown = [one for one in asked if one not in known]
        if unknown:
            raise InputError(f"no {word} is called {unknown[0]}; known: {', '.join(known)}")
    found: dict[str, Found] = {}
    for place in given.place or register.protocol.places:
        names = given.program or list(register.programs)
        try:
            found[place] = collect(
                register, place, names, given.directory, note=say, anew=command.anew(given)
            )
        except SchedlabError as error:
            say(f"{place}: {error}")
    if not found:
        raise InputError("no place could be recorded at")
    whole = True
    for place, there in found.items():
        for (name, change), cell in there.cells.items():
            errors = [cell.error(metric) for metric in METRICS]
            whole = whole and None not in errors
            texts = [
                f"{metric} {'-' if error is None else f'{error:+.1%}'}"
                for metric, error in zip(METRICS, errors, strict=True)
            ]
            say(f"{place}: {name}, {change}: {', '.join(texts)} {cell.why_not}".rstrip())
    return whole


if __name__ == "__main__":
    sys.exit(main())
