"""When to retry, and how fast to go: pure functions, and a token bucket whose clock is passed in.

Knows nothing of sockets, threads or files.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

from localllm.errors import PullFailed

MAX_MISTAKES = 6
"""A file is abandoned after this many unusable responses in a row without a new byte on disk."""
SMALL_ATTEMPTS = 3
"""Attempts for a small response, unless the caller is patient."""
PATIENCE_S = 600.0
"""A source that does not respond is abandoned after this long without a new byte on disk."""
RETRYABLE_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529})
"""The 52x are Cloudflare's, for an origin that does not respond."""
_RESET = re.compile(r"\bt=(\d{1,6})\b", re.ASCII)
BURST_S = 0.25
"""Seconds' worth of a bandwidth limit that may be used in one burst."""


class Retryable(PullFailed):
    """A failure worth another attempt."""

    def __init__(
        self,
        message: str,
        *,
        retry_after_s: float | None = None,
        busy: bool = False,
        is_outage: bool = False,
        is_unresolved: bool = False,
    ) -> None:
        super().__init__(message)
        self.is_unresolved = is_unresolved
        """Whether the host's name has no address: a typing error, or no network at all."""
        self.is_outage = is_outage
        """Whether the network or the server is down and may come back; otherwise the response was unusable."""
        self.retry_after_s = retry_after_s
        """Seconds to wait, as requested by the server."""
        self.busy = busy
        """Whether the server is overloaded, possibly by our own connections."""


def is_retryable(status: int) -> bool:
    """Whether the same request may succeed later. After 401, 403 and 404 it will not."""
    return status in RETRYABLE_STATUSES


@dataclass(frozen=True, kw_only=True)
class Backoff:
    """How long to wait before a retry."""

    first_s: float = 1.0
    max_s: float = 16.0
    max_retry_after_s: float = 86400.0
    """Upper limit on a delay requested by the server, if the caller waits that long."""

    def pause_s(self, failures: int, *, retry_after_s: float | None = None, chance: float) -> float:
        """The pause after `failures` in a row (from 1); `chance` in [0, 1) spreads clients.

        Between half and all of 1, 2, 4 ... 16 s, or as long as the server requested, up to the limit.
        """
        longest = min(self.max_s, self.first_s * 2.0 ** min(failures - 1, 30))
        own = longest * (0.5 + chance / 2)
        return own if retry_after_s is None else max(own, min(retry_after_s, self.max_retry_after_s))


def retry_after_s(value: str | None, now: datetime | None = None) -> float | None:
    """Parses `Retry-After`: seconds or a date. None if it is missing or invalid."""
    if value is None or len(value) > 64:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        date = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return max(0.0, (date - (now or datetime.now(UTC))).total_seconds())


def rate_limit_reset_s(value: str | None) -> float | None:
    """Parses `RateLimit`, as in `"api";r=0;t=55`: seconds until more requests are allowed, or None."""
    match = None if value is None else _RESET.search(value[:200])
    return None if match is None else float(match[1])


DEFAULT_BACKOFF = Backoff()


class TokenBucket:
    """A bandwidth limit shared by threads. Bytes are taken first and paid for later, so no piece is too large."""

    def __init__(self, bytes_per_s: int, now: Callable[[], float] = time.monotonic) -> None:
        self._rate = bytes_per_s
        self._now = now
        self._lock = threading.Lock()
        self._free_at = now()
        """The time at which all bytes taken so far are paid for."""

    def take(self, size_bytes: int) -> float:
        """Seconds to wait before taking more."""
        with self._lock:
            now = self._now()
            self._free_at = max(self._free_at, now - BURST_S) + size_bytes / self._rate
            return max(0.0, self._free_at - now)


@dataclass
class Retries:
    """The retries of one request for a small response."""

    backoff: Backoff
    limit_s: float
    """For all attempts together, of a caller who is not patient."""
    patience_s: float | None = None
    """How long to wait out an outage; None: `SMALL_ATTEMPTS` attempts."""
    num_failures: int = 0

    def pause_s(self, failure: Retryable, elapsed_s: float, chance: float) -> float | None:
        """The pause before the next attempt; None: give up.

        A host name without an address is probably misspelled, so even a patient caller gets that error soon.
        """
        self.num_failures += 1
        pause_s = self.backoff.pause_s(self.num_failures, retry_after_s=failure.retry_after_s, chance=chance)
        if self.patience_s is not None and failure.is_outage and not failure.is_unresolved:
            return within(pause_s, failure, self.patience_s - elapsed_s)
        is_over = self.num_failures >= SMALL_ATTEMPTS or elapsed_s + pause_s > self.limit_s
        return None if is_over else pause_s


def within(pause_s: float, failure: Retryable, remaining_s: float) -> float | None:
    """The pause, cut so that the last attempt is at the end of the time that remains; None: there is none left.

    A server that asked for a longer pause is not asked before.
    """
    if pause_s <= remaining_s:
        return pause_s
    return remaining_s if remaining_s > 0 and failure.retry_after_s is None else None


OnWait = Callable[[str, float, str], None]
"""Called with the silent host, the seconds waited so far, and the reason (a sentence, or empty)."""


def telling(on_wait: OnWait, url: str, began: float, why: str, is_cancelled: Callable[[], bool]) -> Callable[[], bool]:
    """Wraps `is_cancelled` so that each call also reports to `on_wait` how long the wait has taken, and why."""

    def is_over() -> bool:
        on_wait(urlsplit(url).netloc.rpartition("@")[2], time.monotonic() - began, why)
        return is_cancelled()

    return is_over
