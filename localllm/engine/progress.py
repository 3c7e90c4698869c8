"""How far the engine's thread is, for other threads to see. A step that never ends shows as busy without an advance."""

from __future__ import annotations


class Progress:
    """One thread calls the methods; anybody may read."""

    def __init__(self) -> None:
        self.is_busy = False
        """Not before the first `advance`: what happens until then is the load."""
        self.num_advances = 0

    def advance(self) -> None:
        """Something is done, and there is more to do."""
        self.num_advances += 1
        self.is_busy = True

    def rest(self) -> None:
        """There is nothing to do."""
        self.is_busy = False
