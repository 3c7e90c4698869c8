"""When a full queue will have room: as soon as the next answer ends. Pure; knows nothing of processes."""

from __future__ import annotations

from localllm.errors import QueueFull
from localllm.types import Timings

NEWEST = 0.2
"""Weight of the newest answer in the average: the kind of requests changes within a few dozen."""


class QueueTimes:
    """Learns how long one request occupies a slot."""

    def __init__(self) -> None:
        self._busy_s: float | None = None

    def observe(self, timings: Timings) -> None:
        """An answer has ended."""
        busy_s = timings.prefill_s + timings.decode_s
        self._busy_s = busy_s if self._busy_s is None else (1 - NEWEST) * self._busy_s + NEWEST * busy_s

    def full(self, *, num_waiting: int, max_waiting: int, slots: int, num_asked: int = 1) -> QueueFull:
        """The error for a request when the queue is full; details: `waiting`, `limit` and, once known, `retry_after_s`.

        With `slots` answers of t seconds each, begun at arbitrary times, one ends every t / slots seconds.
        """
        sentence = f"{num_waiting} requests are waiting already, of {max_waiting} that may (max_waiting)"
        if num_asked > 1:
            sentence += f", so there is no room for {num_asked} more"
        if self._busy_s is None:
            return QueueFull(f"{sentence}; try again later", waiting=num_waiting, limit=max_waiting)
        wait_s = self._busy_s / slots
        return QueueFull(
            f"{sentence}; a place should be free in {wait_s:.1f} s",
            waiting=num_waiting,
            limit=max_waiting,
            retry_after_s=wait_s,
        )


def check_calls(num_waiting: int, max_waiting: int) -> None:
    """Raises `QueueFull` if too many short calls are waiting already."""
    if num_waiting >= max_waiting:
        raise QueueFull(
            f"{num_waiting} short calls are waiting already, of {max_waiting} that may (max_waiting); try again later",
            waiting=num_waiting,
            limit=max_waiting,
        )
