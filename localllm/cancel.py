"""A handle that cancels, from any thread, whatever it was passed to. Knows nothing of what that is."""

from __future__ import annotations

from collections.abc import Callable


class Cancel:
    """Pass it as `cancel=` to one or more calls; `cancel()` ends running ones, and later ones at once.

    May be called from any thread, from a signal handler, and more than once. Never blocks.
    """

    def __init__(self) -> None:
        self._cancelled = False
        self._stops: dict[Callable[[], None], None] = {}

    @property
    def cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._cancelled

    def cancel(self) -> None:
        """End everything that this was passed to."""
        self._cancelled = True
        for stop in list(self._stops):
            stop()

    def attach(self, stop: Callable[[], None]) -> None:
        """Call `stop` when cancelled, or at once if that has happened. `stop` must be idempotent and must not block.

        Needs no lock: the flag is set before the stops are read, and checked after one was added, so none is missed.
        """
        self._stops[stop] = None
        if self._cancelled:
            stop()

    def detach(self, stop: Callable[[], None]) -> None:
        """What it would stop has ended."""
        self._stops.pop(stop, None)
