"""The answers to the parts of a sound: several at a time, and their texts in the order of the parts.

    parts     [0.......)[1....)[2.........)[3.....)          `width` of them run; a text is passed on when all
    answers    done      runs   runs        waits            before it is whole

Knows no API's format.
"""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from localllm.runtime.runtime import Answer
from localllm.types import Delta, Finish, GenerationRequest

Ask = Callable[[GenerationRequest], Awaitable[Answer]]
MAX_HEAD = 100
"""Characters within which a transcript begins that may stand behind other text."""


async def in_order(
    first: Answer, others: Sequence[GenerationRequest], ask: Ask, *, width: int
) -> AsyncGenerator[tuple[int, Delta], None]:
    """The deltas of all answers with the index of their part, in the order of the parts; `width` run at a time.

    `first`: the answer to the first part, which has begun. Closes all answers, whenever it is closed. Raises what ended
    one early.
    """
    places = asyncio.Semaphore(width)
    queues = [asyncio.Queue[Delta | None]() for _ in range(len(others) + 1)]

    async def run(index: int) -> None:
        async with places:
            answer = await ask(others[index - 1]) if index else first
            try:
                async for delta in answer:
                    queues[index].put_nowait(delta)
            finally:
                await answer.aclose()

    tasks = [asyncio.ensure_future(run(index)) for index in range(len(queues))]
    for task, queue in zip(tasks, queues, strict=True):
        task.add_done_callback(partial(_end, queue))
    try:
        for index, (task, queue) in enumerate(zip(tasks, queues, strict=True)):
            while (delta := await queue.get()) is not None:
                yield index, delta
            await task
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _end(queue: asyncio.Queue[Delta | None], _: asyncio.Task[None]) -> None:
    queue.put_nowait(None)


@dataclass
class Segment:
    """A part, and its text so far."""

    start_s: float
    end_s: float
    written: str = ""
    finish: Finish | None = None


@dataclass
class Transcript:
    """The texts of all parts."""

    duration_s: float
    segments: list[Segment] = field(default_factory=list)
    begins_after: str = ""
    """What may stand before a part's text, up to here."""

    def feed(self, index: int, delta: Delta) -> str:
        """What the whole text grows by; parts come in order."""
        segment = self.segments[index]
        before = self.text
        segment.written += delta.text
        segment.finish = delta.finish or segment.finish
        return self.text[len(before) :]

    def text_of(self, segment: Segment) -> str:
        """Without spaces around it, and what stands before it."""
        if self.begins_after:
            head, marker, behind = segment.written.partition(self.begins_after)
            if not marker and segment.finish is None and len(head) < MAX_HEAD:
                return ""
            return (behind if marker else head).strip()
        return segment.written.strip()

    @property
    def text(self) -> str:
        """The texts of all parts, with a space between them where their script has spaces."""
        whole = ""
        for segment in self.segments:
            text = self.text_of(segment)
            whole += f" {text}" if whole and text and not (_is_wide(whole[-1]) or _is_wide(text[0])) else text
        return whole


def _is_wide(character: str) -> bool:
    """Whether it belongs to a script without spaces, as Chinese and Japanese."""
    return unicodedata.east_asian_width(character) in "WF"
