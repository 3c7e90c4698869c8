"""Runs answers through an API's stories: streaming their events, or to the end for a complete reply.

Knows no API's events.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from typing import Protocol, TypeVar

from localllm.runtime.runtime import Answer
from localllm.server.answers.choices import merged
from localllm.server.requests.body import field_notes
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
    stories: Sequence[Story[EventT]], answering: Awaitable[list[Answer]], *, says_miss: bool
) -> AsyncGenerator[EventT, None]:
    """All events of answers that may not have begun yet, as they arrive. Raises what ends one early.

    None before the engine has said something of one of them, so that what fails before that can have a status.
    """
    answers = await answering
    for story, answer in zip(stories, answers, strict=True):
        story.warn(field_notes(answer.notes))
    has_begun = False
    async with aclosing(merged(answers)) as deltas:
        async for index, delta in deltas:
            if not has_begun:
                has_begun = True
                for story, answer in zip(stories, answers, strict=True):
                    for event in story.begin(answer.num_prompt_tokens):
                        yield event
            for event in stories[index].feed(delta):
                yield event
            if delta.finish is not None:
                for event in stories[index].end(delta.finish, answers[index].cache_miss if says_miss else None):
                    yield event


async def encoded(
    events: AsyncGenerator[EventT, None], encode: Callable[[EventT], bytes]
) -> AsyncGenerator[bytes, None]:
    """The events as bytes."""
    async with aclosing(events):
        async for event in events:
            yield encode(event)


async def drained(events: AsyncGenerator[EventT, None]) -> None:
    """Discards the events up to the end. Raises what ends the answer early."""
    async with aclosing(events):
        async for _ in events:
            pass
