"""The answers to the parts of a sound: several at a time, and their texts in the order of the parts.

    parts     [0.......)[1....)[2.........)[3.....)          `width` of them run; a text is passed on when all
    answers    done      runs   runs        waits            before it is whole

Knows no API's format.
"""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from localllm.errors import Draining
from localllm.runtime.runtime import Answer
from localllm.types import Delta, Finish, GenerationRequest, Timings, Usage
from localllm.types.transcripts import CutShort, Transcript, TranscriptSegment

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
class Part:
    """A part of the sound, and its text so far."""

    start_s: float
    end_s: float
    written: str = ""
    finish: Finish | None = None


@dataclass
class Growing:
    """The transcript of a sound while its parts are being answered."""

    duration_s: float
    parts: list[Part] = field(default_factory=list)
    begins_after: str = ""
    """What may stand before a part's text, up to here."""
    _index: int = 0
    """Of the part that grows."""
    _before: str = ""
    """The text of those before it."""

    def feed(self, index: int, delta: Delta) -> str:
        """What the whole text grows by; parts come in order."""
        if index > self._index:
            self._before, self._index = (
                _joined([self._before, *map(self._text_of, self.parts[self._index : index])]),
                index,
            )
        part = self.parts[index]
        had = self._text_of(part)
        part.written += delta.text
        part.finish = delta.finish or part.finish
        text = self._text_of(part)
        return text[len(had) :] if had or not text else _link(self._before, text) + text

    def segment(self, index: int) -> TranscriptSegment:
        """A part as it is now. Raises `Draining` if it was cancelled by the server: the text is not whole."""
        part = self.parts[index]
        return TranscriptSegment(
            start_s=part.start_s, end_s=part.end_s, text=self._text_of(part), cut_short=_cut_short(part.finish)
        )

    def whole(self) -> Transcript:
        """The transcript, when all parts are answered. Raises as `segment`."""
        segments = tuple(self.segment(index) for index in range(len(self.parts)))
        return Transcript(text=self.text, duration_s=self.duration_s, segments=segments, usage=self._usage())

    @property
    def text(self) -> str:
        """The texts of all parts, with a space between them where their script has spaces."""
        return _joined(map(self._text_of, self.parts))

    @property
    def timings(self) -> Sequence[Timings]:
        """Of the parts that are answered."""
        return [part.finish.timings for part in self.parts if part.finish is not None]

    def _text_of(self, part: Part) -> str:
        """Without spaces around it, and what stands before it."""
        if self.begins_after:
            head, marker, behind = part.written.partition(self.begins_after)
            if not marker and part.finish is None and len(head) < MAX_HEAD:
                return ""
            return (behind if marker else head).strip()
        return part.written.strip()

    def _usage(self) -> Usage:
        all_of = [part.finish.usage for part in self.parts if part.finish is not None]
        return Usage(
            prompt_tokens=sum(each.prompt_tokens for each in all_of),
            completion_tokens=sum(each.completion_tokens for each in all_of),
            cached_tokens=sum(each.cached_tokens for each in all_of),
            audio_tokens=sum(each.audio_tokens for each in all_of),
        )


def _cut_short(finish: Finish | None) -> CutShort | None:
    if finish is None or finish.reason == "stop":
        return None
    if finish.reason == "cancelled":
        raise Draining("the transcript was cancelled by the server")
    return "timeout" if finish.reason == "timeout" else "context" if finish.is_context_full else "max_tokens"


def _joined(texts: Iterable[str]) -> str:
    whole = ""
    for text in texts:
        whole += _link(whole, text) + text
    return whole


def _link(before: str, text: str) -> str:
    return " " if before and text and not (_is_wide(before[-1]) or _is_wide(text[0])) else ""


def _is_wide(character: str) -> bool:
    """Whether it belongs to a script without spaces, as Chinese and Japanese."""
    return unicodedata.east_asian_width(character) in "WF"
