"""The fields of OpenAI-style responses that the client reads; others are ignored. Knows no connections."""

from __future__ import annotations

from typing import Literal

import msgspec

from localllm.errors import ErrorInfo, LocalLLMError, from_info
from localllm.types import CallDelta, Delta, FinishReason, MediaKind, Timings, Usage
from localllm.types.transcripts import Transcript, TranscriptSegment
from localllm.types.wire import ErrorObject


class ChatFormatEntry(msgspec.Struct, frozen=True, kw_only=True):
    """How thoughts and calls are parsed out of the model's text."""

    name: str
    origin: str
    note: str = ""
    thinking: str


class ModelEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A model of /v1/models. Its capabilities are known once it is loaded."""

    id: str
    loaded: bool = True
    ctx: int = 0
    slots: int = 0
    chat_template: bool = True
    chat_template_note: str = ""
    capabilities: list[str] = []
    """E.g. `tools`, `thinking` and `vision`; empty: unknown."""
    text_only_reason: str = ""
    chat_format: ChatFormatEntry | None = None

    @property
    def reads(self) -> frozenset[MediaKind] | None:
        """What it reads beside text; None: unknown."""
        if not self.capabilities:
            return None
        words: dict[MediaKind, str] = {"image": "vision", "audio": "audio"}
        return frozenset(kind for kind, word in words.items() if word in self.capabilities)


class Embedding(msgspec.Struct, frozen=True):
    embedding: msgspec.Raw


class TextUsage(msgspec.Struct, frozen=True):
    prompt_tokens: int


class EmbeddedTexts(msgspec.Struct, frozen=True, kw_only=True):
    """The embeddings of texts, in their order."""

    data: list[Embedding]
    usage: TextUsage
    truncated: list[int] = []
    """Indexes of the texts that were truncated."""

    @property
    def vectors(self) -> list[msgspec.Raw]:
        """The vector of each text as raw JSON, which most callers pass on; with pooling `none` an array of them."""
        return [item.embedding for item in self.data]


class RankedText(msgspec.Struct, frozen=True):
    """`index`: its position in the request."""

    index: int
    relevance_score: float


class RankedTexts(msgspec.Struct, frozen=True, kw_only=True):
    """Best match first."""

    results: list[RankedText]
    usage: TextUsage
    truncated: list[int] = []
    """Indexes of the documents that were truncated."""


class ModelList(msgspec.Struct, frozen=True):
    data: list[ModelEntry]


class Called(msgspec.Struct, frozen=True):
    """A fragment of a function call."""

    name: str = ""
    arguments: str = ""


class CallPiece(msgspec.Struct, frozen=True):
    index: int
    id: str = ""
    function: Called = Called()


class Piece(msgspec.Struct, frozen=True):
    content: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[CallPiece] = []


Limit = Literal["context", "timeout", "closed"]


class Remarks(msgspec.Struct, frozen=True):
    warnings: list[str] = []
    num_tokens: int = 0
    limit: Limit | None = None


class Choice(msgspec.Struct, frozen=True):
    """The new part of an answer."""

    delta: Piece | None = None
    text: str = ""
    finish_reason: Literal["tool_calls"] | FinishReason | None = None

    @property
    def reason(self) -> FinishReason | None:
        """`tool_calls` is reported as `stop`: the calls themselves are in the deltas."""
        return "stop" if self.finish_reason == "tool_calls" else self.finish_reason

    def to_delta(self, remarks: Remarks) -> Delta:
        """As a delta, with the server's remarks."""
        notes, num_tokens = tuple(remarks.warnings), remarks.num_tokens
        if self.delta is None:
            return Delta(self.text, num_tokens, notes=notes)
        calls = tuple(
            CallDelta(piece.index, piece.function.arguments, piece.function.name, piece.id)
            for piece in self.delta.tool_calls
        )
        thought = self.delta.reasoning_content or ""
        return Delta(self.delta.content or "", num_tokens, thought=thought, calls=calls, notes=notes)


