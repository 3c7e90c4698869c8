"""The order in which lines are sent: within a window of the file, those that begin alike follow each other.

So an instruction that many share is computed once and then found in the cache, whatever the order of the file. Knows
nothing of files or answers.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any

from localllm.batches.lines import BatchLine

InThread = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs a function that blocks, and returns what it returns."""

WINDOW_LINES = 1024
WINDOW_BYTES = 32 * 1024 * 1024
"""Of bodies in memory, and at least one line."""


def by_common_prefix(lines: Iterable[BatchLine]) -> Iterator[BatchLine]:
    """The lines of each window, sorted: equal beginnings of bodies are the longest common prefixes of prompts."""
    for window in windows(lines):
        yield from window


def windows(lines: Iterable[BatchLine]) -> Iterator[list[BatchLine]]:
    """Each window, sorted."""
    window: list[BatchLine] = []
    size = 0
    for line in lines:
        window.append(line)
        size += len(line.body)
        if len(window) == WINDOW_LINES or size >= WINDOW_BYTES:
            yield sorted(window, key=_order)
            window, size = [], 0
    if window:
        yield sorted(window, key=_order)


class Ahead:
    """Takes lines from windows that a thread reads, so that reading and sorting delay no stream of the event loop."""

    def __init__(self, lines: Iterable[BatchLine], in_thread: InThread) -> None:
        self._windows = windows(lines)
        self._in_thread = in_thread
        self._window: deque[BatchLine] = deque()
        self._reading = asyncio.Lock()

    async def take(self) -> BatchLine | None:
        """The next line; None at the end."""
        async with self._reading:
            return self._window.popleft() if await self._is_filled() else None

    async def first(self) -> BatchLine | None:
        """The same, and leaves it there."""
        async with self._reading:
            return self._window[0] if await self._is_filled() else None

    async def _is_filled(self) -> bool:
        if not self._window:
            self._window.extend(await self._in_thread(self._next))
        return bool(self._window)

    def _next(self) -> list[BatchLine]:
        return next(self._windows, [])


def _order(line: BatchLine) -> tuple[str, bytes, int]:
    return line.url, line.body, line.number
