"""The web server's report in simulation, every setting several times, as on real kernels.

Which request meets which depends on small differences: with a worker's time longer or shorter by a
part in a thousand, throughput at one concurrency moves by up to 17 %, and over four of them by 3 %.
So each setting is simulated with several such times, the default with others once more (A/A), and
all of them are judged as real runs are.
"""

from collections.abc import Mapping
from dataclasses import replace

from schedlab.model import Scheduler
from schedlab.model.outcome import Outcome
from schedlab.studies import programs
from schedlab.studies.cfs_parameters.parameters import CONCURRENCIES, DEFAULTS, KNOBS, SHORTEST
from schedlab.studies.cfs_parameters.parameters_measured import Runs
from schedlab.studies.machines import typical
from schedlab.studies.study import Request
from schedlab.targets.sim import simulate

RELEASE = "5.10"
CPUS = 4

WORKERS_NS = tuple(range(44_965, 45_036, 10))
"""Nanoseconds of a worker within 0.1 % of what is assumed: those of a setting's runs, and between
them those of the default's other runs."""


def throughput(outcome: Outcome) -> float:
    """Return requests a second: those that were answered."""
    return outcome.latencies["answer"].count / (outcome.elapsed_ns / 1e9)


def served(
    concurrency: int, time: str, knobs: Mapping[str, str], *, quick: bool, again: bool = False
) -> list[Outcome]:
    """Simulate a setting several times.

    Args:
        concurrency: connections.
        time: that a run lasts.
        knobs: what is not as the report's defaults are.
        quick: half as many runs.
        again: with other times of a worker, as of a second measurement.
    """
    times = WORKERS_NS[again::2]
    return [
        simulate(
            programs.serving(concurrency, time, replace(programs.Request(), worker=f"{worker}ns")),
            scheduler=Scheduler(RELEASE, knobs={**DEFAULTS, **SHORTEST, **knobs}),
            machine=typical(CPUS),
        )
        for worker in (times[::2] if quick else times)
    ]


def simulated(request: Request) -> Runs:
    """Simulate every value of every knob at every concurrency."""
    concurrencies = (4, 100) if request.quick else CONCURRENCIES
    arms: dict[tuple[str, str], dict[str, str]] = {("default", ""): {}, ("A/A", ""): {}}
    for knob, values in KNOBS.items():
        arms |= {(knob, value): {knob: value} for value in values if value != DEFAULTS[knob]}
    found: dict[tuple[str, str, int], list[float]] = {}
    for place, ((knob, value), knobs) in enumerate(arms.items()):
        request.tell("parameters", place, len(arms))
        for concurrency in concurrencies:
            runs = served(
                concurrency,
                "100ms" if request.quick else "1s",
                knobs,
                quick=request.quick,
                again=knob == "A/A",
            )
            found[knob, value, concurrency] = [throughput(one) for one in runs]
    return found
