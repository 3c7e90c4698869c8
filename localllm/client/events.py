"""Typed values of a server's events: the deltas of an answer, the parts of a transcript. Knows no connections."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TypeVar

import httpx
import msgspec

from localllm.client import replies
from localllm.client.replies import Limit
from localllm.client.sse import EventDecoder
from localllm.errors import InternalError
from localllm.types import Delta, Finish, FinishReason, Timings
from localllm.types.transcripts import Transcript, TranscriptSegment

T = TypeVar("T")
_NOTHING = Delta()


def typed(body: bytes | str, kind: type[T]) -> T:
    """A reply, or the data of an event. Raises `InternalError` if it is something else."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise InternalError(f"not a localllm server: it answered {body[:200]!r}") from error


def data_of(response: httpx.Response) -> Iterator[str]:
    """The data of each event, without the final `[DONE]`."""
    decoder = EventDecoder()
    for piece in response.iter_bytes():
        for data in decoder.feed(piece):
            if data == "[DONE]":
                return
            yield data


def event_of(data: str, kind: type[T]) -> T:
    """Decodes an event; raises the error if it is one."""
    failure = typed(data, replies.Failure)
    if failure.error is not None:
        raise replies.to_error(failure.error)
    return typed(data, kind)


def _chunks(response: httpx.Response) -> Iterator[replies.Chunk]:
    for data in data_of(response):
        yield typed(data, replies.Chunk)


def deltas(response: httpx.Response) -> Generator[Delta]:
    """Deltas as they arrive; reason, timings and usage of the last two chunks are combined into one `Finish`."""
    reason: FinishReason | None = None
    timings = Timings(0.0, 0.0, 0.0)
    limit: Limit | None = None
    for chunk in _chunks(response):
        if chunk.error is not None:
            raise replies.to_error(chunk.error)
        for choice in chunk.choices:
            delta = choice.to_delta(chunk.localllm)
            if delta != _NOTHING:
                yield delta
            reason = choice.reason or reason
        if chunk.localllm.limit == "timeout":
            reason = "timeout"
        limit = chunk.localllm.limit or limit
        timings = timings if chunk.timings is None else chunk.timings.to_timings()
        if chunk.usage is not None and reason is not None:
            is_full, is_closed = limit == "context", limit == "closed"
            usage = chunk.usage.to_usage()
            yield Delta(finish=Finish(reason, usage, timings, is_context_full=is_full, is_closed=is_closed))


def transcript_of(response: httpx.Response) -> Generator[TranscriptSegment | Transcript]:
    """Each segment when it is whole, then the transcript."""
    for data in data_of(response):
        event = event_of(data, replies.TranscriptEvent)
        if event.type == "transcript.text.segment":
            yield typed(data, replies.SegmentObject).to_segment()
        elif event.type == "transcript.text.done":
            yield typed(data, replies.TranscriptObject).to_transcript()
