"""Downloads and uploads requested by clients: a few at a time, others wait, in bounded number.

Belongs to one event loop; the work is done on threads. Knows nothing of HTTP.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

from localllm.planning.memory_fit import measure
from localllm.settings.config import Settings
from localllm.system.worker_threads import Threads
from localllm.types.states import AvailableModel, PullState, PushState

T = TypeVar("T")


class Pulls:
    """For one process."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._threads = Threads(
            "pull",
            settings.max_pulls,
            max_waiting=settings.max_waiting_pulls,
            full=": no more downloads are taken (--max-pulls, --max-waiting-pulls); try again when one has ended",
        )

    async def pull(self, name: str, on_state: Callable[[PullState], None]) -> AvailableModel:
        """See `Runtime.pull`."""
        loop, cancel = asyncio.get_running_loop(), threading.Event()

        def report(state: PullState) -> None:
            loop.call_soon_threadsafe(on_state, state)

        def work() -> AvailableModel:
            from localllm.registry.pull import Puller  # on that thread: it takes a fifth of a second the first time

            measured = measure(self._settings.load_options())
            with Puller(self._settings, named_by_user=False, measure=measured) as puller:
                return puller.pull(name, on_state=report, cancel=cancel)

        self._threads.check_room()
        if self._threads.is_busy:
            on_state(PullState(phase="queued", id=name))
        return await self._finish(work, cancel)

    async def push(self, id: str, on_state: Callable[[PushState], None]) -> str:
        """Send a model of this machine to the registry in its name; returns the name by which it is pulled.

        `on_state` is called on the event loop. Raises `ModelNotFound`, `InvalidParameter`, `UnsupportedParameter`,
        `PullFailed`s, `QueueFull`.
        """
        loop, cancel = asyncio.get_running_loop(), threading.Event()

        def report(state: PushState) -> None:
            loop.call_soon_threadsafe(on_state, state)

        def work() -> str:
            from localllm.registry.push import push

            return push(id, None, self._settings, on_state=report, cancel=cancel, named_by_user=False)

        self._threads.check_room()
        return await self._finish(work, cancel)

    async def _finish(self, work: Callable[[], T], cancel: threading.Event) -> T:
        running = asyncio.ensure_future(self._threads.run(work))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            cancel.set()
            running.cancel()  # its thread keeps its place until it has noticed
            raise
