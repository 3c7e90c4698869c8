"""Runs one answer through an API's `Story`: streaming its events, or to the end for a complete reply.

Knows no API's events.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import Protocol, TypeVar

from localllm.errors import InternalError
from localllm.runtime.runtime import Answer
from localllm.server.common.body import field_notes
from localllm.types import Delta, Finish

EventT = TypeVar("EventT")
EventT_co = TypeVar("EventT_co", covariant=True)


class Story(Protocol[EventT_co]):
    """The events of one answer, in order; complete after `end`."""

    def warn(self, warnings: Iterable[str], /) -> None:
        """Warnings about the request."""

    def begin(self, num_prompt_tokens: int, /) -> Iterable[EventT_co]:
        """Events before the first token."""

    def feed(self, delta: Delta, /) -> Iterable[EventT_co]:
        """Events of a delta, without its finish."""

    def end(self, finish: Finish, cache_miss: str | None, /) -> Iterable[EventT_co]:
        """The remaining events. `cache_miss`: why the prompt was not cached, if requested."""


async def events_of(
    story: Story[EventT], answering: asyncio.Future[list[Answer]], *, says_miss: bool
) -> AsyncGenerator[EventT, None]:
    """All events of an answer that may not have begun yet. Raises what ends it early."""
    (answer,) = await answering
    story.warn(field_notes(answer.notes))
    for event in story.begin(answer.num_prompt_tokens):
        yield event
    async for delta in answer:
        for event in story.feed(delta):
            yield event
        if delta.finish is not None:
            for event in story.end(delta.finish, answer.cache_miss if says_miss else None):
                yield event
            return
    raise InternalError("the answer ended without a finish reason")


async def encoded(
    events: AsyncGenerator[EventT, None], encode: Callable[[EventT], bytes]
) -> AsyncGenerator[bytes, None]:
    """The events as bytes."""
    try:
        async for event in events:
            yield encode(event)
    finally:
        await events.aclose()


async def drained(events: AsyncGenerator[EventT, None]) -> None:
    """Discards the events up to the end. Raises what ends the answer early."""
    try:
        async for _ in events:
            pass
    finally:
        await events.aclose()


async def finished(story: Story[EventT], answering: asyncio.Future[list[Answer]], *, says_miss: bool) -> None:
    """The completed story; its events are discarded. Raises what ends the answer early."""
    await drained(events_of(story, answering, says_miss=says_miss))
