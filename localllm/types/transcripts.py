"""The transcript of a sound: the texts of its parts with their times, and subtitles made of them.

Knows no model and no API.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from localllm.types.usage import Usage

CutShort = Literal["max_tokens", "context", "timeout"]
"""What ended a part's text early: its limit of tokens, a full context, or the time limit of the request."""
_WHY = {
    "max_tokens": "the limit of tokens was reached (max_tokens)",
    "context": "the context is full (ctx)",
    "timeout": "the time limit was reached (timeout)",
}


class TranscriptSegment(msgspec.Struct, frozen=True, kw_only=True):
    """A part between two cuts."""

    start_s: float
    end_s: float
    text: str
    cut_short: CutShort | None = None
    """None: the text is whole."""

    @property
    def warning(self) -> str:
        """For people, about an incomplete text; empty if it is whole."""
        if self.cut_short is None:
            return ""
        return f"the text of {clock(self.start_s)} to {clock(self.end_s)} is incomplete: {_WHY[self.cut_short]}"


class Transcript(msgspec.Struct, frozen=True, kw_only=True):
    """The transcript of one sound. What is silent throughout has no segment."""

    text: str
    """All segments, with spaces between them where their script has spaces."""
    duration_s: float
    segments: tuple[TranscriptSegment, ...]
    usage: Usage
    """Of all segments together."""

    @property
    def warnings(self) -> list[str]:
        """One for each incomplete segment."""
        return [warning for segment in self.segments if (warning := segment.warning)]

    @property
    def srt(self) -> str:
        """SubRip subtitles."""
        return srt(self.segments)

    @property
    def vtt(self) -> str:
        """WebVTT subtitles."""
        return vtt(self.segments)


VTT_HEAD = "WEBVTT\n\n"


def srt(segments: Iterable[TranscriptSegment]) -> str:
    """SubRip subtitles, one for each segment with text."""
    spoken = (segment for segment in segments if segment.text)
    return "".join(srt_cue(number, segment) for number, segment in enumerate(spoken, 1))


def vtt(segments: Iterable[TranscriptSegment]) -> str:
    """WebVTT subtitles, one for each segment with text."""
    return VTT_HEAD + "".join(vtt_cue(segment) for segment in segments if segment.text)


def srt_cue(number: int, segment: TranscriptSegment) -> str:
    """One subtitle; `number` counts from 1."""
    return f"{number}\n{_cue(segment, ',')}"


def vtt_cue(segment: TranscriptSegment) -> str:
    """One subtitle."""
    return _cue(segment, ".")


def clock(seconds: float, point: str = "") -> str:
    """`00:01:30`; with a decimal point, which differs by format, followed by milliseconds."""
    whole, milliseconds = divmod(round(1000 * seconds), 1000)
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}{f'{point}{milliseconds:03}' if point else ''}"


def _cue(segment: TranscriptSegment, point: str) -> str:
    text = " ".join(segment.text.split())  # a blank line would end the cue
    return f"{clock(segment.start_s, point)} --> {clock(segment.end_s, point)}\n{text}\n\n"
