"""A handle that cancels operations from any thread. Knows nothing about them."""

from __future__ import annotations

from collections.abc import Callable


class Cancel:
    """Pass it as `cancel=` to one or more calls. `cancel()` ends running calls; later calls end immediately.

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
        """End every call that this was passed to."""
        self._cancelled = True
        for stop in list(self._stops):
            stop()

    def attach(self, stop: Callable[[], None]) -> None:
        """Call `stop` on cancellation, immediately if it has happened. `stop` must be idempotent and must not block.

        Needs no lock: `cancel` sets the flag before it reads the stops; this adds the stop before it reads the flag.
        """
        self._stops[stop] = None
        if self._cancelled:
            stop()

    def detach(self, stop: Callable[[], None]) -> None:
        """Forget `stop`, because its operation has ended."""
        self._stops.pop(stop, None)
