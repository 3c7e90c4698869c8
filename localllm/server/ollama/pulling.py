"""`/api/pull`: what a pull here reports, in the lines of Ollama's."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Callable

from localllm.errors import LocalLLMError, ModelNotFound
from localllm.server.ollama import replies as out
from localllm.server.ollama.names import found, in_registry, ours, parse
from localllm.server.state import ServerState
from localllm.states import PullState

DEMO = "demo"
_ENDING = ("verifying sha256 digest", "writing manifest", "success")


class Pulling:
    """One pull; `close` cancels it, and it goes on from there the next time."""

    def __init__(self, state: ServerState, asked: str) -> None:
        self._asked = asked
        self._news: asyncio.Queue[PullState | None] = asyncio.Queue()
        self.task = asyncio.ensure_future(_pulled(state, asked, self._tell))
        self.task.add_done_callback(lambda _: self._news.put_nowait(None))

    async def lines(self) -> AsyncGenerator[out.PullLine, None]:
        """Raises what ends it."""
        yield out.PullLine(status="pulling manifest")
        while (state := await self._news.get()) is not None:
            if state.phase == "downloading":
                yield _downloading(self._asked, state)
        await self.task
        for status in _ENDING:
            yield out.PullLine(status=status)

    async def close(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    def _tell(self, state: PullState) -> None:
        if self.task.done():  # then the last of the news is its end
            return
        while not self._news.empty():  # of progress only the latest: a slow reader wants no history
            self._news.get_nowait()
        self._news.put_nowait(state)


async def _pulled(state: ServerState, asked: str, tell: Callable[[PullState], None]) -> None:
    """A short name is one of ours, else of Ollama's library."""
    if found(asked, [DEMO]):  # a part of this installation
        return
    wanted, name = ours(asked), parse(asked)
    try:
        await state.runtime.pull(wanted, tell)
        return
    except ModelNotFound:
        if name is None or not name.is_short:
            raise
    try:
        await state.runtime.pull(in_registry(asked), tell)
    except ModelNotFound as error:
        raise _no_manifest() from error


def _no_manifest() -> LocalLLMError:
    """In Ollama's words."""
    return ModelNotFound("pull model manifest: file does not exist", param="model")


def _downloading(asked: str, state: PullState) -> out.PullLine:
    digest = hashlib.sha256(asked.encode("utf-8", "replace")).hexdigest()
    total = state.total_bytes
    return out.PullLine(
        status=f"pulling {digest[:12]}",
        digest=f"sha256:{digest}",
        **({} if total is None else {"total": total, "completed": min(state.done_bytes, total)}),
    )
