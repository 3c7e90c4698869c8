"""The fields of `/v1/audio/transcriptions` and `/translations`, and what they ask of a model for each part of a sound.

Raises `RequestError`s that name the field.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from localllm.errors import InvalidParameter, UnsupportedParameter, clipped
from localllm.runtime.transcripts.instructions import Task, Wanted
from localllm.runtime.transcripts.planning import check
from localllm.server.requests.field_rules import Fates, RefusedField
from localllm.server.requests.sampling import SamplingFields
from localllm.types import SamplingParams

Format = Literal["json", "text", "srt", "vtt", "verbose_json"]
_FATES = Fates(
    {
        "include": RefusedField("log-probabilities of transcripts are not reported", ([],)),
        "known_speaker_names": RefusedField("speakers are not told apart", ([],)),
        "known_speaker_references": RefusedField("speakers are not told apart", ([],)),
    },
    {"chunking_strategy": "long sounds are always cut at silences"},
)


class SoundRequest(SamplingFields, frozen=True, kw_only=True):
    """Fields of both endpoints, beside `file`."""

    fates: ClassVar[Fates] = _FATES
    task: ClassVar[Task] = "transcribe"

    model: str | None = None
    """Optional while exactly one model is loaded."""
    prompt: str | None = None
    """What the model is asked, in place of what its kind was trained for."""
    language: str | None = None
    """Of the sound, e.g. `de`."""
    response_format: Format | None = None
    max_tokens: int | None = None
    """Of each part's text."""
    stream: bool | None = None

    @property
    def format(self) -> Format:
        return self.response_format or "json"

    @property
    def wanted(self) -> Wanted:
        return Wanted(self.task, self.prompt or "", self.language or "")

    @property
    def is_streamed(self) -> bool:
        return bool(self.stream)

    def limit(self) -> int | None:
        return self.max_tokens

    def params(self) -> SamplingParams:
        """Greedy by default, as in OpenAI's API."""
        params = SamplingFields.params(self)
        return msgspec.structs.replace(params, temperature=0.0) if params.temperature is None else params

    def check(self) -> None:
        """Raises `RequestError`s for fields that contradict each other."""
        check(self.wanted)
        if self.is_streamed and self.format in ("srt", "vtt"):
            raise InvalidParameter(
                f"stream and response_format {self.format} are mutually exclusive; a stream with verbose_json has the "
                "times of segments",
                param="stream",
            )


class TranslationRequest(SoundRequest, frozen=True, kw_only=True):
    """`POST /v1/audio/translations`: the text in English."""

    fates: ClassVar[Fates] = Fates(_FATES.refused, _FATES.ignored)
    task: ClassVar[Task] = "translate"


class TranscriptionRequest(SoundRequest, frozen=True, kw_only=True):
    """`POST /v1/audio/transcriptions`."""

    timestamp_granularities: list[str] | None = None

    def check(self) -> None:
        super().check()
        for granularity in self.timestamp_granularities or ():
            if granularity != "segment":
                raise UnsupportedParameter(
                    f"timestamp_granularities: times of a {clipped(granularity)} are not known, only those of "
                    "segments; send segment, or leave it out",
                    param="timestamp_granularities",
                )
        if self.timestamp_granularities and self.format != "verbose_json":
            raise InvalidParameter(
                "timestamp_granularities needs response_format verbose_json", param="timestamp_granularities"
            )
