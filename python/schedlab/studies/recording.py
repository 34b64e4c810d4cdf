"""Which task ran when in a simulated run, for shares and timelines."""

import json
from typing import Any

from schedlab import _core
from schedlab.live.runs import LONGEST, Side, runs_address
from schedlab.measure import trace_spans
from schedlab.model import Attributes, Machine, Scheduler, Workload
from schedlab.processes import leftovers
from schedlab.report.timeline import timeline
from schedlab.targets.sim import simulate

FIRST_PID = 1000
"""Of task 0 in a trace; others count on."""


def spans_of(
    work: Workload | str,
    scheduler: Scheduler,
    machine: Machine,
    attributes: Attributes | None = None,
) -> trace_spans.Spans:
    """Simulate a run and return which task ran when.

    >>> found = spans_of("hogs:tasks=1,time=1ms", Scheduler("6.1"), Machine(1, "ideal"))
    >>> found.end_ns
    1000000
    """
    with leftovers.directory("trace") as directory:
        trace = directory / "run.txt"
        simulate(work, scheduler=scheduler, machine=machine, attributes=attributes, trace=trace)
        return trace_spans.read(trace)


def timeline_of(  # noqa: PLR0917 - a run, and what is said of it
    work: Workload | str,
    scheduler: Scheduler,
    machine: Machine,
    title: str,
    attributes: Attributes | None = None,
    until_ns: int | None = None,
) -> dict[str, Any]:
    """Simulate a run and return its timeline, with vruntime and lag to be shown on demand.

    >>> from schedlab import Workload
    >>> one = Machine(1, "ideal")
    >>> found = timeline_of("hogs:tasks=2,time=9ms", Scheduler("6.12"), one, "two hogs")
    >>> found["standings"][0]
    (0, 0, 0, 0)
    """
    described = Workload.parse(work) if isinstance(work, str) else work
    if attributes is not None:
        described = described.with_attributes(attributes)
    told = _core.standings(described.json, scheduler.json, machine.json, 1)
    found = timeline(
        spans_of(described, scheduler, machine),
        title,
        until_ns=until_ns,
        standings=[(FIRST_PID + task, at, virtual, lag) for task, at, virtual, lag in told],
    )
    rules = json.loads(scheduler.json)
    # Beside it the other fair class, so that there is something to compare.
    other = {"release": "6.1" if scheduler.has_slices else "6.12"}
    known = Side(rules), Side(other | {"hz": rules["hz"]})
    address = runs_address(described, known, json.loads(machine.json), machine.costs.name)
    return found | ({"live": address} if len(address) <= LONGEST else {})
