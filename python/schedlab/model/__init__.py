"""The nouns, and what a run of them comes to."""

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
    "settings",
    "short_time",
]
