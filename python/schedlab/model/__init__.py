"""The nouns of an experiment and their outcomes."""

from schedlab.model.calibration_file import Costs
from schedlab.model.machine import Machine
from schedlab.model.nouns import MAX_SEED, Attributes, Scheduler, Workload, check_seed, settings
from schedlab.model.quantity import quantity
from schedlab.model.times import format_time, parse_time, short_time

__all__ = [
    "MAX_SEED",
    "Attributes",
    "Costs",
    "Machine",
    "Scheduler",
    "Workload",
    "check_seed",
    "format_time",
    "parse_time",
    "quantity",
    "settings",
    "short_time",
]
