"""The trials of all tables, kept so that an interrupted comparison goes on where it stopped."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from schedlab.boundary.files import make_directory, write_text
from tuning_benchmark.contenders import NAMES, OURS, REPEATS
from tuning_benchmark.register import Register
from tuning_benchmark.replayed import Behaviour
from tuning_benchmark.table import Table, file_name
from tuning_benchmark.trials import Trial, contest


@dataclass(frozen=True, slots=True)
class Circumstance:
    """Under what searches run on a table.

    Attributes:
        name: what it is called.
        control: whether all settings are the present one.
        drifting: whether the stated drift is injected.
        names: searches that are asked.
    """

    name: str
    control: bool
    drifting: bool
    names: tuple[str, ...]


_ACCEPTING = ("random", REPEATS, OURS)
"""Under drift, and where nothing gains: a direct search's winner is as false as its certificate,
whichever search it is; random search stands for all of them."""

_SLOW = ("tpe",)
"""In controls asked on the first workload of each place alone: it takes its 480 runs there, and
minutes for them."""

CIRCUMSTANCES = (
    Circumstance("as recorded", control=False, drifting=False, names=NAMES),
    Circumstance("with drift", control=False, drifting=True, names=_ACCEPTING),
    Circumstance("A/A", control=True, drifting=False, names=NAMES),
    Circumstance("A/A with drift", control=True, drifting=True, names=NAMES),
)

Trials = Mapping[str, Mapping[str, Sequence[Trial]]]
"""By circumstance and search, one a seed."""


def trials_of(
    register: Register, table: Table, directory: Path, note: Callable[[str], None]
) -> Trials:
    """Return the trials on a table; those that are kept are not run again.

    Where no setting gains there is nothing to find: only what searches accept is of interest, and
    in the controls every search is asked that, TPE on one workload a place.

    Args:
        register: what was written down.
        table: the table.
        directory: where trials are kept.
        note: told of what is run.
    """
    path = make_directory(directory) / f"trials-{file_name(table.place, table.workload)}"
    identity = hashlib.sha256(
        f"{table.text()}{register.protocol}{register.drift}".encode()
    ).hexdigest()
    kept = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    if kept.get("of") != identity:
        kept = {"of": identity}
    found: dict[str, dict[str, list[Trial]]] = {}
    gains = Behaviour.of(table).gain > register.protocol.within
    for one in CIRCUMSTANCES:
        by_name = kept.setdefault(one.name, {})
        names = one.names if gains or one.control else _ACCEPTING
        if one.control and table.workload != next(iter(register.workloads)):
            names = tuple(name for name in names if name not in _SLOW)
        for name in names:
            if name not in by_name:
                note(f"{table.name}, {one.name}: {name}")
                made = contest(
                    register, table, control=one.control, drifting=one.drifting, names=[name]
                )
                by_name[name] = [asdict(trial) for trial in made[name]]
                write_text(path, json.dumps(kept) + "\n")
        found[one.name] = {name: [Trial(**trial) for trial in by_name[name]] for name in names}
    return found
