"""The nouns of an experiment and their outcomes."""

from schedlab.model.nouns import (
    MAX_SEED,
    Attributes,
    Costs,
    Machine,
    Scheduler,
    Workload,
    check_seed,
    format_time,
    parse_time,
    settings,
    short_time,
)
from schedlab.model.quantity import quantity

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
