"""Server-sent events: their bytes, and a response that stops its source when the client goes away.

Knows nothing of models or of any API's event formats.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypeVar

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

DONE = b"data: [DONE]\n\n"

T = TypeVar("T")


class ClientGone(Exception):
    """The client closed the connection; there is nobody to answer."""


def data(payload: bytes) -> bytes:
    """One event. `payload` is JSON, so it holds no raw line end."""
    return b"data: " + payload + b"\n\n"


async def unless_gone(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """Run `work`; cancel it, wait for its clean-up and raise `ClientGone` when the client disconnects first."""
    task = asyncio.ensure_future(work)
    watch = asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
        gone = not task.done()
    finally:
        # Also on the way out of a cancellation from outside: the work must not outlive its request.
        watch.cancel()
        if not task.done():
            task.cancel()
        await asyncio.gather(task, watch, return_exceptions=True)
    if gone:
        raise ClientGone
    return task.result()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class EventStream(Response):
    """Sends each chunk as it comes; awaits `close` in every case, even if no chunk was ever asked for."""

    media_type = "text/event-stream"

    def __init__(
        self, chunks: AsyncGenerator[bytes, None], close: Callable[[], Awaitable[None]], headers: Mapping[str, str]
    ) -> None:
        super().__init__(headers={"cache-control": "no-store", "x-accel-buffering": "no", **headers})
        del self.headers["content-length"]
        self.chunks = chunks
        self.close = close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 (ASGI's signature)
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            await unless_gone(receive, self._pump(send))
        finally:
            await self.chunks.aclose()
            await self.close()

    async def _pump(self, send: Send) -> None:
        async for chunk in self.chunks:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
