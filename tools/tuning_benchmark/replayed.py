"""A kernel in the form of a table: it is asked for run after run, and answers as it did."""

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from schedlab.search.space import FloatArray
from tuning_benchmark.register import DriftLaw
from tuning_benchmark.table import Table


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What a table says of a workload at a place, all in logarithms, less being better.

    A cost is the setting's mean, plus the drift of the block, plus a deviation.

    Attributes:
        means: of each setting, the present one (the first) being 0.
        drift: of each block, with mean 0.
        deviations: a row a block, a column a setting, with the variance of single runs.
    """

    means: FloatArray
    drift: FloatArray
    deviations: FloatArray

    @classmethod
    def of(cls, table: Table) -> "Behaviour":
        """Fit a table: means of settings and of blocks; what is left are the deviations."""
        logs = table.logs()
        blocks, settings = logs.shape
        columns, rows = logs.mean(axis=0), logs.mean(axis=1)
        # A block that met an outlier is no slower block: its median says how slow it was.
        drift = np.median(logs - columns, axis=1)
        drift = drift - drift.mean()
        del rows
        means = (logs - drift[:, None]).mean(axis=0)
        left = logs - drift[:, None] - means
        # Of n blocks and m settings (n - 1)(m - 1) degrees of freedom are left.
        whole = blocks * settings / ((blocks - 1) * (settings - 1))
        return cls(means - means[0], drift, left * np.sqrt(whole))

    @property
    def scatter(self) -> float:
        """The median deviation of a setting's single runs, as a logarithm."""
        return float(np.median(np.sqrt((self.deviations**2).mean(axis=0))))

    @property
    def best(self) -> float:
        """The least mean of any setting."""
        return float(self.means.min())

    @property
    def gain(self) -> float:
        """How much the best setting gains: 1 less its cost relative to the present setting."""
        return 1 - float(np.exp(self.best))

    def same(self) -> "Behaviour":
        """Return the control in which all settings are the present one (A/A)."""
        scattered = np.repeat(self.deviations[:, :1], len(self.means), axis=1)
        return replace(self, means=np.zeros_like(self.means), deviations=scattered)


class Asked(Protocol):
    """What a search asks for runs.

    Attributes:
        runs: that were made.
    """

    runs: int

    def run(self, setting: int) -> float:
        """Run a setting once, and return its cost: a logarithm, less being better."""


class Kernel:
    """Answers with the cost of a run, again and again; time goes on with each.

    Blocks pass as the table's did; after the last one they come back in reverse, so that nothing
    jumps. Deviations are the setting's own, drawn with either sign.

    Args:
        behaviour: of the table.
        seed: of what is drawn.
        drift: that is added.
    """

    def __init__(self, behaviour: Behaviour, seed: int, drift: DriftLaw | None = None) -> None:
        self.runs = 0
        self._of = behaviour
        self._random = np.random.default_rng([seed, 31])
        self._added = drift
        # Where in the table's time and in the wave it begins is chance.
        self._start = float(self._random.uniform(0, 2 * len(behaviour.drift)))
        self._phase = float(self._random.uniform(0, 2 * np.pi))

    def run(self, setting: int) -> float:
        """Return the cost of one run of a setting, as a logarithm."""
        deviations = self._of.deviations[:, setting]
        drawn = deviations[self._random.integers(len(deviations))]
        signed = drawn if self._random.integers(2) else -drawn
        cost = float(self._of.means[setting]) + self._drift() + float(signed)
        self.runs += 1
        return cost

    def _drift(self) -> float:
        blocks = len(self._of.drift)
        position = (self._start + self.runs / len(self._of.means)) % (2 * blocks)
        mirrored = min(position, 2 * blocks - position)
        recorded = float(np.interp(mirrored - 0.5, np.arange(blocks), self._of.drift))
        if self._added is None:
            return recorded
        law = self._added
        wave = law.wave * np.sin(2 * np.pi * self.runs / law.period + self._phase)
        step = np.log1p(law.step) if self.runs >= law.at else 0.0
        return recorded + float(np.log1p(wave)) + float(step)
