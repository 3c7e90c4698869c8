"""One request for a piece of a file: what it asked for, what it was promised, and how it gets on. Knows no sockets."""

from __future__ import annotations

from dataclasses import dataclass, field

from localllm.registry.fetch.pacing import Retryable
from localllm.registry.remote import Credential

STALL_S = 30.0
STALL_BYTES = 4096
"""A connection that delivers less than this in `STALL_S` is given up, even if it never times out."""


@dataclass(eq=False)
class Flight:
    """For [start, end)."""

    start: int
    end: int | None
    """Where another flight takes over; None: the end of the response."""
    started_at: float
    generation: int
    """Of the file's content; what a flight of an older one brings counts for nothing."""
    round: int
    """How many failures of the file had been counted when it began."""
    conditional: bool
    """It has an If-Range."""
    pos: int = field(init=False)
    """[start, pos) is written."""
    asked_end: int | None = field(init=False)
    answer_end: int | None = None
    """Where the answer says that it ends; `end` may have come closer since."""
    moved_at: float = field(init=False)
    is_paused: bool = False
    """It waits for the bandwidth limit."""
    remembered: bool = False
    """It goes to where an earlier one was redirected to."""
    credential: Credential | None = None
    """That it was asked with, at the file's own address."""
    dropped: bool = False
    """Its connection is to be given up."""

    def __post_init__(self) -> None:
        self.pos, self.asked_end, self.moved_at = self.start, self.end, self.started_at
        self._window_at, self._window_bytes = self.started_at, 0

    @property
    def is_done(self) -> bool:
        return self.end is not None and self.pos >= self.end

    def room(self, num_bytes: int) -> int:
        """How many of the bytes that have arrived are wanted. Raises `Retryable` if that is more than announced."""
        if self.answer_end is not None and self.pos + num_bytes > self.answer_end:
            raise Retryable("the server sends more than it said")
        return num_bytes if self.end is None else max(0, min(num_bytes, self.end - self.pos))

    def moved(self, num_bytes: int, now: float) -> None:
        """So many bytes more are written. Raises `Retryable` if that is too slow."""
        self.pos += num_bytes if self.end is None else min(num_bytes, self.end - self.pos)
        self.moved_at = now
        self._window_bytes += num_bytes
        if now - self._window_at >= STALL_S:
            if self._window_bytes < STALL_BYTES:
                too_few = f"{self._window_bytes} bytes in {now - self._window_at:.0f} s are too few"
                raise Retryable(too_few, is_outage=True)
            self._window_at, self._window_bytes = now, 0

    def paused(self, seconds: float) -> None:
        """Does not count time spent waiting for the bandwidth limit as a stall."""
        self.is_paused = False
        self.moved_at += seconds
        self._window_at += seconds
