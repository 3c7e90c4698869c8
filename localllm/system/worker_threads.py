"""Threads for blocking work: each kind of work has its own, so that none can use up another's.

asyncio's default executor shares a few among all work: six downloads from a hanging hub would stop everything else that
needs a thread. Knows nothing of the work.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections import deque
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from localllm.errors import QueueFull

P = ParamSpec("P")
T = TypeVar("T")


class Threads:
    """At most `most` pieces of work at a time; the rest waits in order of arrival. Belongs to one event loop.

    Threads are daemons: work that never ends does not keep the process alive.
    """

    def __init__(self, name: str, most: int, *, max_waiting: int | None = None, full: str = "") -> None:
        """`max_waiting`: limit for the rest; None: no limit. `full`: names `max_waiting` and the remedy."""
        self.name = name
        self._most = most
        self._max_waiting = max_waiting
        self._full = full
        self._running = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def is_busy(self) -> bool:
        """Whether new work must wait."""
        return self._running >= self._most

    def check_room(self) -> None:
        """Raises `QueueFull` if `max_waiting` others wait already."""
        if self._max_waiting is not None and self.is_busy and len(self._waiting) >= self._max_waiting:
            raise QueueFull(
                f"{self._running} run and {len(self._waiting)} wait already{self._full}",
                waiting=len(self._waiting),
                limit=self._max_waiting,
            )

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What `work` returns or raises. A cancelled caller stops waiting; running work keeps its thread to its end.

        Raises `QueueFull` if `max_waiting` others wait already.
        """
        await self._enter()
        loop = asyncio.get_running_loop()
        result: asyncio.Future[T] = loop.create_future()
        context = contextvars.copy_context()

        def ended(value: T | None, error: BaseException | None) -> None:
            self._leave()
            if result.cancelled():
                return
            if error is None:
                result.set_result(value)  # type: ignore[arg-type]
            else:
                result.set_exception(error)

        def body() -> None:
            value, failure = None, None
            try:
                value = context.run(work, *args, **kwargs)
            except BaseException as error:  # noqa: BLE001 (raised in the caller)
                failure = error
            with contextlib.suppress(RuntimeError):  # the loop is closed, and no caller is left
                loop.call_soon_threadsafe(ended, value, failure)

        try:
            threading.Thread(target=body, name=self.name, daemon=True).start()
        except RuntimeError:  # no more threads
            self._leave()
            raise
        return await result

    async def _enter(self) -> None:
        if not self.is_busy:
            self._running += 1
            return
        self.check_room()
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.cancelled():
                self._waiting.remove(place)
            else:  # it got its place at the same moment
                self._leave()
            raise

    def _leave(self) -> None:
        """Passes the place on to the caller that has waited longest."""
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                return
        self._running -= 1
