"""Interrupts and terminations that wait until knobs are in order."""

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_Handler = Callable[[int, FrameType | None], object]


class OrderlySignals:
    """Lets SIGINT, SIGTERM and SIGHUP through between two critical parts, and only there.

    A context manager that begins held. While held, a signal is kept, and delivered when the block
    is left or `let_through` is called. Let through, a signal does what it did before the block, but
    for those whose default would end the process at once: they unwind the block first (as
    KeyboardInterrupt), then end the process. Once one has unwound the block, later ones wait.
    Signals that were ignored stay so; outside of the main thread nothing is done.
    """

    def __init__(self) -> None:
        self._previous: dict[int, _Handler | int] = {}
        self._held = True
        self._waiting: int | None = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                previous = signal.getsignal(number)
                if previous is not None and previous != signal.SIG_IGN:
                    self._previous[number] = previous
                    signal.signal(number, self._on)
        return self

    def __exit__(self, *_: object) -> None:
        self.hold()
        for number, previous in self._previous.items():
            signal.signal(number, previous)
        self._deliver()

    def hold(self) -> None:
        """Keep signals from here on."""
        self._held = True

    def let_through(self) -> None:
        """Deliver signals from here on, first the one that waits."""
        self._held = False
        if self._waiting is not None:
            number, self._waiting = self._waiting, None
            self._on(number, None)

    def _deliver(self) -> None:
        if self._waiting is not None:
            signal.raise_signal(self._waiting)

    def _on(self, number: int, frame: FrameType | None) -> None:
        if self._held:
            self._waiting = number
            return
        previous = self._previous[number]
        if callable(previous):
            try:
                previous(number, frame)
            except BaseException:
                self._held = True
                raise
        else:
            self._held = True
            self._waiting = number
            raise KeyboardInterrupt
