"""Is the new one better? Two commands whose run time is noise on a drift, one of them 5 % faster.

The numbers are drawn, so that the truth is known. Blocks of both in random order see the drift
alike; a run of all of one and then all of the other does not, and takes the drift for an effect.
"""

from functools import partial

import numpy as np

from schedlab.experiment import blocks
from schedlab.experiment.stats import paired_ratio

BLOCKS = 30


class Clock:
    """A machine that slows down by 10 % over the session, with 3 % of noise."""

    def __init__(self, seed: int) -> None:
        """Begin a session."""
        self._rng = np.random.default_rng(seed)
        self._runs = 0

    def seconds(self, true: float) -> float:
        """Return what a run that takes `true` seconds is measured to take."""
        drift = 1 + 0.1 * self._runs / (2 * BLOCKS)
        self._runs += 1
        return true * drift * float(self._rng.lognormal(sigma=0.03))


def main() -> None:
    """Print what both ways of measuring say of an equal pair and of a faster command."""
    print(f"{'truth':12} {'interleaved':>30} {'one after the other':>24}")
    for truth, new in {"the same": 1.0, "5 % faster": 0.95}.items():
        clock = Clock(seed=1)
        arms = {"old": partial(clock.seconds, 1.0), "new": partial(clock.seconds, new)}
        fair = blocks.run_blocks(arms, blocks=BLOCKS).compare("old", "new")

        clock = Clock(seed=1)
        old = [clock.seconds(1.0) for _ in range(BLOCKS)]
        unfair = paired_ratio(old, [clock.seconds(new) for _ in range(BLOCKS)])
        print(
            f"{truth:12} {_words(fair.ratio.value):>12} {fair.verdict!s:>17}"
            f" {_words(unfair.value):>24}"
        )


def _words(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f} %"


if __name__ == "__main__":
    main()
