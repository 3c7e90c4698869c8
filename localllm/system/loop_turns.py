"""What is looked at once in a turn of the event loop, such as a file that may have changed, as a request often asks."""

from __future__ import annotations

import asyncio


class LoopTurn:
    """Remembers that something was done in this turn. Without a running loop, it always has to be done."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        """The loop in whose turn it was done."""

    def is_new(self) -> bool:
        """Whether this is the first call in this turn of the running loop."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return True
        if self._loop is loop:
            return False
        self._loop = loop
        loop.call_soon(self._end)
        return True

    def _end(self) -> None:
        self._loop = None
