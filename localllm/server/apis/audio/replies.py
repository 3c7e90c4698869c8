"""A transcript in OpenAI's formats: JSON, text, subtitles, and the events of a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
from msgspec import UNSET, UnsetType
from starlette.responses import Response

from localllm.server.answers.remarks import TimingsObject
from localllm.server.apis.audio.instructions import Task
from localllm.server.apis.audio.parts import Segment, Transcript
from localllm.server.apis.audio.requests import Format

_CUE = "{number}{start} --> {end}\n{text}\n\n"


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


class SegmentObject(msgspec.Struct, frozen=True, kw_only=True):
    """A part between two cuts. OpenAI's other fields are Whisper's own and absent."""

    id: int
    seek: int
    """Hundredths of a second at which it begins."""
    start: float
    end: float
    text: str
    temperature: float


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


class TextDelta(msgspec.Struct, frozen=True, tag_field="type", tag="transcript.text.delta"):
    delta: str


class TextDone(msgspec.Struct, frozen=True, tag_field="type", tag="transcript.text.done"):
    text: str
    usage: TranscriptUsage


Event = TextDelta | TextDone


def usage_of(transcript: Transcript) -> TranscriptUsage:
    """The tokens of all parts."""
    all_of = [segment.finish.usage for segment in transcript.segments if segment.finish is not None]
    prompt, audio = sum(each.prompt_tokens for each in all_of), sum(each.audio_tokens for each in all_of)
    made, cached = sum(each.completion_tokens for each in all_of), sum(each.cached_tokens for each in all_of)
    return TranscriptUsage(
        input_tokens=prompt,
        output_tokens=made,
        total_tokens=prompt + made,
        input_token_details=InputTokenDetails(audio, prompt - audio, cached),
    )


def timings_of(transcript: Transcript) -> TimingsObject:
    """How long the encoding of all parts took."""
    timings = [segment.finish.timings for segment in transcript.segments if segment.finish is not None]
    encode_s, known = sum(each.encode_s for each in timings), sum(each.cached_encodes for each in timings)
    return TimingsObject(encode_ms=round(1000 * encode_s, 3), encode_cached=known)


def srt(transcript: Transcript) -> str:
    """SubRip subtitles, one for each part with text."""
    return "".join(_cues(transcript, lambda number: f"{number}\n", ","))


def vtt(transcript: Transcript) -> str:
    """WebVTT subtitles."""
    return "WEBVTT\n\n" + "".join(_cues(transcript, lambda _: "", "."))


def _cues(transcript: Transcript, numbered: Callable[[int], str], point: str) -> Iterator[str]:
    segments = [segment for segment in transcript.segments if transcript.text_of(segment)]
    for number, segment in enumerate(segments, 1):
        yield _CUE.format(
            number=numbered(number),
            start=_clock(segment.start_s, point),
            end=_clock(segment.end_s, point),
            text=" ".join(transcript.text_of(segment).split()),  # a blank line would end the cue
        )


def _clock(seconds: float, point: str) -> str:
    whole, milliseconds = divmod(round(1000 * seconds), 1000)
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}{point}{milliseconds:03}"


def reply(
    transcript: Transcript,
    format: Format,
    *,
    task: Task,
    language: str,
    temperature: float,
    headers: dict[str, str],
    has_timings: bool,
) -> Response:
    """The whole transcript."""
    if format == "vtt":
        return Response(vtt(transcript), media_type="text/vtt", headers=headers)
    if format in ("text", "srt"):
        content = srt(transcript) if format == "srt" else f"{transcript.text}\n"
        return Response(content, media_type="text/plain", headers=headers)
    timings = timings_of(transcript) if has_timings else UNSET
    made: msgspec.Struct = TranscriptObject(text=transcript.text, usage=usage_of(transcript), timings=timings)
    if format == "verbose_json":
        made = VerboseTranscript(
            task=task,
            language=language,
            duration=transcript.duration_s,
            text=transcript.text,
            segments=[
                _segment(number, segment, transcript.text_of(segment), temperature)
                for number, segment in enumerate(transcript.segments)
            ],
            usage=DurationUsage(transcript.duration_s),
            timings=timings,
        )
    return Response(msgspec.json.encode(made), media_type="application/json", headers=headers)


def _segment(number: int, segment: Segment, text: str, temperature: float) -> SegmentObject:
    return SegmentObject(
        id=number,
        seek=int(100 * segment.start_s),
        start=segment.start_s,
        end=segment.end_s,
        text=text,
        temperature=temperature,
    )
