"""An answer on its way, as every face of the runtime reads it. Knows nothing of models and workers."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec

from localllm.supervisor.mailbox import CANCELLED
from localllm.supervisor.pending import Pending
from localllm.types import Delta, Usage


class Answer(AsyncIterator[Delta]):
    """An accepted request: iterate for its deltas; the last has `finish`. `cancel()`, `aclose()`, `async with`, or
    letting go of it, cancels what has not been made yet.

    Raises, while iterating, `WorkerCrashed` and every other error that ends an answer early.
    """

    notes: tuple[str, ...] = ()
    """How messages were changed for the model's template, since it does not take them as they are."""

    def __init__(self, pending: Pending, num_prompt_tokens: int) -> None:
        self.notes = pending.mailbox.notes
        self.num_prompt_tokens = num_prompt_tokens
        self._pending = pending
        self._num_tokens = 0
        self._finished = False

    async def __anext__(self) -> Delta:
        if self._finished:
            raise StopAsyncIteration
        delta = await self._pending.mailbox.get()
        self._num_tokens += delta.num_tokens
        self._finished = delta.finish is not None
        if delta.finish is CANCELLED:
            usage = Usage(self.num_prompt_tokens, self._num_tokens)
            delta = msgspec.structs.replace(delta, finish=msgspec.structs.replace(CANCELLED, usage=usage))
        return delta

    def cancel(self) -> None:
        """End it if it still runs; frees the slot by the next step. Idempotent.

        Who iterates gets what has come, and a finish that says `cancelled` and counts what was read. On the event loop.
        """
        if not self._finished:
            self._pending.cancel()
            self._pending.mailbox.cancel()

    async def aclose(self) -> None:
        """`cancel`, and no more deltas for who begins to ask now."""
        self.cancel()
        self._finished = True

    def __del__(self) -> None:
        if not self._finished:
            self._pending.abandon()

    async def __aenter__(self) -> Answer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
