"""Tuning: the setting of knobs, policy and slice that serves workloads best, in any place.

A search (`schedlab.search`) proposes settings; `schedlab.tuning.objective` says what each is worth,
simulated in batches or raced for real against the best so far; every run is kept in a store, from
which a stopped tuning continues; `certify` compares the winner with the present setting,
by the protocol of every comparison; `export` makes it permanent.
"""

from schedlab.tuning.certification import SIMULATED_BLOCKS, candidate, certified, certify
from schedlab.tuning.export_formats import Exported, export
from schedlab.tuning.parameters import Options, Parameters, Range, parameters
from schedlab.tuning.result import Gain, Pace, Tuning
from schedlab.tuning.searches import BY, By
from schedlab.tuning.tuner import Stopped, tune, tune_subjects

__all__ = [
    "BY",
    "SIMULATED_BLOCKS",
    "By",
    "Exported",
    "Gain",
    "Options",
    "Pace",
    "Parameters",
    "Range",
    "Stopped",
    "Tuning",
    "candidate",
    "certified",
    "certify",
    "export",
    "parameters",
    "tune",
    "tune_subjects",
]
