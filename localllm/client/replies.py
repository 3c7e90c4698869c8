"""What the client reads of the OpenAI-style answers, which have more than it cares for. Knows no connections."""

from __future__ import annotations

from typing import Literal

import msgspec

from localllm.errors import ErrorInfo, LocalLLMError, from_info
from localllm.types import CallDelta, Delta, FinishReason, Timings, Usage
from localllm.wire import ErrorObject


class ChatFormatEntry(msgspec.Struct, frozen=True, kw_only=True):
    """How a model's thoughts and calls are read."""

    name: str
    origin: str
    note: str = ""
    thinking: str


class ModelEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A model of /v1/models, as far as we care; what it can do is known once it is loaded."""

    id: str
    loaded: bool = True
    ctx: int = 0
    slots: int = 0
    chat_template: bool = True
    capabilities: list[str] = []
    """Of a loaded one, e.g. `tools` and `thinking`."""
    chat_format: ChatFormatEntry | None = None


class Embedding(msgspec.Struct, frozen=True):
    embedding: msgspec.Raw


class TextUsage(msgspec.Struct, frozen=True):
    prompt_tokens: int


class EmbeddedTexts(msgspec.Struct, frozen=True, kw_only=True):
    """What texts became, in their order."""

    data: list[Embedding]
    usage: TextUsage
    truncated: list[int] = []
    """The numbers of those that were cut."""

    @property
    def vectors(self) -> list[msgspec.Raw]:
        """Of each, its vector as JSON: most pass it on. With pooling `none` an array of vectors."""
        return [item.embedding for item in self.data]


class RankedText(msgspec.Struct, frozen=True):
    """`index`: its number in the request."""

    index: int
    relevance_score: float


class RankedTexts(msgspec.Struct, frozen=True, kw_only=True):
    """The best first."""

    results: list[RankedText]
    usage: TextUsage
    truncated: list[int] = []
    """The numbers of those that were cut."""


class ModelList(msgspec.Struct, frozen=True):
    data: list[ModelEntry]


class Called(msgspec.Struct, frozen=True):
    """More of a call of a function."""

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


class Remarks(msgspec.Struct, frozen=True):
    warnings: list[str] = []
    num_tokens: int = 0


class Choice(msgspec.Struct, frozen=True):
    """A chunk of an answer."""

    delta: Piece | None = None
    text: str = ""
    finish_reason: Literal["tool_calls"] | FinishReason | None = None

    @property
    def reason(self) -> FinishReason | None:
        """Calls are seen by themselves."""
        return "stop" if self.finish_reason == "tool_calls" else self.finish_reason

    def news(self, remarks: Remarks) -> Delta:
        """What is new in it, with what is remarked."""
        notes, num_tokens = tuple(remarks.warnings), remarks.num_tokens
        if self.delta is None:
            return Delta(self.text, num_tokens, notes=notes)
        calls = tuple(
            CallDelta(piece.index, piece.function.arguments, piece.function.name, piece.id)
            for piece in self.delta.tool_calls
        )
        thought = self.delta.reasoning_content or ""
        return Delta(self.delta.content or "", num_tokens, thought=thought, calls=calls, notes=notes)


class CachedTokens(msgspec.Struct, frozen=True):
    cached_tokens: int = 0


class ThoughtTokens(msgspec.Struct, frozen=True):
    reasoning_tokens: int = 0
    accepted_prediction_tokens: int = 0
    rejected_prediction_tokens: int = 0


class UsageObject(msgspec.Struct, frozen=True):
    prompt_tokens: int
    completion_tokens: int
    prompt_tokens_details: CachedTokens = CachedTokens()
    completion_tokens_details: ThoughtTokens = ThoughtTokens()
    shifted_tokens: int = 0

    def counted(self) -> Usage:
        cached, details = self.prompt_tokens_details.cached_tokens, self.completion_tokens_details
        return Usage(
            self.prompt_tokens,
            self.completion_tokens,
            cached,
            self.shifted_tokens,
            details.reasoning_tokens,
            details.accepted_prediction_tokens,
            details.rejected_prediction_tokens,
        )


class Chunk(msgspec.Struct, frozen=True):
    choices: list[Choice] = []
    usage: UsageObject | None = None
    timings: Timings | None = None
    error: ErrorObject | None = None
    localllm: Remarks = Remarks()


class Tokens(msgspec.Struct, frozen=True):
    tokens: list[int]


class Content(msgspec.Struct, frozen=True):
    content: str


class Prompt(msgspec.Struct, frozen=True):
    prompt: str


class Failure(msgspec.Struct, frozen=True):
    """What an event may be instead of what was asked for."""

    error: ErrorObject | None = None


class Refused(msgspec.Struct, frozen=True):
    """An error as OpenAI's and as llama-server's endpoints send it: the latter's code is the status."""

    message: str
    code: str | int
    param: str | None = None
    reason: str = ""

    def told(self) -> ErrorObject:
        return ErrorObject(
            self.message, code=self.code if isinstance(self.code, str) else self.reason, param=self.param
        )


class RefusedBody(msgspec.Struct, frozen=True):
    error: Refused


def to_error(error: ErrorObject) -> LocalLLMError:
    """The error of the tree that the server named."""
    return from_info(ErrorInfo(error.code, error.message, error.param))
