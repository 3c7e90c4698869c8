"""The server's endpoints for the lines of one batch, in the process of the command that reads them: no socket, no HTTP.

So a line costs what its endpoint does, and has the fields, errors and reply that it would have over HTTP. Knows nothing
of files.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Self

from starlette.types import ASGIApp

from localllm.batches.lines import BatchLine
from localllm.batches.results import Reply
from localllm.runtime.runtime import Runtime
from localllm.server.apis.batches.sending import send
from localllm.server.app import build_app
from localllm.server.edge.callers import ANYBODY
from localllm.server.loading import load_all
from localllm.server.state import ServerState
from localllm.settings.config import Settings


class LineServer:
    """An async context manager: entering loads a model and raises what loading raises; leaving ends its process."""

    def __init__(self, settings: Settings, model: str, on_progress: Callable[[float], None]) -> None:
        """`on_progress` is called on the event loop."""
        self.model = model
        """The id of the model, once it is loaded."""
        self.slots = 0
        self._settings = settings
        self._on_progress = on_progress
        self._state: ServerState | None = None
        self._app: ASGIApp | None = None

    async def __aenter__(self) -> Self:
        settings = self._settings
        runtime = Runtime(settings)
        loading = asyncio.create_task(load_all(runtime, [self.model], settings, self._on_progress))
        try:
            # In a thread, so that loading continues.
            state = await asyncio.to_thread(partial(ServerState, runtime, settings, starts_one=True))
            _, self._app = await asyncio.to_thread(build_app, state)
            self.model = await loading or self.model
        except BaseException:
            loading.cancel()
            await asyncio.gather(loading, return_exceptions=True)
            await runtime.aclose()
            raise
        state.first = state.only = self.model
        loaded = state.loaded(self.model)
        self.slots = 0 if loaded is None else loaded.slots
        self._state = state
        return self

    async def __aexit__(self, *_: object) -> None:
        state, self._state = self._state, None
        assert state is not None
        await state.drain()
        await state.runtime.aclose()
        await state.close()

    async def send(self, line: BatchLine) -> Reply:
        """The reply to a line."""
        assert self._app is not None
        return await send(self._app, ANYBODY, line)
