"""When to report that a host has been silent: not after a brief pause, and once a second. Has no clock."""

from __future__ import annotations

TOLD_FROM_S = 2.0
TOLD_EVERY_S = 1.0


class Silence:
    """Of one download."""

    def __init__(self, now: float) -> None:
        self._since = now
        self._num_bytes: int | None = None
        self._told_at = now

    def waited_s(self, now: float, num_bytes: int | None) -> float | None:
        """The seconds to report, if it is time. `num_bytes`: received so far; None: no data is expected."""
        if num_bytes is None or num_bytes != self._num_bytes:
            self._since, self._num_bytes = now, num_bytes
            return None
        if now - self._since < TOLD_FROM_S or now - self._told_at < TOLD_EVERY_S:
            return None
        self._told_at = now
        return now - self._since
