"""Long operations that report progress, such as pulls and loads. Knows nothing of the operations or of formats."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any, Generic, Protocol, TypeVar

from starlette.types import Receive

from localllm.server.edge import sse


class Event(Protocol):
    """A report."""

    @property
    def status(self) -> str:
        """Of consecutive reports with the same status, a slow reader needs only the last."""


EventT = TypeVar("EventT", bound=Event)


class Progress(Generic[EventT]):
    """An operation, started immediately; `close` cancels it. Its result is the last event."""

    def __init__(self, work: Callable[[Callable[[EventT], None]], Coroutine[Any, Any, EventT]]) -> None:
        """`work` gets a function that takes its reports."""
        self._waiting: deque[EventT] = deque()
        self._news = asyncio.Event()
        self._task = asyncio.ensure_future(work(self._report))
        self._task.add_done_callback(lambda _: self._news.set())

    async def begun(self, receive: Receive) -> None:
        """Waits for the first report. Raises an error that came before it, and `ClientGone`."""
        await self._unless_gone(receive, self._news.wait())
        if self._task.done() and not self._waiting:
            await self._task

    async def ended(self, receive: Receive) -> EventT:
        """The result. Raises the operation's error, and `ClientGone`."""
        await self._unless_gone(receive, asyncio.wait({self._task}))
        return await self._task

    async def events(self) -> AsyncGenerator[EventT, None]:
        """The reports, then the result. Raises the operation's error."""
        while self._waiting or not self._task.done():
            await self._news.wait()
            self._news.clear()
            while self._waiting:
                yield self._waiting.popleft()
        yield await self._task

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _unless_gone(self, receive: Receive, work: Coroutine[Any, Any, object]) -> None:
        try:
            await sse.unless_gone(receive, work)
        except BaseException:
            await self.close()
            raise

    def _report(self, event: EventT) -> None:
        if self._task.done():  # nothing may follow the last event
            return
        if self._waiting and self._waiting[-1].status == event.status:
            self._waiting.pop()
        self._waiting.append(event)
        self._news.set()