class PromptDetails(msgspec.Struct, frozen=True):
    """How many tokens of the prompt were cached, and what others than text stand for."""

    cached_tokens: int = 0
    image_tokens: int = 0
    audio_tokens: int = 0
    document_pages: int = 0
    document_pages_omitted: int = 0
    document_chars: int = 0


class ThoughtTokens(msgspec.Struct, frozen=True):
    reasoning_tokens: int = 0
    accepted_prediction_tokens: int = 0
    rejected_prediction_tokens: int = 0


class UsageObject(msgspec.Struct, frozen=True):
    prompt_tokens: int
    completion_tokens: int
    prompt_tokens_details: PromptDetails = PromptDetails()
    completion_tokens_details: ThoughtTokens = ThoughtTokens()
    shifted_tokens: int = 0

    def to_usage(self) -> Usage:
        details = self.completion_tokens_details
        return Usage(
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.completion_tokens,
            shifted_tokens=self.shifted_tokens,
            reasoning_tokens=details.reasoning_tokens,
            accepted_guesses=details.accepted_prediction_tokens,
            rejected_guesses=details.rejected_prediction_tokens,
            **msgspec.structs.asdict(self.prompt_tokens_details),
        )


class TimingsObject(msgspec.Struct, frozen=True):
    queue_s: float
    prefill_s: float
    decode_s: float
    encode_ms: float = 0.0
    encode_cached: int = 0

    def to_timings(self) -> Timings:
        return Timings(self.queue_s, self.prefill_s, self.decode_s, self.encode_ms / 1000, self.encode_cached)


class Chunk(msgspec.Struct, frozen=True):
    choices: list[Choice] = []
    usage: UsageObject | None = None
    timings: TimingsObject | None = None
    error: ErrorObject | None = None
    localllm: Remarks = Remarks()


class TranscriptEvent(msgspec.Struct, frozen=True):
    type: str


class SegmentObject(msgspec.Struct, frozen=True):
    """A part of a transcript."""

    start: float
    end: float
    text: str
    finish_reason: Literal["stop", "length"]
    limit: Literal["context", "timeout"] | None = None

    def to_segment(self) -> TranscriptSegment:
        cut_short = None if self.finish_reason == "stop" else self.limit or "max_tokens"
        return TranscriptSegment(start_s=self.start, end_s=self.end, text=self.text, cut_short=cut_short)


class InputDetails(msgspec.Struct, frozen=True):
    audio_tokens: int
    cached_tokens: int


class TranscriptUsage(msgspec.Struct, frozen=True):
    input_tokens: int
    output_tokens: int
    input_token_details: InputDetails


class TranscriptObject(msgspec.Struct, frozen=True):
    """The last event of a transcript."""

    text: str
    duration: float
    segments: list[SegmentObject]
    usage: TranscriptUsage

    def to_transcript(self) -> Transcript:
        details = self.usage.input_token_details
        return Transcript(
            text=self.text,
            duration_s=self.duration,
            segments=tuple(segment.to_segment() for segment in self.segments),
            usage=Usage(
                self.usage.input_tokens,
                self.usage.output_tokens,
                details.cached_tokens,
                audio_tokens=details.audio_tokens,
            ),
        )


class Tokens(msgspec.Struct, frozen=True):
    tokens: list[int]


class Content(msgspec.Struct, frozen=True):
    content: str


class CountedTokens(msgspec.Struct, frozen=True):
    input_tokens: int


class Failure(msgspec.Struct, frozen=True):
    """An event that reports an error."""

    error: ErrorObject | None = None


class Refused(msgspec.Struct, frozen=True):
    """An error of OpenAI's or llama-server's endpoints; the latter's `code` is the HTTP status."""

    message: str
    code: str | int
    param: str | None = None
    reason: str = ""

    def to_error_object(self) -> ErrorObject:
        return ErrorObject(
            self.message, code=self.code if isinstance(self.code, str) else self.reason, param=self.param
        )


class RefusedBody(msgspec.Struct, frozen=True):
    error: Refused


def to_error(error: ErrorObject) -> LocalLLMError:
    """The exception of the class that the server named."""
    return from_info(ErrorInfo(error.code, error.message, error.param))
