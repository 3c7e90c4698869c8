"""One request for a piece of a file: its range, the response's promises, and its progress. Knows nothing of sockets."""

from __future__ import annotations

from dataclasses import dataclass, field

from localllm.registry.fetch.pacing import Retryable
from localllm.registry.remote import Credential

STALL_S = 30.0
STALL_BYTES = 4096
"""A connection that delivers less than this in `STALL_S` is abandoned, even if it never times out."""


@dataclass(eq=False)
class Flight:
    """A request for [start, end)."""

    start: int
    end: int | None
    """Where another flight takes over; None: at the end of the response."""
    started_at: float
    generation: int
    """The generation of the file's content; bytes from a flight of an older one are ignored."""
    round: int
    """The file's failure count when the flight began."""
    conditional: bool
    """Whether the request has an If-Range header."""
    pos: int = field(init=False)
    """[start, pos) is written."""
    asked_end: int | None = field(init=False)
    answer_end: int | None = None
    """The end of the response according to its headers; `end` may have been lowered since."""
    moved_at: float = field(init=False)
    is_paused: bool = False
    """Whether it is waiting for the bandwidth limit."""
    remembered: bool = False
    """Whether it goes to the URL that an earlier flight was redirected to."""
    credential: Credential | None = None
    """The credential sent to the file's own URL."""
    dropped: bool = False
    """Whether its connection is to be abandoned."""

    def __post_init__(self) -> None:
        self.pos, self.asked_end, self.moved_at = self.start, self.end, self.started_at
        self._window_at, self._window_bytes = self.started_at, 0

    @property
    def is_done(self) -> bool:
        return self.end is not None and self.pos >= self.end

    def room(self, num_bytes: int) -> int:
        """How many of the arrived bytes to write. Raises `Retryable` if more arrived than announced."""
        if self.answer_end is not None and self.pos + num_bytes > self.answer_end:
            raise Retryable("the server sent more than it announced")
        return num_bytes if self.end is None else max(0, min(num_bytes, self.end - self.pos))

    def moved(self, num_bytes: int, now: float) -> None:
        """Records that `num_bytes` were written. Raises `Retryable` if the transfer is too slow."""
        self.pos += num_bytes if self.end is None else min(num_bytes, self.end - self.pos)
        self.moved_at = now
        self._window_bytes += num_bytes
        if now - self._window_at >= STALL_S:
            if self._window_bytes < STALL_BYTES:
                too_few = f"the server sent only {self._window_bytes} bytes in {now - self._window_at:.0f} s"
                raise Retryable(too_few, is_outage=True)
            self._window_at, self._window_bytes = now, 0

    def paused(self, seconds: float) -> None:
        """Does not count time spent waiting for the bandwidth limit as a stall."""
        self.is_paused = False
        self.moved_at += seconds
        self._window_at += seconds
