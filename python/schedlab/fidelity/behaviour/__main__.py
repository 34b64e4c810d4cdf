"""``python -m schedlab.fidelity.behaviour``: run, simulate, judge, and write the page."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from schedlab.errors import RunError, SchedlabError
from schedlab.fidelity import noise as noises
from schedlab.fidelity.behaviour.collect import Collected, collect, fix
from schedlab.fidelity.behaviour.judge import Finding, judge
from schedlab.fidelity.behaviour.page import figure, page
from schedlab.fidelity.behaviour.register import Register
from schedlab.fidelity.observing import Metric, Observation
from schedlab.files import write_text
from schedlab.report.terminal import say


def main(arguments: list[str] | None = None) -> int:
    """Do it; return 1 if a line fails, 2 if it could not be done."""
    parser = argparse.ArgumentParser(prog="python -m schedlab.fidelity.behaviour")
    parser.add_argument("register", type=Path, help="the lines, validation/behaviour.toml")
    parser.add_argument("--directory", type=Path, required=True, help="where runs are kept")
    parser.add_argument("--noise", type=Path, required=True, help="the kernels' own intervals")
    parser.add_argument("--page", type=Path, help="the page to write, its figure beside it")
    parser.add_argument("--place", action="append", default=[], help="only that place")
    parser.add_argument("--workload", action="append", default=[], help="only that workload")
    parser.add_argument("--kept", action="store_true", help="make no runs, judge those there are")
    parser.add_argument(
        "--fix", action="store_true", help="make the A/A runs, write the intervals, judge nothing"
    )
    given = parser.parse_args(arguments)
    try:
        return _run(given)
    except SchedlabError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        return 2


def _run(given: argparse.Namespace) -> int:
    everything = Register.read(given.register)
    register = everything.of(given.place, given.workload)
    fixed = noises.read(given.noise)
    collected: dict[str, Collected | str] = {}
    for place in register.places:
        known = {workload for where, workload in fixed if where == place}
        if given.fix:
            runs = fix(register, place, given.directory, say, fixed=known)
            if isinstance(runs, str):
                raise RunError(f"{place}: {runs}")
            _keep(given.noise, fixed, place, runs, register)
            continue
        there = collect(register, place, given.directory, say, fixed=known, kept_only=given.kept)
        collected[place] = there
        if isinstance(there, str):
            say(f"{place}: {there}")
            continue
        _keep(given.noise, fixed, place, there.noise, register)
    if given.fix:
        return 0
    findings = judge(register, collected, fixed)
    _tell(findings)
    if given.page is not None:
        name = f"{given.page.stem}.svg"
        write_text(given.page.parent / name, figure(register, collected, findings))
        write_text(
            given.page, page(register, collected, findings, [name], whole=len(everything.lines))
        )
        say(f"written to {given.page}")
    return 0 if all(finding.holds for finding in findings) else 1


def _keep(
    path: Path,
    fixed: dict[noises.Key, dict[Metric, float]],
    place: str,
    noise: Mapping[str, Sequence[Observation]],
    register: Register,
) -> None:
    """Write down the intervals of workloads that have none yet and all their A/A runs."""
    for workload, runs in noise.items():
        whole = len(runs) == register.protocol.noise
        if whole and (place, workload) not in fixed:
            fixed[place, workload] = noises.intervals(runs, register.protocol.repeats)
            noises.write(path, fixed)


def _tell(findings: list[Finding]) -> None:
    for finding in findings:
        if not finding.holds:
            line = finding.line
            say(f"FAILS {line.workload} {line.place} {line.metric}: {finding.failure}")
    held = sum(finding.holds for finding in findings)
    say(f"{held} of {len(findings)} lines hold")


if __name__ == "__main__":
    sys.exit(main())
