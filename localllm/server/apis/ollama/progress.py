"""Long operations that report progress in lines. Knows nothing of the operations."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from localllm.server.apis.ollama.lines import LineStream
from localllm.server.apis.ollama.replies import ProgressLine
from localllm.server.common.body import json_response
from localllm.server.edge import sse
from localllm.server.state import ServerState
from localllm.types.states import PullState, PushState

Report = Callable[[ProgressLine], None]
SUCCESS = ProgressLine(status="success")


def transferring(state: PullState | PushState, line: ProgressLine) -> ProgressLine:
    """`line`, or one that names the host that the transfer is waiting for."""
    return line if state.waiting_for is None else ProgressLine(status=f"waiting for {state.waiting_for}")


class Progress:
    """An operation, started immediately; `close` cancels it."""

    def __init__(self, work: Callable[[Report], Coroutine[Any, Any, None]]) -> None:
        self._waiting: deque[ProgressLine] = deque()
        self._news = asyncio.Event()
        self.task = asyncio.ensure_future(work(self._report))
        self.task.add_done_callback(lambda _: self._news.set())

    async def begun(self) -> None:
        """Waits for the first report. Raises an error that came before it."""
        await self._news.wait()
        if self.task.done() and not self._waiting:
            self.task.result()

    async def lines(self) -> AsyncGenerator[ProgressLine, None]:
        """The progress lines; the last one is `success`. Raises the operation's error."""
        while self._waiting or not self.task.done():
            await self._news.wait()
            self._news.clear()
            while self._waiting:
                yield self._waiting.popleft()
        await self.task
        yield SUCCESS

    async def close(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    def _report(self, line: ProgressLine) -> None:
        if self.task.done():  # nothing may follow the last line
            return
        if self._waiting and self._waiting[-1].status == line.status:  # a slow reader needs no history
            self._waiting.pop()
        self._waiting.append(line)
        self._news.set()


async def respond(
    request: Request, state: ServerState, progress: Progress, headers: dict[str, str], *, stream: bool
) -> Response:
    """The operation's lines, or only the last. An error before the first line gets a status."""
    try:
        await sse.unless_gone(request.receive, progress.begun() if stream else _ended(progress))
    except BaseException:
        await progress.close()
        raise
    if stream:
        return LineStream(state, progress.lines(), progress.close, headers)
    return json_response(SUCCESS, headers)


async def _ended(progress: Progress) -> None:
    await asyncio.wait({progress.task})
    progress.task.result()
