"""``python -m tuning_benchmark``: record tables, search on them, and write the page."""

import argparse
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fidelity import command
from schedlab.boundary.files import write_text
from schedlab.report.terminal import say
from tuning_benchmark.confirmation import confirm
from tuning_benchmark.outcomes import trials_of
from tuning_benchmark.page import Tabled, page, picture
from tuning_benchmark.recording import measure_costs, record, simulate_table
from tuning_benchmark.register import Register
from tuning_benchmark.table import FEWEST, read_table

_CONFIRMED = "confirmed.json"

_TRADE = "trade.json"
"""What ``schedlab verify --json`` said of a setting for two aims."""


def main(arguments: list[str] | None = None) -> int:
    """Do it; return 1 if a table is missing or lacks blocks, 2 if it could not be done."""
    parser = command.parser("tuning_benchmark", "validation/tuning.toml")
    command.add_parts(parser)
    parser.add_argument("--minutes", type=float, default=1e9, help="that recording takes at most")
    parser.add_argument("--trials", type=Path, help="where trials are kept; none are run otherwise")
    parser.add_argument(
        "--confirm", metavar="SEED", type=int, help="run each search for real on the chosen tables"
    )
    return command.carry_out(_run, parser.parse_args(arguments))


def _run(given: argparse.Namespace) -> bool:
    register = Register.read(given.register)
    chosen = [
        (place, workload)
        for place in given.place or register.places
        for workload in given.workload or register.workloads
    ]
    if not given.kept:
        for place in dict.fromkeys(place for place, _ in chosen):
            measure_costs(place, given.directory, say)
        end = time.monotonic() + 60 * given.minutes
        for place, workload in chosen:
            left = end - time.monotonic()
            record(register, place, workload, given.directory, seconds=left, note=say)
    tables, complete = [], True
    for place, workload in chosen:
        table = read_table(given.directory, place, workload)
        complete = complete and table is not None and table.blocks >= register.places[place].blocks
        if table is None or table.blocks < FEWEST:
            continue
        if not table.simulated:
            simulate_table(register, table, given.directory)
        tables.append(table)
    confirmed = given.directory / _CONFIRMED
    if given.confirm is not None:
        for table in tables:
            made = confirm(register, table, seed=given.confirm, note=say)
            data = {name: asdict(trial) for name, trial in made.items()}
            write_text(confirmed, json.dumps({"table": table.name, "trials": data}) + "\n")
    if given.trials is not None:
        tabled = [
            Tabled.of(table, trials_of(register, table, given.trials, say)) for table in tables
        ]
        if given.page is not None:
            real, trade = (_kept(given.directory / name) for name in (_CONFIRMED, _TRADE))
            drawn = picture([one for one in tabled if one.gains(register.protocol.within)])
            write_text(given.page.with_suffix(".svg"), drawn.svg)
            write_text(given.page, page(register, tabled, drawn, real, trade))
            say(f"written to {given.page}")
    return complete


def _kept(path: Path) -> Any:
    return json.loads(path.read_text("utf-8")) if path.is_file() else None


if __name__ == "__main__":
    sys.exit(main())
