"""``python -m schedlab.fidelity.whatif``: record, predict, judge, and write the page."""

import argparse
import sys
from pathlib import Path

from schedlab.errors import SchedlabError
from schedlab.fidelity.whatif import noise
from schedlab.fidelity.whatif.collect import Collected, collect, fix
from schedlab.fidelity.whatif.judge import judge
from schedlab.fidelity.whatif.page import figure, page
from schedlab.fidelity.whatif.register import Register
from schedlab.files import write_text
from schedlab.report.terminal import say


def main(arguments: list[str] | None = None) -> int:
    """Do it; return 1 if a line fails, 2 if it could not be done."""
    parser = argparse.ArgumentParser(prog="python -m schedlab.fidelity.whatif")
    parser.add_argument("register", type=Path, help="the lines, validation/what-if.toml")
    parser.add_argument("--noise", type=Path, required=True, help="the A/A intervals")
    parser.add_argument("--directory", type=Path, required=True, help="where recordings are kept")
    parser.add_argument("--page", type=Path, help="the page to write, its figure beside it")
    parser.add_argument("--place", action="append", default=[], help="only that place")
    parser.add_argument("--kept", action="store_true", help="record nothing, judge what is there")
    given = parser.parse_args(arguments)
    try:
        return _run(given)
    except SchedlabError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        return 2


def _run(given: argparse.Namespace) -> int:
    everything = Register.read(given.register)
    register = everything.of(given.place)
    known: noise.Noise = noise.read(given.noise)
    collected: dict[str, Collected | str] = {}
    for place in register.places:
        try:
            if not given.kept:
                known = fix(register, place, given.directory, known, say)
                noise.write(given.noise, known)
            collected[place] = collect(register, place, given.directory, say, kept_only=given.kept)
        except SchedlabError as error:
            collected[place] = str(error)
            say(f"{place}: {error}")
    findings = judge(register, collected, known)
    for finding in findings:
        if not finding.holds:
            line = finding.line
            what = f"{line.workload} {line.change} {line.place} {line.metric}"
            say(f"FAILS {what}: {finding.failure}")
    held = sum(finding.holds for finding in findings)
    say(f"{held} of {len(findings)} lines hold")
    if given.page is not None:
        name = f"{given.page.stem}.svg"
        write_text(given.page.parent / name, figure(collected, findings))
        write_text(
            given.page,
            page(register, collected, findings, [name], known, whole=len(everything.lines)),
        )
        say(f"written to {given.page}")
    return 0 if held == len(findings) else 1


if __name__ == "__main__":
    sys.exit(main())
