"""What one API key may have: answers at a time, and new requests per minute (a token bucket that holds a minute's).

The clock is handed in. Knows nothing of HTTP but, in `Limited`, which requests ask for an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from starlette.types import ASGIApp, Receive, Scope, Send

from localllm.server.errors import RateLimited


@dataclass
class _Use:
    """What one key has used: the bucket held `tokens` at `filled_s`."""

    tokens: float
    filled_s: float
    running: int = 0


class KeyLimits:
    """One entry per key name, so as many as are configured. A limit of 0 is none."""

    def __init__(self, *, max_concurrent: int, requests_per_minute: int, clock: Callable[[], float]) -> None:
        self._max_concurrent = max_concurrent
        self._per_minute = requests_per_minute
        self._clock = clock
        self._uses: dict[str, _Use] = {}

    @contextmanager
    def request(self, key: str) -> Iterator[None]:
        """One request of that key, from its beginning to its end. Raises `RateLimited`, and then takes nothing."""
        use = self._uses.setdefault(key, _Use(self._per_minute, self._clock()))
        self._check_concurrent(key, use)
        self._take_token(key, use)
        use.running += 1
        try:
            yield
        finally:
            use.running -= 1

    def _check_concurrent(self, key: str, use: _Use) -> None:
        if self._max_concurrent and use.running >= self._max_concurrent:
            raise RateLimited(
                f"{use.running} requests of the key {key!r} are being answered already, which is the limit "
                "(max_concurrent_per_key); try again when one of them has ended",
                limit=self._max_concurrent,
            )

    def _take_token(self, key: str, use: _Use) -> None:
        if not self._per_minute:
            return
        now_s, per_s = self._clock(), self._per_minute / 60
        use.tokens = min(self._per_minute, use.tokens + (now_s - use.filled_s) * per_s)
        use.filled_s = now_s
        # Time comes in binary fractions: who waited exactly as long as told must not miss by the last of them.
        if use.tokens < 1 - 1e-9:
            wait_s = (1 - use.tokens) / per_s
            raise RateLimited(
                f"the key {key!r} has used up its {self._per_minute} requests a minute "
                f"(requests_per_minute_per_key); the next one is free in {wait_s:.1f} s",
                limit=self._per_minute,
                retry_after_s=wait_s,
            )
        use.tokens -= 1


COUNTED = ("/v1/", "/rerank")
"""How the paths begin at which the model computes; the last is a ranking by llama-server's names."""


class Limited:
    """ASGI middleware behind the gate: requests for answers (POST to such a path) are counted, nothing else is."""

    def __init__(self, app: ASGIApp, limits: KeyLimits) -> None:
        self.app = app
        self.limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST" or not scope["path"].startswith(COUNTED):
            await self.app(scope, receive, send)
            return
        with self.limits.request(scope["state"]["key_name"]):
            await self.app(scope, receive, send)
