"""The parameters of the web server's report: their values, and at how many connections."""

from collections.abc import Mapping

CONCURRENCIES = (4, 20, 100, 200, 500, 1000)
KNOBS: Mapping[str, tuple[str, ...]] = {
    "rr_timeslice": ("100ms", "10ms", "50ms", "150ms"),
    "latency": ("18ms", "1ms", "5ms", "10ms", "20ms"),
    "wakeup_granularity": ("3ms", "1ms", "2ms", "4ms"),
    "rt_runtime": ("950ms", "100ms", "500ms", "700ms", "1s"),
}
"""The report's values, its default first."""

DEFAULTS = {name: values[0] for name, values in KNOBS.items()}
"""Of 4 CPUs, set explicitly since they scale with CPUs."""

SHORTEST = {"min_granularity": "2250us"}
"""Goes with the defaults of 4 CPUs: a machine may have fewer, and scales what it is not told."""

BAND = 0.01
"""Values whose throughput differs by less are as good as each other."""
