"""One seed of each search for real, where a table says how good what it finds is."""

from collections.abc import Callable
from contextlib import closing, nullcontext

import numpy as np

from schedlab.experiment.settings import Setting
from schedlab.experiment.subjects import Subject
from schedlab.targets.target import Target
from schedlab.targets.virtual import Virtual
from tuning_benchmark.contenders import NAMES
from tuning_benchmark.recording import measure, target_of
from tuning_benchmark.register import Register
from tuning_benchmark.replayed import Behaviour
from tuning_benchmark.table import Table
from tuning_benchmark.trials import Trial, ground_of, numbers_of


class RealKernel:
    """A place that is asked for real runs.

    Args:
        subject: what is run.
        target: where.
        settings: by number.
        table: whose metric it is.
    """

    def __init__(
        self, subject: Subject, target: Target, settings: dict[int, Setting], table: Table
    ) -> None:
        self.runs = 0
        self._subject = subject
        self._target = target
        self._settings = settings
        self._table = table

    def run(self, setting: int) -> float:
        """Run a setting once, and return its cost: a logarithm, less being better."""
        self.runs += 1
        one = self._settings[setting]
        value = measure(self._subject, self._target, one, self._table.metric, self.runs)
        return float(np.log(value)) * (1 if self._table.better == "lower" else -1)


def confirm(
    register: Register, table: Table, *, seed: int, note: Callable[[str], None]
) -> dict[str, Trial]:
    """Run each search once for real, and return what it came to, judged by the table.

    Args:
        register: what was written down.
        table: the table.
        seed: of the searches.
        note: told of each.
    """
    target = target_of(table.place)
    subject = register.workloads[table.workload].subject(table.place)
    settings = {number: one for one, number in numbers_of(table).items()}
    found = {}
    with closing(target) if isinstance(target, Virtual) else nullcontext():
        ground = ground_of(
            register,
            table,
            Behaviour.of(table),
            lambda _seed: RealKernel(subject, target, settings, table),
        )
        for name in NAMES:
            found[name] = ground.trial(name, seed)
            note(f"{table.name} for real: {name}: {found[name]}")
    return found
