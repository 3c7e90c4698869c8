"""Requests that a preparer works on and that were not cancelled, shared by the reader thread and the preparer's own.

A request is here until it is handed over, answered or cancelled; one lock decides which of these comes first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from localllm.worker.messages import Rejected, Reply, Up


class UncancelledRequests:
    """Ids of requests. Any thread."""

    def __init__(self, send: Callable[[Up], None]) -> None:
        self._send = send
        self._lock = threading.Lock()
        self._ids: set[int] = set()

    def __contains__(self, id: int) -> bool:
        with self._lock:
            return id in self._ids

    def add(self, id: int) -> None:
        with self._lock:
            self._ids.add(id)

    def take(self, id: int) -> bool:
        """Whether it was here; removes it."""
        with self._lock:
            was_here = id in self._ids
            self._ids.discard(id)
            return was_here

    def answer(self, message: Rejected | Reply) -> None:
        """Send the message, if its request is here."""
        if self.take(message.id):
            self._send(message)

    def hand_over(self, id: int, work: Callable[[], None]) -> None:
        """Call `work`, if the request is here: a cancel comes either before that, or after it and finds what `work`
        created.

        If `work` raises, the request is still here, to be rejected.
        """
        with self._lock:
            if id in self._ids:
                work()
                self._ids.discard(id)
