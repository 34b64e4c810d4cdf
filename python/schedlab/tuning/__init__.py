"""Tuning: the setting of knobs, policy and slice that serves workloads best, in any place.

A search (`schedlab.search`) proposes settings; `schedlab.tuning.objective` says what each is worth,
simulated in batches or raced for real against the best so far; every run is kept in a store, from
which a stopped tuning continues; `certify` compares the winner, or points of a front, with the
present setting, by the protocol of every comparison; `verify_later` compares it again under other
conditions; `export` makes it permanent.
"""

from schedlab.tuning.aims import Aims, parse_aims
from schedlab.tuning.certification import (
    POINTS,
    SIMULATED_BLOCKS,
    Certificate,
    candidate,
    candidates,
    certificates,
    certified,
    certify,
    recommended,
)
from schedlab.tuning.export_formats import Exported, export
from schedlab.tuning.parameters import Options, Parameters, Range, parameters
from schedlab.tuning.result import Gain, Pace, Point, Tuning
from schedlab.tuning.searches import BY, By
from schedlab.tuning.tuner import Stopped, tune, tune_subjects
from schedlab.tuning.verification import verify_later

__all__ = [
    "BY",
    "POINTS",
    "SIMULATED_BLOCKS",
    "Aims",
    "By",
    "Certificate",
    "Exported",
    "Gain",
    "Options",
    "Pace",
    "Parameters",
    "Point",
    "Range",
    "Stopped",
    "Tuning",
    "candidate",
    "candidates",
    "certificates",
    "certified",
    "certify",
    "export",
    "parameters",
    "parse_aims",
    "recommended",
    "tune",
    "tune_subjects",
    "verify_later",
]
