"""Many prompts in, answers out in the same order: so many under way at a time, the next one taken as one is read.

    prompts   [read by the caller | answered or under way, at most `window` | not taken yet)

So an iterator of any length takes bounded memory, and a slow reader slows it down. Knows nothing of models.
"""

from __future__ import annotations

import asyncio
import functools
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Coroutine, Generator, Iterable
from typing import Any, Literal, Protocol, cast

from localllm.errors import InvalidParameter, LocalLLMError
from localllm.llm import arguments, keywords
from localllm.llm.messages import Messages
from localllm.llm.schemas import to_shape
from localllm.types import Chat, GenerationRequest

Prompt = str | Messages
Prompts = Iterable[Prompt] | AsyncIterable[Prompt]
Errors = Literal["raise", "return"]
Ask = Callable[..., Coroutine[Any, Any, Any]]
LEAST_WINDOW = 16
WINDOW_PER_SLOT = 4
"""Answers are read in order: those behind a long one are ready before it, while slots must not wait."""


class Job(Protocol):
    """Work on another thread."""

    def result(self) -> Any:
        """Waits for it."""

    def cancel(self) -> None:
        """Its result is not wanted."""


def check(prompts: object, errors: str, concurrency: int | None) -> None:
    """Raises `InvalidParameter`."""
    if isinstance(prompts, str | bytes) or not isinstance(prompts, Iterable | AsyncIterable):
        raise InvalidParameter("prompts must be a list or an iterator of texts or conversations", param="prompts")
    if errors not in ("raise", "return"):
        raise InvalidParameter(f"errors must be raise or return, got {errors!r}", param="errors")
    if concurrency is not None and (isinstance(concurrency, bool) or not isinstance(concurrency, int)):
        raise InvalidParameter("concurrency must be an integer", param="concurrency")
    if concurrency is not None and concurrency < 1:
        raise InvalidParameter(f"concurrency must be at least 1, got {concurrency}", param="concurrency")


def window_of(slots: int, concurrency: int | None) -> int:
    """How many may be taken and not read yet."""
    return concurrency or max(LEAST_WINDOW, WINDOW_PER_SLOT * slots)


async def in_order(prompts: Prompts, ask: Ask, window: int, errors: Errors) -> AsyncGenerator[Any, None]:
    """The answers on the event loop. Closing it cancels what is under way."""
    items = _each(prompts)
    tasks: deque[asyncio.Task[Chat | LocalLLMError]] = deque()
    try:
        async for item in items:
            tasks.append(asyncio.ensure_future(_answered(ask, item, errors)))
            if len(tasks) >= window:
                yield await tasks[0]
                tasks.popleft()
        while tasks:
            yield await tasks[0]
            tasks.popleft()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await items.aclose()


def in_order_blocking(
    prompts: Iterable[Prompt], ask: Ask, begin: Callable[[Coroutine[Any, Any, Any]], Job], window: int, errors: Errors
) -> Generator[Any, None, None]:
    """The same for a blocking caller, on whose thread the prompts are taken. `begin`: starts work elsewhere."""
    jobs: deque[Job] = deque()
    try:
        for item in prompts:
            jobs.append(begin(_answered(ask, item, errors)))
            if len(jobs) >= window:
                yield jobs[0].result()
                jobs.popleft()
        while jobs:
            yield jobs[0].result()
            jobs.popleft()
    finally:
        for job in jobs:
            job.cancel()


async def _answered(ask: Ask, prompt: Prompt, errors: Errors) -> Chat | LocalLLMError:
    try:
        answer: Chat = await ask(prompt)
        return answer
    except LocalLLMError as error:
        if errors == "raise":
            raise
        return error


async def _each(prompts: Prompts) -> AsyncGenerator[Prompt, None]:
    if isinstance(prompts, AsyncIterable):
        async for item in prompts:
            yield item
        return
    for item in prompts:
        yield item


def asker(ask: Ask, schema: object, given: dict[str, Any]) -> Ask:
    """Asks for one prompt: a text is continued verbatim, a conversation is answered. Of the batch class, unless
    `given` says something else. Arguments, which all prompts share, are checked with the first.

    ask: takes a request, its shape and the arguments. Raises `InvalidParameter` for a wrong schema.
    """
    shape, asked = to_shape(schema), {"batch": True, **given}

    @functools.cache
    def of_texts() -> tuple[GenerationRequest, Any]:
        filled = keywords.COMPLETE.filled("generate", cast("Any", asked))
        return arguments.completion_base(shape, filled), filled

    @functools.cache
    def of_chats() -> tuple[GenerationRequest, Any]:
        filled = keywords.CHAT.filled("generate", cast("Any", asked))
        return arguments.chat_base(shape, filled), filled

    def one(prompt: Prompt) -> Coroutine[Any, Any, Chat]:
        if isinstance(prompt, str):
            base, filled = of_texts()
            return ask(arguments.continuing(base, prompt), shape, filled, stream=False)
        base, filled = of_chats()
        return ask(arguments.answering(base, prompt), shape, filled, stream=False)

    return one
