"""Where one request's answer waits for its reader. A slow reader costs one merged delta, never a queue.

Lives on one event loop. Knows nothing of workers.
"""

from __future__ import annotations

import asyncio

from localllm.errors import LocalLLMError
from localllm.types import Beginning, CacheReport, Delta, Finish, Making, Timings, Usage, joined

CANCELLED = Finish("cancelled", Usage(0, 0), Timings(0.0, 0.0, 0.0))
"""Ends an answer that was cancelled here, without waiting for the worker to confirm."""


class Mailbox:
    """`accepted` resolves to the number of prompt tokens, or to the rejection; then `get` returns the deltas."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.accepted: asyncio.Future[int] = loop.create_future()
        # Avoids "exception was never retrieved" if it is rejected before it is awaited.
        self.accepted.add_done_callback(lambda accepted: accepted.cancelled() or accepted.exception())
        self.notes: tuple[str, ...] = ()
        """How its messages were changed for the model's template. Set when accepted."""
        self.beginning: Beginning = "text"
        """Where the answer begins. Set when accepted."""
        self.cache: CacheReport | None = None
        """Set when accepted, if the request asked for it."""
        self.making: Making | None = None
        """Set when accepted, if the request asked for it."""
        self._news = asyncio.Event()
        self._delta: Delta | None = None
        self._error: LocalLLMError | None = None

    def accept(
        self,
        num_prompt_tokens: int,
        notes: tuple[str, ...] = (),
        beginning: Beginning = "text",
        cache: CacheReport | None = None,
        making: Making | None = None,
    ) -> None:
        if not self.accepted.done():
            self.notes, self.beginning, self.cache, self.making = notes, beginning, cache, making
            self.accepted.set_result(num_prompt_tokens)

    def put(self, delta: Delta) -> None:
        """Add to the waiting delta: texts and log-probabilities are joined, token counts summed."""
        self._delta = delta if self._delta is None else joined((self._delta, delta))
        self._news.set()

    def fail(self, error: LocalLLMError) -> None:
        """End the answer; what is already waiting is delivered before the error."""
        self._error = error
        self._news.set()
        if not self.accepted.done():
            self.accepted.set_exception(error)
            self.accepted.exception()  # a caller that only reads gets it from `get`

    def cancel(self) -> None:
        """End the answer with `CANCELLED` after what is waiting, unless it has ended."""
        if self._error is None and (self._delta is None or self._delta.finish is None):
            self.put(Delta(finish=CANCELLED))

    async def get(self) -> Delta:
        """The next delta; raises the error that ended the answer."""
        await self._news.wait()
        if self._delta is not None:
            delta, self._delta = self._delta, None
            if self._error is None:
                self._news.clear()
            return delta
        assert self._error is not None
        raise self._error
