"""A laboratory for the Linux CPU scheduler.

One description of a workload, a machine and a scheduler, two executions of it (simulated in
virtual time, or on a real kernel), one judgement of what came out.
"""

from schedlab.boundary.interrupt import quiet_interrupt

quiet_interrupt()

# ruff: noqa: E402 - what follows takes long enough to be interrupted
from schedlab._core import __version__
from schedlab.boundary.errors import InputError, NotPermittedError, RunError, SchedlabError
from schedlab.measure.background import background_from
from schedlab.model import Attributes, Costs, Machine, Scheduler, Workload
from schedlab.model.outcome import GroupOutcome, Outcome, TaskOutcome
from schedlab.targets.sim import simulate, simulate_many
from schedlab.tuning import Tuning, tune

__all__ = [
    "Attributes",
    "Costs",
    "GroupOutcome",
    "InputError",
    "Machine",
    "NotPermittedError",
    "Outcome",
    "RunError",
    "SchedlabError",
    "Scheduler",
    "TaskOutcome",
    "Tuning",
    "Workload",
    "__version__",
    "background_from",
    "simulate",
    "simulate_many",
    "tune",
]
