"""Whether settings rank in simulation as they do on real kernels, as written down beforehand.

``python -m fidelity.prediction`` runs the workloads of ``validation/prediction.toml``
under each setting, simulates the same, judges and writes the page.
"""

from fidelity.prediction.judge import Finding, judge
from fidelity.prediction.register import Line, Register, Setting

__all__ = ["Finding", "Line", "Register", "Setting", "judge"]
