"""A table recorded, in pieces: every setting in every block, in random orders, with times."""

import time
from collections.abc import Callable
from contextlib import closing, nullcontext
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from schedlab.boundary.errors import RunError
from schedlab.boundary.files import make_directory
from schedlab.experiment.blocks import block_order
from schedlab.experiment.settings import Setting
from schedlab.experiment.subjects import Conditions, Described, Subject
from schedlab.measure import calibration
from schedlab.model import Machine, Scheduler, Workload
from schedlab.targets.target import Host, Simulated, Target
from schedlab.targets.virtual import Virtual
from schedlab.tuning.screening import simulated_costs
from schedlab.vm import knobs as guest_knobs
from tuning_benchmark.register import Register, TunedWorkload
from tuning_benchmark.table import Table, TableRun, read_table, same_settings

_TIMEOUT = 60.0
"""Seconds a run may take."""

_TRIES = 2
"""How often a run is made that fails, before its setting counts as one that cannot be run."""

_CALIBRATIONS = 3
"""Of a place, a guest's each after its own boot; the medians are kept."""

_MEMORY = 1_536
"""MiB of a guest."""

COUNTED = "@icount"
"""Guests have one CPU whose clock counts instructions: what else the machine does is not seen."""


def target_of(place: str) -> Host | Virtual:
    """Return a place by its name in the register."""
    if place == "host":
        return Host()
    return Virtual(place.removeprefix("vm:") + COUNTED, memory=_MEMORY)


def record(
    register: Register,
    place: str,
    workload: str,
    directory: Path,
    *,
    seconds: float,
    note: Callable[[str], None],
) -> bool:
    """Make the runs of a table that are not there, until time is over.

    A run is not repeated where other work disturbed it: that is part of the table.

    Args:
        register: what was written down.
        place: where.
        workload: its name.
        directory: where tables are kept.
        seconds: after which no other run begins.
        note: told how far it is.

    Returns:
        Whether the table is complete.

    Raises:
        RunError: the present setting cannot be run.
    """
    make_directory(directory)
    grid, tuned = register.places[place], register.workloads[workload]
    target, one = target_of(place), tuned.subject(place)
    settings, metric = grid.settings, tuned.measured
    table = read_table(directory, place, workload)
    if table is None or not same_settings(table, settings):
        table = Table(
            workload, tuned.text(place), place, "", target.cpus, metric.name, metric.unit,
            metric.better, datetime.now(UTC).isoformat(timespec="seconds"), settings,
        )  # fmt: skip
    began = datetime.fromisoformat(table.begun).timestamp()
    done = {(run.block, run.setting) for run in table.runs}
    end = time.monotonic() + seconds
    with closing(target) if isinstance(target, Virtual) else nullcontext():
        for block in range(grid.blocks):
            for place_in_list in block_order(range(len(settings)), 1, block):
                if (block, place_in_list) in done or place_in_list in table.failures:
                    continue
                if time.monotonic() > end:
                    return False
                value = None
                for _ in range(_TRIES):
                    try:
                        value = measure(one, target, settings[place_in_list], metric.name, block)
                        break
                    except RunError as error:
                        note(f"{table.name} {settings[place_in_list]}: {error}")
                        table.failures[place_in_list] = str(error)
                if value is None:
                    table.write(directory)
                    continue
                table.failures.pop(place_in_list, None)
                facts = target.facts()
                table.kernel = str(facts["kernel"])
                boot = str(facts.get("boot") or "")[:8]
                table.runs.append(TableRun(block, place_in_list, value, time.time() - began, boot))
                table.write(directory)
            note(f"{table.name}: block {block + 1} of {grid.blocks}")
    return True


def measure(one: Subject, target: Target, setting: Setting, metric: str, block: int) -> float:
    """Run a setting once, and return its metric.

    Args:
        one: what is run.
        target: where.
        setting: how.
        metric: the metric's name.
        block: a workload's seed is one more.

    Raises:
        RunError: it failed, or came to no number above 0.
    """
    under = Conditions(setting.attributes, setting.knobs or None, block + 1, _TIMEOUT)
    values = one.measure(target, under).values
    value = values.get(metric, 0.0)
    if not (value > 0 and np.isfinite(value)):
        raise RunError(f"no {metric}: {value}")
    return float(value)


def measure_costs(place: str, directory: Path, note: Callable[[str], None]) -> None:
    """Calibrate a place, on the clock by which its tables are recorded, unless it was before.

    Args:
        place: its name in the register.
        directory: where tables are kept; the costs are put beside them.
        note: told what is being done.

    Raises:
        RunError: it failed, or other work disturbed it.
    """
    file = _costs_file(place, directory)
    if file.is_file():
        return
    make_directory(directory)
    found = []
    for number in range(1, _CALIBRATIONS + 1):
        note(f"{place}: calibration {number} of {_CALIBRATIONS}")
        target = target_of(place)
        if isinstance(target, Host):
            found.append(calibration.calibrate())
            continue
        with closing(target):
            found.append(calibration.calibrate(guest=target.booted()))
    calibration.check_calm(found)
    calibration.save(calibration.median_of(found), file)


def simulate_table(register: Register, table: Table, directory: Path) -> None:
    """Simulate the settings of a table with the rules of its place, and keep what they cost.

    Args:
        register: what was written down.
        table: the table.
        directory: where tables are kept.
    """
    tuned = register.workloads[table.workload]
    place = simulated_place(table, costs_of(table.place, directory))
    found = simulated_costs(
        [("", Described(Workload.parse(model_of(tuned))))],
        place,
        table.settings,
        metrics=[tuned.metric] if tuned.model is None else [],
        seeds=register.protocol.simulated,
    )
    table.simulated = found.T.tolist()
    table.costs = Path(place.machine.costs.name).name
    table.write(directory)


def model_of(tuned: TunedWorkload) -> str:
    """Return the text of what is simulated."""
    return tuned.run if tuned.model is None else tuned.model


def simulated_place(table: Table, costs: str) -> Simulated:
    """Return what is simulated for a table's place: its kernel's rules, with costs.

    Args:
        table: the table.
        costs: a preset or a file.
    """
    return Simulated(Scheduler(guest_knobs.rules_of(table.kernel)), Machine(table.cpus, costs))


def costs_of(place: str, directory: Path) -> str:
    """Return the costs of a place: those that were calibrated there, or the reference costs."""
    path = _costs_file(place, directory)
    return str(path) if path.is_file() else "reference"


def _costs_file(place: str, directory: Path) -> Path:
    return directory / f"{place.replace(':', '-')}-costs.toml"
