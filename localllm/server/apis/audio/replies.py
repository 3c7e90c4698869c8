"""A transcript in OpenAI's formats: JSON, text, subtitles, and the events of a stream."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType, structs
from starlette.responses import Response

from localllm.runtime.transcripts.instructions import Task
from localllm.runtime.transcripts.parts import Growing
from localllm.server.answers.remarks import Limit, Remarks, TimingsObject, remarks
from localllm.server.apis.audio.requests import Format
from localllm.server.edge import sse
from localllm.types import Delta, Timings, Usage
from localllm.types.transcripts import Transcript, TranscriptSegment


class InputTokenDetails(msgspec.Struct, frozen=True):
    audio_tokens: int
    text_tokens: int
    cached_tokens: int
    """Including those that stand for sounds."""


class TranscriptUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Of all parts together."""

    type: str = "tokens"
    input_tokens: int
    output_tokens: int
    total_tokens: int
    input_token_details: InputTokenDetails


class DurationUsage(msgspec.Struct, frozen=True):
    seconds: float
    type: str = "duration"


class TranscriptObject(msgspec.Struct, frozen=True, kw_only=True):
    """`response_format` `json`."""

    text: str
    usage: TranscriptUsage
    timings: TimingsObject | UnsetType = UNSET
    """With `timings`: how long the encoding took, and how many parts were known already."""
    localllm: Remarks | UnsetType = UNSET
    """Warnings about parts whose text is incomplete."""


class SegmentObject(msgspec.Struct, frozen=True, kw_only=True):
    """A part between two cuts. OpenAI's other fields are Whisper's own and absent."""

    id: int
    seek: int
    """Hundredths of a second at which it begins."""
    start: float
    end: float
    text: str
    temperature: float
    finish_reason: Literal["stop", "length"] = "stop"
    """`length`: the text is incomplete."""
    limit: Limit | UnsetType = UNSET
    """What ended it with the reason `length`, if it was not its token limit."""


class VerboseTranscript(msgspec.Struct, frozen=True, kw_only=True):
    """`response_format` `verbose_json`."""

    task: Task
    language: str
    """As the request says; empty: unknown."""
    duration: float
    text: str
    segments: list[SegmentObject]
    usage: DurationUsage
    timings: TimingsObject | UnsetType = UNSET
    localllm: Remarks | UnsetType = UNSET


class TextDelta(msgspec.Struct, frozen=True, tag_field="type", tag="transcript.text.delta"):
    delta: str


class TextSegment(SegmentObject, frozen=True, tag_field="type", tag="transcript.text.segment"):
    """With `verbose_json`: a part is whole."""


class TextDone(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="transcript.text.done"):
    """The last event. The fields without a value here are those of `verbose_json`."""

    text: str
    usage: TranscriptUsage
    task: Task | UnsetType = UNSET
    language: str | UnsetType = UNSET
    duration: float | UnsetType = UNSET
    segments: list[SegmentObject] | UnsetType = UNSET
    localllm: Remarks | UnsetType = UNSET


Event = TextDelta | TextSegment | TextDone


class Details(NamedTuple):
    """What replies repeat of the request."""

    task: Task
    language: str
    temperature: float
    has_timings: bool


async def events(
    growing: Growing, deltas: AsyncGenerator[tuple[int, str, Delta], None], format: Format, details: Details
) -> AsyncGenerator[bytes, None]:
    """The stream: the whole text's growth, and with `verbose_json` each part when it is whole."""
    is_verbose = format == "verbose_json"
    async with aclosing(deltas):
        async for index, text, delta in deltas:
            if text:
                yield _event(TextDelta(text))
            if delta.finish is not None and is_verbose:
                segment = _segment(index, growing.segment(index), details.temperature)
                yield _event(TextSegment(**structs.asdict(segment)))
    transcript = growing.whole()
    done = TextDone(text=transcript.text, usage=_usage(transcript.usage), localllm=remarks(transcript.warnings))
    if is_verbose:
        done = structs.replace(done, **_verbose(transcript, details))
    yield _event(done)


def _event(event: Event) -> bytes:
    return sse.data(msgspec.json.encode(event))


def _usage(usage: Usage) -> TranscriptUsage:
    return TranscriptUsage(
        input_tokens=usage.prompt_tokens,
        output_tokens=usage.completion_tokens,
        total_tokens=usage.total_tokens,
        input_token_details=InputTokenDetails(
            usage.audio_tokens, usage.prompt_tokens - usage.audio_tokens, usage.cached_tokens
        ),
    )


def _timings(timings: Sequence[Timings]) -> TimingsObject:
    """How long the encoding of all parts took."""
    encode_s, known = sum(each.encode_s for each in timings), sum(each.cached_encodes for each in timings)
    return TimingsObject(encode_ms=round(1000 * encode_s, 3), encode_cached=known)


def reply(
    transcript: Transcript, format: Format, details: Details, timings: Sequence[Timings], headers: dict[str, str]
) -> Response:
    """The whole transcript. `timings`: those of its parts."""
    if format == "vtt":
        return Response(transcript.vtt, media_type="text/vtt", headers=headers)
    if format in ("text", "srt"):
        content = transcript.srt if format == "srt" else f"{transcript.text}\n"
        return Response(content, media_type="text/plain", headers=headers)
    extras: dict[str, Any] = {"localllm": remarks(transcript.warnings)}
    if details.has_timings:
        extras["timings"] = _timings(timings)
    made: msgspec.Struct = TranscriptObject(text=transcript.text, usage=_usage(transcript.usage), **extras)
    if format == "verbose_json":
        usage = DurationUsage(transcript.duration_s)
        made = VerboseTranscript(text=transcript.text, usage=usage, **_verbose(transcript, details), **extras)
    return Response(msgspec.json.encode(made), media_type="application/json", headers=headers)


def _verbose(transcript: Transcript, details: Details) -> dict[str, Any]:
    return {
        "task": details.task,
        "language": details.language,
        "duration": transcript.duration_s,
        "segments": [
            _segment(number, segment, details.temperature) for number, segment in enumerate(transcript.segments)
        ],
    }


def _segment(number: int, segment: TranscriptSegment, temperature: float) -> SegmentObject:
    return SegmentObject(
        id=number,
        seek=int(100 * segment.start_s),
        start=segment.start_s,
        end=segment.end_s,
        text=segment.text,
        temperature=temperature,
        finish_reason="stop" if segment.cut_short is None else "length",
        limit=UNSET if segment.cut_short is None or segment.cut_short == "max_tokens" else segment.cut_short,
    )
