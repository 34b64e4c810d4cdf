"""``python -m schedlab.fidelity.prediction``: run, simulate, judge, and write the page."""

import argparse
import sys
from pathlib import Path

from schedlab.errors import SchedlabError
from schedlab.fidelity.prediction.collect import Collected, collect
from schedlab.fidelity.prediction.judge import judge
from schedlab.fidelity.prediction.page import figures, page
from schedlab.fidelity.prediction.register import Register
from schedlab.files import write_text
from schedlab.report.terminal import say


def main(arguments: list[str] | None = None) -> int:
    """Do it; return 1 if a line fails, 2 if it could not be done."""
    parser = argparse.ArgumentParser(prog="python -m schedlab.fidelity.prediction")
    parser.add_argument("register", type=Path, help="the lines, validation/prediction.toml")
    parser.add_argument("--directory", type=Path, required=True, help="where runs are kept")
    parser.add_argument("--page", type=Path, help="the page to write, its figures beside it")
    parser.add_argument("--place", action="append", default=[], help="only that place")
    parser.add_argument("--workload", action="append", default=[], help="only that workload")
    parser.add_argument(
        "--repeats",
        type=int,
        choices=range(2, 100),
        metavar="N",
        help="runs of each, if not as many as written down",
    )
    parser.add_argument("--kept", action="store_true", help="make no runs, judge those there are")
    given = parser.parse_args(arguments)
    try:
        return _run(given)
    except SchedlabError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        return 2


def _run(given: argparse.Namespace) -> int:
    everything = Register.read(given.register)
    register = everything.of(given.place, given.workload)
    if given.repeats is not None:
        register = register.repeating(given.repeats)
    collected: dict[str, Collected | str] = {}
    for place in register.places:
        there = collect(register, place, given.directory, say, kept_only=given.kept)
        collected[place] = there
        if isinstance(there, str):
            say(f"{place}: {there}")
    findings = judge(register, collected)
    for finding in findings:
        line = finding.line
        what = f"{line.workload} {line.place} {line.measure}"
        if not finding.holds:
            say(f"FAILS {what}: {finding.failure}")
    held = sum(finding.holds for finding in findings)
    say(f"{held} of {len(findings)} rankings hold")
    if given.page is not None:
        names = {}
        for place, drawn in figures(findings).items():
            names[place] = f"{given.page.stem}-{place.replace(':', '-')}.svg"
            write_text(given.page.parent / names[place], drawn)
        write_text(
            given.page, page(register, collected, findings, names, whole=len(everything.lines))
        )
        say(f"written to {given.page}")
    return 0 if held == len(findings) else 1


if __name__ == "__main__":
    sys.exit(main())
