"""`Sidecar` for asyncio. Knows no HTTP."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Self

from localllm.client.ready import Line, Progress, Ready
from localllm.client.server_process import OnExit, ServerProcess, SidecarExit, check_timeout


class AsyncSidecar:
    """A server process: `async with await AsyncSidecar.start(["demo"]) as sidecar`. See `Sidecar`.

    Callbacks run on the event loop that started it.
    """

    def __init__(self, server: ServerProcess) -> None:
        self._server = server
        self._ready: Ready | None = None
        weakref.finalize(self, server.hang_up)

    @classmethod
    async def start(
        cls,
        args: Sequence[str],
        *,
        command: Sequence[str] | None = None,
        stderr: IO[bytes] | None = None,
        home: str | Path | None = None,
        port: int = 0,
        on_progress: Callable[[float], None] | None = None,
        on_exit: OnExit | None = None,
        timeout: float | None = None,  # noqa: ASYNC109  the error has the end of the server's log
    ) -> Self:
        """Start a server and wait until it answers. Cancelling ends the process. Raises as `Sidecar.start`."""
        check_timeout(timeout)
        loop, lines = asyncio.get_running_loop(), asyncio.Queue[Line | None]()

        def report_exit(exit: SidecarExit) -> None:
            assert on_exit is not None
            _post(loop, on_exit, exit)

        server = ServerProcess(
            args,
            command=command,
            stderr=stderr,
            home=home,
            port=port,
            on_line=lambda line: _post(loop, lines.put_nowait, line),
            on_exit=on_exit and report_exit,
        )
        sidecar = cls(server)
        server.start()
        limit = asyncio.timeout(timeout)
        try:
            async with limit:
                sidecar._ready = await _ready(server, lines, on_progress)
            return sidecar
        except BaseException as error:
            server.hang_up()  # first: a second cancellation may interrupt what follows
            await asyncio.to_thread(server.close)
            if timeout is not None and isinstance(error, TimeoutError) and limit.expired():
                raise server.too_late(timeout) from None
            raise

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._server.alive

    @property
    def stderr(self) -> str:
        """The end of its log, up to 8 KiB."""
        return self._server.stderr

    @property
    def ready(self) -> Ready:
        """Its address and token."""
        assert self._ready is not None
        return self._ready

    @property
    def url(self) -> str:
        return self.ready.url

    @property
    def token(self) -> str:
        return self.ready.token

    async def close(self) -> None:
        """Stop it gracefully, then by force, and wait for its exit. Idempotent."""
        await asyncio.to_thread(self._server.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


async def _ready(
    server: ServerProcess, lines: asyncio.Queue[Line | None], on_progress: Callable[[float], None] | None
) -> Ready:
    while True:
        line = await lines.get()
        if isinstance(line, Progress):
            if on_progress is not None:
                on_progress(line.loading)
        elif (ready := server.outcome(line)) is not None:
            return ready


def _post(loop: asyncio.AbstractEventLoop, callback: Callable[..., object], *args: object) -> None:
    try:
        loop.call_soon_threadsafe(callback, *args)
    except RuntimeError:
        pass  # the loop is closed, so nothing waits for this
