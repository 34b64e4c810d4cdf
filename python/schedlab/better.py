"""Which way a quantity had better go."""

from typing import Literal

Better = Literal["lower", "higher"]
"""Whether a lower or a higher value is better."""
