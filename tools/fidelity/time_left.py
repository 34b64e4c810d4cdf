"""How long something still takes."""

import time


def time_left(began: float, done: int, total: int) -> str:
    """Say how long the rest takes if it goes on as it went.

    Args:
        began: when it began, by `time.monotonic`.
        done: how much is done, at least 1.
        total: how much there is.
    """
    seconds = (time.monotonic() - began) / done * (total - done)
    return f"{seconds / 60:.0f} min left" if seconds >= 60 else f"{seconds:.0f} s left"
