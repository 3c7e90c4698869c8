"""Progress of the engine's thread, visible to other threads. A step that never ends shows as busy without advances."""

from __future__ import annotations

from collections.abc import Callable


class Progress:
    """One thread calls the methods; any thread may read."""

    def __init__(self, num_parts: Callable[[], int] = lambda: 0) -> None:
        """`num_parts` grows while a step makes progress, where that is visible; called on any thread."""
        self.is_busy = False
        """False until the first `advance`: before that, the model is loading."""
        self._num_advances = 0
        self._num_parts = num_parts

    @property
    def num_advances(self) -> int:
        """Changes whenever progress was made."""
        return self._num_advances + self._num_parts()

    def advance(self) -> None:
        """Something is done, and more remains."""
        self._num_advances += 1
        self.is_busy = True

    def rest(self) -> None:
        """There is nothing to do."""
        self.is_busy = False
