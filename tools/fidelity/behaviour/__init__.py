"""Whether simulated runs behave as real ones do, line by line as written down beforehand.

``python -m fidelity.behaviour`` runs what ``validation/behaviour.toml`` names on real
kernels, simulates the same with the costs that were measured there, judges and writes the page.
"""

from fidelity.behaviour.judge import Finding, judge
from fidelity.behaviour.register import Line, Register

__all__ = ["Finding", "Line", "Register", "judge"]
