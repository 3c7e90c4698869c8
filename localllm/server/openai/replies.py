"""Response bodies as OpenAI names their fields. Extensions: `timings`, `localllm`, and a thought beside the text."""

from __future__ import annotations

from typing import Generic, Literal, TypeVar

import msgspec

from localllm import __version__
from localllm.server.common.logprobs import ChatLogprobs, TextLogprobs
from localllm.server.common.remarks import Remarks, TimingsObject
from localllm.server.speed import ProgressObject
from localllm.types import Usage

FINGERPRINT = f"b{__version__}-localllm"
"""llama-server's begin so, and clients know it by that."""

FinishReason = Literal["stop", "length", "tool_calls", "function_call"]
ChoiceT = TypeVar("ChoiceT")


class PromptTokensDetails(msgspec.Struct, frozen=True):
    cached_tokens: int


class CompletionTokensDetails(msgspec.Struct, frozen=True):
    reasoning_tokens: int
    accepted_prediction_tokens: int
    """Of the completion's, those that were guessed, by whomever, and computed before it was their turn."""
    rejected_prediction_tokens: int
    """Computed in vain."""


class UsageObject(msgspec.Struct, frozen=True, omit_defaults=True):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails
    completion_tokens_details: CompletionTokensDetails
    shifted_tokens: int = 0
    """That were forgotten for others, since the context was full; only where there were any."""


class Called(msgspec.Struct, frozen=True):
    name: str
    arguments: str
    """JSON."""


class CalledDelta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    arguments: str
    name: str | None = None
    """In the first only."""


class CalledText(msgspec.Struct, frozen=True):
    name: str
    input: str


class CalledTextDelta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    input: str
    name: str | None = None
    """In the first only."""


class FunctionCall(msgspec.Struct, frozen=True, tag_field="type", tag="function"):
    id: str
    function: Called


class CustomCall(msgspec.Struct, frozen=True, tag_field="type", tag="custom"):
    id: str
    custom: CalledText


class ToolCallDelta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The first of a call has its id, type and name, the others more of the arguments."""

    index: int
    """Among the calls of one answer."""
    id: str | None = None
    type: Literal["function", "custom"] | None = None
    function: CalledDelta | None = None
    custom: CalledTextDelta | None = None


class ChatText(msgspec.Struct, frozen=True):
    role: Literal["assistant"]
    content: str | None
    """Null where the answer is calls alone."""
    refusal: None = None
    reasoning_content: str | msgspec.UnsetType = msgspec.UNSET
    """The thought before the answer, under DeepSeek's name for it."""
    reasoning: str | msgspec.UnsetType = msgspec.UNSET
    """The same, as vLLM and OpenRouter call it."""
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
    """Of a whole plain completion and of its chunks alike."""

    index: int
    text: str
    finish_reason: FinishReason | None = None
    logprobs: TextLogprobs | None = None
    reasoning_content: str | msgspec.UnsetType = msgspec.UNSET


class Verbose(msgspec.Struct, frozen=True):
    """Of what llama-server tells there, what nothing else here tells."""

    prompt: str


class Reply(msgspec.Struct, Generic[ChoiceT], frozen=True, kw_only=True):
    """A whole answer or one chunk of it; `object` tells which."""

    id: str
    object: str
    created: int
    model: str
    system_fingerprint: str = FINGERPRINT
    choices: list[ChoiceT]
    usage: UsageObject | msgspec.UnsetType | None = msgspec.UNSET
    timings: TimingsObject | msgspec.UnsetType = msgspec.UNSET
    prompt_progress: ProgressObject | msgspec.UnsetType = msgspec.UNSET
    """In a chunk of its own, while the prompt is computed, if `return_progress` asks for it."""
    localllm: Remarks | msgspec.UnsetType = msgspec.UNSET
    """Where there is something to say; in a stream with an answer's end."""
    verbose: Verbose | msgspec.UnsetType = msgspec.field(default=msgspec.UNSET, name="__verbose")
    """Where it was asked for; in a stream with an answer's end."""


def usage_object(usage: Usage) -> UsageObject:
    """Usage in OpenAI's shape."""
    return UsageObject(
        usage.prompt_tokens,
        usage.completion_tokens,
        usage.total_tokens,
        PromptTokensDetails(usage.cached_tokens),
        CompletionTokensDetails(usage.reasoning_tokens, usage.accepted_guesses, usage.rejected_guesses),
        usage.shifted_tokens,
    )
