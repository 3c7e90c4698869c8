"""How many equal tiles the encoder computes in one call: as many as take a bounded time at the pace of the last calls.

Knows nothing of pictures or processes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable
from itertools import accumulate

LAST_CALLS = 3
"""Number of calls by whose slowest the next one is estimated."""


class TileBatches:
    """Learns from the calls of one projector."""

    def __init__(self, max_call_s: float) -> None:
        """`max_call_s`: expected time of the longest call with several tiles. Only between calls can the number of
        threads change, a medium be dropped, and another one that was wanted earlier begin."""
        self._max_call_s = max_call_s
        self._row_s: deque[float] = deque(maxlen=LAST_CALLS)
        """Thread-seconds of one row in the last calls."""

    def learn(self, num_rows: int, threads: int, seconds: float) -> None:
        """A call computed so many rows."""
        self._row_s.append(threads * seconds / num_rows)

    def count(self, num_rows: Iterable[int], threads: int) -> int:
        """How many of the next tiles, with so many rows each, fit one call: at least one, and one before the first
        call."""
        if not self._row_s:
            return 1
        most_rows = self._max_call_s * threads / max(self._row_s)
        return max(1, bisect_right([*accumulate(num_rows)], most_rows))
