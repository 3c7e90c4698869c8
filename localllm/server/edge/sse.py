"""Server-sent events: their bytes, and a response that stops its source when the client goes away.

Knows nothing of models or of any API's event formats.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import aclosing
from typing import Any, TypeVar

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

DONE = b"data: [DONE]\n\n"
COMMENT = b": keep-alive\n\n"
"""A comment, which every client skips."""
KEEP_ALIVE_S = 15.0

T = TypeVar("T")


class ClientGone(Exception):
    """The client closed the connection."""


_LINE_ENDS = (("\u0085".encode(), b"\\u0085"), ("\u2028".encode(), b"\\u2028"), ("\u2029".encode(), b"\\u2029"))
"""Line terminators beyond ASCII's two for clients that split like httpx's `iter_lines`."""


def one_line(payload: bytes) -> bytes:
    """The same JSON with all line terminators escaped."""
    for end, escaped in _LINE_ENDS:
        payload = payload.replace(end, escaped)
    return payload


def data(payload: bytes) -> bytes:
    """One event. `payload` is JSON."""
    return b"data: " + one_line(payload) + b"\n\n"


def typed(event: msgspec.Struct) -> bytes:
    """One event, with a separate line for the type that its tag is."""
    return b"event: " + str(event.__struct_config__.tag).encode() + b"\n" + data(msgspec.json.encode(event))


async def unless_gone(receive: Receive, work: Awaitable[T]) -> T:
    """Await `work`; when the client disconnects first, cancel it, let it clean up and raise `ClientGone`.

    It runs in the caller's task, so that it begins immediately and not after other clients' tokens.
    """
    task = asyncio.current_task()
    assert task is not None
    num_cancels, gone = task.cancelling(), False

    async def watch() -> None:
        nonlocal gone
        await _disconnected(receive)
        gone = True
        task.cancel()

    watcher = asyncio.ensure_future(watch())
    try:
        return await work
    except asyncio.CancelledError:
        if gone and task.uncancel() <= num_cancels:  # otherwise the task was cancelled for another reason
            raise ClientGone from None
        raise
    finally:
        watcher.cancel()  # not awaited: it does nothing more


async def unless_slow(receive: Receive, work: Coroutine[Any, Any, T], patience_s: float) -> asyncio.Future[T]:
    """Start `work` and return its task once it is done, or after `patience_s` (0: no limit) while it is still running.

    Raises an error that occurs before that. The caller ends a task that is still running with `abandon`.
    """
    task = asyncio.ensure_future(work)
    try:
        await unless_gone(receive, asyncio.wait({task}, timeout=patience_s or None))
        if task.done():
            task.result()
    except BaseException:
        await abandon(task)
        raise
    return task


async def abandon(task: asyncio.Future[T]) -> T | None:
    """Cancel unfinished work; returns a finished result, for the caller to close."""
    task.cancel()
    await asyncio.wait({task})
    return None if task.cancelled() or task.exception() is not None else task.result()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


Ended = Callable[[Exception, bool], Iterable[bytes]]
"""What an error of the source makes of a stream that has begun, or not: its last bytes. May raise, above all to give a
stream that has not begun a status."""


def _raised(error: Exception, has_begun: bool) -> Iterable[bytes]:  # noqa: ARG001 (an `Ended`)
    raise error


class EventStream(Response):
    """Sends each chunk (whole events) as it arrives; always awaits `close`, even if no chunk was requested.

    Begins with the first chunk, so that proxies and clients may repeat a request of which nothing has come, or with a
    comment after `keep_alive_s` of silence (0: never): they drop connections that seem dead.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        chunks: AsyncGenerator[bytes, None],
        close: Callable[[], Awaitable[None]],
        headers: Mapping[str, str],
        *,
        keep_alive_s: float = KEEP_ALIVE_S,
        silence: bytes = COMMENT,
        ended: Ended = _raised,
    ) -> None:
        """`silence`: sent instead of the comment. `ended`: called with an error of `chunks`."""
        super().__init__(headers={"cache-control": "no-store", "x-accel-buffering": "no", **headers})
        del self.headers["content-length"]
        self.chunks = chunks
        self.close = close
        self.keep_alive_s = keep_alive_s or math.inf
        self._silence = silence
        self._ended = ended
        self._sent_s = 0.0
        self._has_begun = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 (ASGI's signature)
        try:
            await unless_gone(receive, self._pump(send))
        finally:
            await self.chunks.aclose()
            await self.close()

    async def _pump(self, send: Send) -> None:
        loop = asyncio.get_running_loop()
        self._sent_s = loop.time()
        silence = asyncio.ensure_future(self._fill_silence(send))
        try:
            async with aclosing(self._whole()) as chunks:
                async for chunk in chunks:
                    await self._put(send, chunk)
        finally:
            silence.cancel()
            await asyncio.gather(silence, return_exceptions=True)
        await self._put(send, b"", more_body=False)

    async def _whole(self) -> AsyncGenerator[bytes, None]:
        """The chunks, and what becomes of their error."""
        try:
            async for chunk in self.chunks:
                yield chunk
            return
        except Exception as error:  # noqa: BLE001 (`ended` raises what it does not know)
            failure = error
        for last in self._ended(failure, self._has_begun):
            yield last

    async def _put(self, send: Send, chunk: bytes, *, more_body: bool = True) -> None:
        if not self._has_begun:
            self._has_begun = True
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": chunk, "more_body": more_body})
        self._sent_s = asyncio.get_running_loop().time()

    async def _fill_silence(self, send: Send) -> None:
        """One mostly sleeping task per stream; one per event would cost more than the events."""
        loop = asyncio.get_running_loop()
        while self.keep_alive_s < math.inf:
            silent_s = loop.time() - self._sent_s
            if silent_s < self.keep_alive_s:
                await asyncio.sleep(self.keep_alive_s - silent_s)
                continue
            await self._put(send, self._silence)
