"""Who ran when in a simulated run, for shares and timelines."""

import tempfile
from pathlib import Path

from schedlab import spans
from schedlab.model import Attributes, Machine, Scheduler, Workload
from schedlab.targets.sim import simulate


def spans_of(
    work: Workload | str,
    scheduler: Scheduler,
    machine: Machine,
    attributes: Attributes | None = None,
) -> spans.Spans:
    """Simulate a run and return who ran when.

    >>> found = spans_of("hogs:tasks=1,time=1ms", Scheduler("6.1"), Machine(1))
    >>> found.end_ns
    1000000
    """
    with tempfile.TemporaryDirectory() as directory:
        trace = Path(directory) / "run.txt"
        simulate(work, scheduler=scheduler, machine=machine, attributes=attributes, trace=trace)
        return spans.read(trace)
