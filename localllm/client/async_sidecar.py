"""`Sidecar` for asyncio. Knows no HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Self, Unpack

from localllm.client.ready import Line
from localllm.client.server_process import START, ServerProcess, StartArguments, check_timeout
from localllm.client.sidecar import ServerOwner


class AsyncSidecar(ServerOwner):
    """A server process: `async with await AsyncSidecar.start(["demo"]) as sidecar`. See `Sidecar`.

    Callbacks run on the event loop that started it.
    """

    @classmethod
    @START.spell_out
    async def start(cls, args: Sequence[str], **given: Unpack[StartArguments]) -> Self:
        """Start a server and wait until it answers. Cancelling ends the process. Raises as `Sidecar.start`."""
        asked = START.filled("start", given)
        timeout, on_progress = asked["timeout"], asked["on_progress"]
        check_timeout(timeout)
        loop, lines = asyncio.get_running_loop(), asyncio.Queue[Line | None]()

        def deliver(callback: Callable[..., object], *news: object) -> None:
            try:
                loop.call_soon_threadsafe(callback, *news)
            except RuntimeError:
                pass  # the loop is closed, so nothing waits for this

        server = ServerProcess(args, asked, lines.put_nowait, deliver)
        sidecar = cls(server)
        server.start()
        limit = asyncio.timeout(timeout)
        try:
            async with limit:
                while sidecar._ready is None:
                    sidecar._take(await lines.get(), on_progress)
            return sidecar
        except BaseException as error:
            server.hang_up()  # first: a second cancellation may interrupt what follows
            await sidecar.close()
            if timeout is not None and isinstance(error, TimeoutError) and limit.expired():
                raise server.too_late(timeout) from None
            raise

    async def close(self) -> None:
        """Stop it gracefully, then by force, and wait for its exit. Idempotent."""
        await asyncio.to_thread(self._server.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
