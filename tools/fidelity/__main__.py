"""``python -m fidelity``: record, replay, judge, and write the page."""

import argparse
import datetime as dt
import logging
import sys
import time
from pathlib import Path

from fidelity import command
from fidelity.collect import collect_all
from fidelity.judge import judge
from fidelity.page import Circumstances, page
from fidelity.register import Register
from fidelity.tally import Tally
from schedlab.boundary.errors import SchedlabError
from schedlab.boundary.files import write_text
from schedlab.measure.recording import record
from schedlab.model import Workload
from schedlab.processes import processes
from schedlab.report.terminal import say
from schedlab.targets.facts import facts

_OWN = "hackbench:groups=1,fds=4,loops=10"
"""What is recorded of this machine's own kernel."""

_ATTEMPTS = 20


def main(arguments: list[str] | None = None) -> int:
    """Do it; return 1 if a line or goal fails, 2 if it could not be done."""
    parser = command.parser("fidelity", "validation/decisions.toml")
    parser.add_argument("--series", action="append", help="only that series; may be repeated")
    given = parser.parse_args(arguments)
    logging.basicConfig(format="%(message)s")
    return command.carry_out(_run, given)


def _run(given: argparse.Namespace) -> bool:
    register = Register.read(given.register)
    if given.series:
        register = register.of(given.series)
    start = time.monotonic()
    collected = collect_all(register, given.directory, say, kept=given.kept, commit=_head())
    judgement = judge(register, collected.reports, collected.reasons)
    for finding in (*judgement.goals, *judgement.lines):
        if not finding.holds:
            what = finding.what
            name = getattr(what, "name", None) or getattr(what, "scenario", "")
            say(f"FAILS {name} {what.release} {what.level}: {'; '.join(finding.failures)}")
    if given.page is not None:
        where = _circumstances(given, time.monotonic() - start)
        write_text(given.page, page(register, collected, judgement, where))
        say(f"written to {given.page}")
    say(Tally.of((*judgement.goals, *judgement.lines)).headline("criteria"))
    return judgement.holds


def _circumstances(given: argparse.Namespace, seconds: float) -> Circumstances:
    here = facts()
    return Circumstances(
        date=dt.datetime.now(dt.UTC).date().isoformat(),
        commit=_commit(),
        cpu_model=here.cpu_model,
        kernel=here.kernel,
        seconds=seconds,
        kept=given.kept,
        host=() if given.kept else tuple(_own(given.directory)),
    )


def _commit() -> str:
    done = processes.run(["git", "describe", "--always", "--dirty", "--exclude", "*"])
    return done.output.strip() or "unknown"


def _head() -> str:
    """Return the whole hash of the commit that is compared, but for what is not committed."""
    return processes.run(["git", "rev-parse", "HEAD"]).output.strip() or "unknown"


def _own(directory: Path) -> list[str]:
    """Record this machine's own kernel as far as it allows, and say how far that was."""
    path = directory / "own.txt.gz"
    error: SchedlabError | None = None
    for _ in range(_ATTEMPTS):
        try:
            made = record(path, Workload.parse(_OWN))
            break
        except SchedlabError as caught:
            error = caught
    else:
        return [f"It could not be recorded: {error}."]
    reason = made.missing[0].rpartition(": ")[2] if made.missing else ""
    why = f" ({reason})" if made.allowed != "L1" else ""
    return [
        f"{made.release} allows level {made.allowed}{why}. `{_OWN}` on its {made.cpus} CPUs:",
        f"{made.events} events, no switch missing.",
    ]


if __name__ == "__main__":
    sys.exit(main())
