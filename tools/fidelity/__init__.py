"""Our rules against real kernels' decisions, line by line as written down beforehand.

`register` reads what was written down: scenarios, tolerances, lines and goals. `collect` records
the scenarios on real kernels and replays them, `judge` holds each line and goal against what came
out, `page` writes it down. ``python -m fidelity`` does all of it.
"""

from fidelity.judge import Finding, Judgement, judge
from fidelity.register import Goal, Line, Register, Scenario, Tolerance

__all__ = [
    "Finding",
    "Goal",
    "Judgement",
    "Line",
    "Register",
    "Scenario",
    "Tolerance",
    "judge",
]
