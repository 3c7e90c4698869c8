"""Limits per API key: concurrent answers, and new requests per minute (a token bucket holding a minute's worth).

The clock is passed in. Knows nothing of HTTP except, in `Limited`, which requests are counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from localllm.errors import InvalidParameter
from localllm.server.edge.callers import Caller, caller_in
from localllm.server.errors import RateLimited


@dataclass
class _Use:
    """Usage of one key: the bucket held `tokens` at `filled_s`."""

    filled_s: float
    tokens: float = math.inf
    """Infinite means full, whatever the bucket's size, which may change when keys are reloaded."""
    running: int = 0


class Places:
    """The answers that one request counts for: one at first, more once it is known how many it requests, none after
    its end."""

    def __init__(self, caller: Caller, use: _Use) -> None:
        self._caller = caller
        self._use = use
        self._held = 0

    def hold(self, count: int, field: str = "n") -> None:
        """Count this many answers from now on, as `field` requests. Raises `RateLimited`, `InvalidParameter`."""
        limit = self._caller.max_concurrent
        others = self._use.running - self._held
        if limit and count > limit:
            raise InvalidParameter(
                f"{field} asks for {count} answers at a time and the key {self._caller.name!r} may have {limit} "
                "(max_concurrent_per_key); ask for fewer, or one after the other",
                param=field,
            )
        if limit and others + count > limit:
            raise RateLimited(
                f"{others} answers are running for the key {self._caller.name!r} and {count} more would be "
                f"over its limit of {limit} (max_concurrent_per_key); try again when others have ended",
                limit=limit,
            )
        self._use.running += count - self._held
        self._held = count

    def release(self) -> None:
        self._use.running -= self._held
        self._held = 0


class KeyLimits:
    """One entry per owner of keys; survives a reload of the keys."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._uses: dict[str, _Use] = {}

    @contextmanager
    def request(self, caller: Caller) -> Iterator[Places]:
        """One request of that caller, from beginning to end. Raises `RateLimited`, and then counts nothing."""
        use = self._uses.setdefault(caller.owner, _Use(self._clock()))
        places = Places(caller, use)
        places.hold(1)
        try:
            self._take_token(caller, use)
            yield places
        finally:
            places.release()

    def _take_token(self, caller: Caller, use: _Use) -> None:
        per_minute = caller.requests_per_minute
        if not per_minute:
            return
        now_s, per_s = self._clock(), per_minute / 60
        use.tokens = min(per_minute, use.tokens + (now_s - use.filled_s) * per_s)
        use.filled_s = now_s
        # Floating point: a client that waited exactly as told must not fail by a rounding error.
        if use.tokens < 1 - 1e-9:
            wait_s = (1 - use.tokens) / per_s
            raise RateLimited(
                f"the key {caller.name!r} has used up its {per_minute} requests a minute "
                f"(requests_per_minute_per_key); the next one is free in {wait_s:.1f} s",
                limit=per_minute,
                retry_after_s=wait_s,
            )
        use.tokens -= 1


COUNTED = (
    "/v1/", "/chat/", "/completion", "/responses", "/infill", "/embed", "/rerank", "/tokenize", "/detokenize",
    "/apply-template", "/api/chat", "/api/generate", "/api/embed",
)  # fmt: skip
"""Path prefixes of POST requests that need the model's process."""


class Limited:
    """ASGI middleware behind the gate that counts requests to such paths only."""

    def __init__(self, app: ASGIApp, limits: KeyLimits) -> None:
        self.app = app
        self.limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_open = "caller" not in scope["state"]  # for example /v1/health, which needs no caller
        if is_open or scope["method"] != "POST" or not scope["path"].startswith(COUNTED):
            await self.app(scope, receive, send)
            return
        with self.limits.request(caller_in(scope)) as places:
            scope["state"]["places"] = places
            await self.app(scope, receive, send)


def places_of(request: Request) -> Places:
    """The places of a request to a counted path."""
    places = request.state.places
    assert isinstance(places, Places)
    return places
