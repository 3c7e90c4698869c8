"""An answer in progress, as every face of the runtime reads it: reasoning, text and calls separated.

Knows nothing of models and workers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import accumulate
from typing import NamedTuple

from msgspec.structs import replace

from localllm.chat.formats.reader import reader_of
from localllm.chat.formats.reading import NewParts, Reader
from localllm.supervisor.mailbox import CANCELLED
from localllm.supervisor.pending import Pending
from localllm.types import Beginning, ChatFormat, Delta, GenerationRequest, Making, Usage
from localllm.types.usage import with_documents


class Routed(NamedTuple):
    """Which model of a route answers, and why."""

    route: str
    model: str
    reason: str
    """`first`, `split`, or why those before it did not: `queue_full`, `too_long`, `load_failed`, `wait`."""


class Answer(AsyncIterator[Delta]):
    """An accepted request: iterate for its deltas; the last has `finish`. `cancel()`, `aclose()`, leaving `async with`,
    or dropping the last reference cancels the rest.

    Raises, while iterating, `WorkerCrashed` and every other error that ends an answer early.
    """

    notes: tuple[str, ...] = ()
    """What was left out of the messages, and how they were changed because the model's template does not accept them as
    they are."""
    cache_miss: str | None = None
    """Why its prompt was not in the cache, or empty; set at the end, if the request asked for it."""
    making: Making | None = None
    """What it is made from, if the request asked for it."""
    routed: Routed | None = None
    """Set if a route was asked."""

    def __init__(
        self, pending: Pending, num_prompt_tokens: int, reading: Reading | None = None, notes: tuple[str, ...] = ()
    ) -> None:
        """`reading`: how to read its text; None: all of it is text. `notes`: the request's."""
        self.notes, self.making = notes + pending.mailbox.notes, pending.mailbox.making
        self.num_prompt_tokens = num_prompt_tokens
        self._pending = pending
        self._reading = reading
        self._num_tokens = 0
        self._finished = False

    async def __anext__(self) -> Delta:
        if self._finished:
            raise StopAsyncIteration
        delta = await self._pending.mailbox.get()
        self._num_tokens += delta.num_tokens
        self._finished = delta.finish is not None
        report = self._pending.mailbox.cache
        if delta.finish is not None and report is not None:
            self.cache_miss = report.miss(delta.finish.usage.cached_tokens)
        if delta.finish is CANCELLED:
            usage = Usage(self.num_prompt_tokens, self._num_tokens)
            delta = replace(delta, finish=replace(CANCELLED, usage=usage))
        if delta.finish is not None and (taken := self._pending.request.documents):
            delta = replace(delta, finish=replace(delta.finish, usage=with_documents(delta.finish.usage, taken)))
        return delta if self._reading is None else self._reading.read(delta)

    async def begun(self) -> None:
        """Waits until there is something of it, or it has ended."""
        await self._pending.begun.wait()

    def cancel(self) -> None:
        """End it if it still runs; frees the slot by the next step. Idempotent. Call on the event loop.

        A reader gets what has arrived, then the finish `cancelled`, which counts what was read.
        """
        if not self._finished:
            self._pending.cancel()
            self._pending.mailbox.cancel()

    async def aclose(self) -> None:
        """`cancel`, and no more deltas for later reads."""
        self.cancel()
        self._finished = True

    def __del__(self) -> None:
        if not self._finished:
            self._pending.abandon()

    async def __aenter__(self) -> Answer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def reading_for(request: GenerationRequest, format: ChatFormat, beginning: Beginning) -> Reading | None:
    """How to read an answer of a model with this format; None: all of it is text."""
    if request.messages is None:
        return None
    format, calling = format.for_answer(request.rendering), request.calling
    functions = () if calling is None or calling.choice == "none" else calling.functions
    reads_calls = format.calls is not None and bool(functions)
    may_think = beginning != "text" or request.structure is None
    splits_thoughts = format.thought is not None and request.splits_thoughts and may_think
    if not reads_calls and not splits_thoughts and format.text is None:
        return None
    reader = reader_of(
        format,
        functions,
        in_thought=beginning == "thought",
        splits_thoughts=splits_thoughts,
        reads_calls=reads_calls,
    )
    return Reading(reader, "" if format.thought is None else format.thought.closing)


class Reading:
    """Converts a worker's deltas to deltas with separate parts."""

    def __init__(self, reader: Reader, closing: str) -> None:
        """`closing`: the tag that ends reasoning."""
        self._reader = reader
        self._tokens = _ReasoningTokens(closing.strip())

    def read(self, delta: Delta) -> Delta:
        """The same delta, read; with its finish, the rest of what was held back."""
        was_thinking = self._reader.is_thinking
        read = self._reader.feed(delta.text)
        self._tokens.count(delta, read, was_thinking=was_thinking, is_thinking=self._reader.is_thinking)
        if delta.finish is None:
            return replace(delta, text=read.text, thought=read.thought, calls=read.calls, notes=read.notes)
        rest = self._reader.flush()
        usage = replace(delta.finish.usage, reasoning_tokens=self._tokens.num)
        return replace(
            delta,
            text=read.text + rest.text,
            thought=read.thought + rest.thought,
            calls=read.calls + rest.calls,
            notes=read.notes + rest.notes,
            finish=replace(delta.finish, usage=usage),
        )


class _ReasoningTokens:
    """Counts reasoning tokens, including tags: every token that begins before the end of the reasoning."""

    def __init__(self, closing: str) -> None:
        self.num = 0
        self._closing = closing
        self._before = ""
        """The end of the text so far, as far as it may begin the closing tag."""
        self._num_unknown = 0
        """Tokens that may begin reasoning."""

    def count(self, delta: Delta, read: NewParts, *, was_thinking: bool, is_thinking: bool) -> None:
        if is_thinking or was_thinking or read.thought:
            self.num += self._num_unknown + (delta.num_tokens if is_thinking else self._share(delta, read))
            self._num_unknown = 0
        elif read.text or read.calls:
            self._num_unknown = 0
        else:
            self._num_unknown += delta.num_tokens
        text = self._before + delta.text
        self._before = text[max(0, len(text) - len(self._closing) + 1) :]

    def _share(self, delta: Delta, read: NewParts) -> int:
        if not delta.text:
            return delta.num_tokens
        at = (self._before + delta.text).find(self._closing)
        end = at + len(self._closing) - len(self._before) if at >= 0 else len(delta.text) - len(read.text)
        lengths = delta.token_lengths
        if not lengths:  # merged with text that no token came with
            return round(delta.num_tokens * end / len(delta.text))
        return sum(start < end for start in accumulate(lengths[:-1], initial=0))
