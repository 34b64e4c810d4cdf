"""How long the rest of many steps takes, by those that took time."""

_AT_ONCE = 0.05
"""Seconds: a step that took less was there before, and says nothing of the others."""


class Pace:
    """Follows steps as they are done.

    What a store has is done at once, so that a series that continues would seem nearly over: only
    steps that took time count.

    >>> pace = Pace(10.0)
    >>> [pace.left(done, 10, now) for done, now in ((0, 10.0), (5, 10.01), (6, 12.01))]
    [None, None, 8.0]
    """

    def __init__(self, now: float) -> None:
        self._done = 0
        self._now = now
        self._steps = 0
        self._seconds = 0.0

    def left(self, done: int, total: int, now: float) -> float | None:
        """Return the seconds left when so many steps are done; None while none took any.

        Args:
            done: of ``total``; a smaller number than before starts over.
            total: steps there are.
            now: a clock's seconds.
        """
        if done < self._done:
            self._done, self._now, self._steps, self._seconds = done, now, 0, 0.0
        if done > self._done:
            if now - self._now > _AT_ONCE:
                self._steps += done - self._done
                self._seconds += now - self._now
            self._done, self._now = done, now
        if self._steps == 0:
            return None
        return self._seconds / self._steps * (total - done)
