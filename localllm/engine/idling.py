"""What the engine's thread does while there is nothing to compute: it waits for items, and writes to the disk.

Knows nothing of sequences.
"""

from __future__ import annotations

import queue
from collections.abc import Callable

from localllm.engine.backend import BatchDecoder
from localllm.engine.cache.writeback import Writeback
from localllm.engine.inbox import Inbox, Item
from localllm.engine.progress import Progress

BLOCKED_POLL_S = 0.05
"""Poll interval for deadlines while every request waits for the disk, for a mask or for media rows."""
STORE_AFTER_S = 2.0
"""Idle time after which a conversation is written to the disk."""


class Idler:
    """Used by the engine's thread."""

    def __init__(
        self,
        inbox: Inbox,
        decoder: BatchDecoder,
        *,
        writeback: Writeback | None,
        progress: Progress,
        clock: Callable[[], float],
    ) -> None:
        self._inbox = inbox
        self._decoder = decoder
        self.writeback = writeback
        """None if there is no disk."""
        self._progress = progress
        self._clock = clock
        self._idle_since_s: float | None = None
        """When the engine ran out of requests; None: it computes, or has not looked since."""

    def computed(self) -> None:
        """The engine is not idle."""
        self._idle_since_s = None

    def wait(self, *, has_requests: bool) -> Item | None:
        """The next item, or None if a deadline may have passed. `has_requests`: all of them are blocked."""
        timeout_s = BLOCKED_POLL_S if has_requests else self._store_in_s()
        self._progress.rest()
        self._decoder.rest()
        try:
            return self._inbox.wait(timeout_s)
        except queue.Empty:
            if self.writeback is not None and not has_requests:
                self._progress.advance()
                self.writeback.store_while(self._inbox.empty)
            return None

    def end(self) -> None:
        """The engine stops: what slots hold is written."""
        if self.writeback is not None:
            self.writeback.store_all(self._progress.advance)

    def _store_in_s(self) -> float | None:
        """Time until an idle engine writes to the disk, however often its status is asked for; None: never."""
        if self.writeback is None or self.writeback.next() is None:
            return None
        now_s = self._clock()
        if self._idle_since_s is None:
            self._idle_since_s = now_s
        return max(0.0, self._idle_since_s + STORE_AFTER_S - now_s)
