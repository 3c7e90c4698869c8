"""Response bodies with OpenAI's field names. Extensions: `timings`, `localllm`, and thoughts next to the text."""

from __future__ import annotations

from typing import Generic, Literal, TypeVar

import msgspec

from localllm import __version__
from localllm.server.answers.logprobs import ChatLogprobs, TextLogprobs
from localllm.server.answers.remarks import Remarks, TimingsObject
from localllm.server.answers.timings import ProgressObject
from localllm.types import Usage

FINGERPRINT = f"b{__version__}-localllm"
"""llama-server's ids begin like this, and clients recognize it by that."""

FinishReason = Literal["stop", "length", "tool_calls", "function_call"]
ChoiceT = TypeVar("ChoiceT")


class PromptTokensDetails(msgspec.Struct, frozen=True):
    cached_tokens: int
    """Including those that stand for pictures and sounds."""
    image_tokens: int | msgspec.UnsetType = msgspec.UNSET
    """Present if the prompt has pictures."""
    audio_tokens: int | msgspec.UnsetType = msgspec.UNSET
    """The same for sounds."""
    document_pages: int | msgspec.UnsetType = msgspec.UNSET
    """Of documents: pages, slides and sheets in the prompt."""
    document_pages_omitted: int | msgspec.UnsetType = msgspec.UNSET
    """Those that the request did not choose."""
    document_chars: int | msgspec.UnsetType = msgspec.UNSET
    """Characters of documents in the prompt; present if there are any."""


class CompletionTokensDetails(msgspec.Struct, frozen=True):
    reasoning_tokens: int
    accepted_prediction_tokens: int
    """Generated tokens that were guessed, by any source, and accepted."""
    rejected_prediction_tokens: int
    """Guessed tokens that were computed and rejected."""


class UsageObject(msgspec.Struct, frozen=True, omit_defaults=True):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails
    completion_tokens_details: CompletionTokensDetails
    shifted_tokens: int = 0
    """Tokens removed by context shift; only present if there were any."""


class Called(msgspec.Struct, frozen=True):
    name: str
    arguments: str
    """JSON."""


class CalledDelta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    arguments: str
    name: str | None = None
    """Only in the first chunk."""


class CalledText(msgspec.Struct, frozen=True):
    name: str
    input: str


class CalledTextDelta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    input: str
    name: str | None = None
    """Only in the first chunk."""


class FunctionCall(msgspec.Struct, frozen=True, tag_field="type", tag="function"):
    id: str
    function: Called


class CustomCall(msgspec.Struct, frozen=True, tag_field="type", tag="custom"):
    id: str
    custom: CalledText


class ToolCallDelta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The first piece of a call has its id, type and name; the others continue its arguments."""

    index: int
    """Index among the calls of one answer."""
    id: str | None = None
    type: Literal["function", "custom"] | None = None
    function: CalledDelta | None = None
    custom: CalledTextDelta | None = None


class ChatText(msgspec.Struct, frozen=True):
    role: Literal["assistant"]
    content: str | None
    """Null if the answer consists of calls only."""
    refusal: None = None
    reasoning_content: str | msgspec.UnsetType = msgspec.UNSET
    """The thought before the answer, under DeepSeek's name."""
    reasoning: str | msgspec.UnsetType = msgspec.UNSET
    """The same under the name of vLLM and OpenRouter."""
    tool_calls: list[FunctionCall | CustomCall] | msgspec.UnsetType = msgspec.UNSET
    function_call: Called | msgspec.UnsetType = msgspec.UNSET


class ChatChoice(msgspec.Struct, frozen=True):
    index: int
    message: ChatText
    finish_reason: FinishReason
    logprobs: ChatLogprobs | None = None


class ChatDelta(msgspec.Struct, frozen=True, omit_defaults=True):
    role: Literal["assistant"] | None = None
    content: str | msgspec.UnsetType | None = msgspec.UNSET
    reasoning_content: str = ""
    reasoning: str = ""
    tool_calls: list[ToolCallDelta] = []
    function_call: CalledDelta | None = None


class ChatChunkChoice(msgspec.Struct, frozen=True):
    index: int
    delta: ChatDelta
    finish_reason: FinishReason | None = None
    logprobs: ChatLogprobs | None = None


class TextChoice(msgspec.Struct, frozen=True):
    """A choice of a plain completion or of its chunks."""

    index: int
    text: str
    finish_reason: FinishReason | None = None
    logprobs: TextLogprobs | None = None
    reasoning_content: str | msgspec.UnsetType = msgspec.UNSET


class Verbose(msgspec.Struct, frozen=True):
    """The part of llama-server's `__verbose` that is not available elsewhere."""

    prompt: str


class Reply(msgspec.Struct, Generic[ChoiceT], frozen=True, kw_only=True):
    """A complete answer or one chunk, depending on `object`."""

    id: str
    object: str
    created: int
    model: str
    system_fingerprint: str = FINGERPRINT
    choices: list[ChoiceT]
    usage: UsageObject | msgspec.UnsetType | None = msgspec.UNSET
    timings: TimingsObject | msgspec.UnsetType = msgspec.UNSET
    prompt_progress: ProgressObject | msgspec.UnsetType = msgspec.UNSET
    """In separate chunks while the prompt is computed, if `return_progress` is set."""
    localllm: Remarks | msgspec.UnsetType = msgspec.UNSET
    """Present if there is something to report; in a stream at an answer's end."""
    verbose: Verbose | msgspec.UnsetType = msgspec.field(default=msgspec.UNSET, name="__verbose")
    """If requested; in a stream at an answer's end."""


def usage_object(usage: Usage) -> UsageObject:
    """Usage in OpenAI's format."""
    return UsageObject(
        usage.prompt_tokens,
        usage.completion_tokens,
        usage.total_tokens,
        PromptTokensDetails(
            usage.cached_tokens,
            *(
                count or msgspec.UNSET
                for count in (
                    usage.image_tokens,
                    usage.audio_tokens,
                    usage.document_pages,
                    usage.document_pages_omitted,
                    usage.document_chars,
                )
            ),
        ),
        CompletionTokensDetails(usage.reasoning_tokens, usage.accepted_guesses, usage.rejected_guesses),
        usage.shifted_tokens,
    )
