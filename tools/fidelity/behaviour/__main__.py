"""``python -m fidelity.behaviour``: run, simulate, judge, and write the page."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from fidelity import command
from fidelity import noise as noises
from fidelity.behaviour.collect import Collected, collect, fix
from fidelity.behaviour.judge import judge
from fidelity.behaviour.page import figure, page
from fidelity.behaviour.register import Register
from fidelity.observation import Metric, Observation
from schedlab.boundary.errors import RunError
from schedlab.boundary.files import write_text
from schedlab.report.terminal import say


def main(arguments: list[str] | None = None) -> int:
    """Do it; return 1 if a line fails, 2 if it could not be done."""
    parser = command.parser("fidelity.behaviour", "validation/behaviour.toml")
    command.add_calibrations(parser)
    command.add_parts(parser)
    parser.add_argument("--noise", type=Path, required=True, help="the kernels' own intervals")
    parser.add_argument(
        "--fix", action="store_true", help="make the A/A runs, write the intervals, judge nothing"
    )
    given = parser.parse_args(arguments)
    return command.carry_out(_run, given)


def _run(given: argparse.Namespace) -> bool:
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
        there = collect(
            register,
            place,
            given.directory,
            say,
            fixed=known,
            anew=command.anew(given),
        )
        collected[place] = there
        if isinstance(there, str):
            say(f"{place}: {there}")
            continue
        _keep(given.noise, fixed, place, there.noise, register)
    if given.fix:
        return True
    findings = judge(register, collected, fixed)
    holds = command.tell(findings)
    if given.page is not None:
        name = f"{given.page.stem}.svg"
        drawn = figure(register, collected, findings)
        write_text(given.page.parent / name, drawn.svg)
        made = page(register, collected, findings, {name: drawn}, whole=len(everything.lines))
        write_text(given.page, made)
        say(f"written to {given.page}")
    return holds


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


if __name__ == "__main__":
    sys.exit(main())
