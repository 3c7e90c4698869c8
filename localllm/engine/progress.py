"""How far the engine's thread is, for other threads to see. A step that never ends shows as busy without an advance."""

from __future__ import annotations

from collections.abc import Callable


class Progress:
    """One thread calls the methods; anybody may read."""

    def __init__(self, num_parts: Callable[[], int] = lambda: 0) -> None:
        """`num_parts` grows while a step gets on, where that can be seen; any thread calls it."""
        self.is_busy = False
        """Not before the first `advance`: what happens until then is the load."""
        self._num_advances = 0
        self._num_parts = num_parts

    @property
    def num_advances(self) -> int:
        """Another number whenever something got on."""
        return self._num_advances + self._num_parts()

    def advance(self) -> None:
        """Something is done, and there is more to do."""
        self._num_advances += 1
        self.is_busy = True

    def rest(self) -> None:
        """There is nothing to do."""
        self.is_busy = False
