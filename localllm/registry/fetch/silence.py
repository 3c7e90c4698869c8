"""When to report that a host is silent: once a second, but not for brief pauses. Has no clock."""

from __future__ import annotations

REPORT_AFTER_S = 2.0
REPORT_INTERVAL_S = 1.0


class Silence:
    """The silence of one download."""

    def __init__(self, now: float) -> None:
        self._since = now
        self._num_bytes: int | None = None
        self._reported_at = now

    def waited_s(self, now: float, num_bytes: int | None) -> float | None:
        """The seconds to report, if a report is due. `num_bytes`: received so far; None: no data is expected."""
        if num_bytes is None or num_bytes != self._num_bytes:
            self._since, self._num_bytes = now, num_bytes
            return None
        if now - self._since < REPORT_AFTER_S or now - self._reported_at < REPORT_INTERVAL_S:
            return None
        self._reported_at = now
        return now - self._since
