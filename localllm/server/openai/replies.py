"""Response bodies as OpenAI names their fields. Extensions: `timings`, and what /v1/models says beyond id and owner."""

from __future__ import annotations

from typing import Generic, Literal, TypeVar

import msgspec

from localllm import __version__
from localllm.errors import Draining
from localllm.server.openai.logprobs import ChatLogprobs, TextLogprobs
from localllm.states import AvailableModel
from localllm.types import Finish, KvLayout, LoadedModel, MemoryKind, Pooling, Timings, Usage

FINGERPRINT = f"localllm-{__version__}"

FinishReason = Literal["stop", "length", "tool_calls"]
ChoiceT = TypeVar("ChoiceT")


class PromptTokensDetails(msgspec.Struct, frozen=True):
    cached_tokens: int


class UsageObject(msgspec.Struct, frozen=True, omit_defaults=True):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails
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


class ToolCall(msgspec.Struct, frozen=True):
    id: str
    function: Called
    type: Literal["function"] = "function"


class ToolCallDelta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The first has the id and the name, the others more of the arguments."""

    index: int
    """Among the calls of one answer, of which there is one."""
    id: str | None = None
    type: Literal["function"] | None = None
    function: CalledDelta


class ChatText(msgspec.Struct, frozen=True):
    role: Literal["assistant"]
    content: str | None
    """Null where the answer is a call."""
    refusal: None = None
    reasoning_content: str | msgspec.UnsetType = msgspec.UNSET
    """The thought before a structured answer, under DeepSeek's name for it."""
    tool_calls: list[ToolCall] | msgspec.UnsetType = msgspec.UNSET
    function_call: Called | msgspec.UnsetType = msgspec.UNSET


class ChatChoice(msgspec.Struct, frozen=True):
    index: int
    message: ChatText
    finish_reason: FinishReason
    logprobs: ChatLogprobs | None = None


class ChatDelta(msgspec.Struct, frozen=True, omit_defaults=True):
    role: Literal["assistant"] | None = None
    content: str | None = None
    reasoning_content: str = ""
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


class TimingsObject(msgspec.Struct, frozen=True):
    """Seconds of one answer: until it had a slot, its prompt, its tokens; and from its arrival to its first token."""

    queue_s: float
    prefill_s: float
    decode_s: float
    ttft_s: float


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


class ModelEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One model; everything after `owned_by` is ours, and most of it there once it is loaded.

    Where its file lies is nobody's business.
    """

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "localllm"
    loaded: bool
    """Others are loaded when they are asked for."""
    file_type: str | None
    size_bytes: int
    ctx: int | msgspec.UnsetType = msgspec.UNSET
    slots: int | msgspec.UnsetType = msgspec.UNSET
    threads: int | msgspec.UnsetType = msgspec.UNSET
    chat_template: bool | msgspec.UnsetType = msgspec.UNSET
    chat_template_source: str | msgspec.UnsetType = msgspec.UNSET
    """Where it is from: `file`, `manifest`, `option`, or `architecture` where the file has none."""
    architecture: str | msgspec.UnsetType = msgspec.UNSET
    num_parameters: int | msgspec.UnsetType = msgspec.UNSET
    context_length: int | msgspec.UnsetType | None = msgspec.UNSET
    layers_per_device: dict[str, int] | msgspec.UnsetType = msgspec.UNSET
    backend: str | msgspec.UnsetType = msgspec.UNSET
    memory: MemoryKind | msgspec.UnsetType = msgspec.UNSET
    kv: KvLayout | msgspec.UnsetType = msgspec.UNSET
    """How the slots share the KV cache; `kv_reason`: why."""
    kv_reason: str | msgspec.UnsetType = msgspec.UNSET
    flash_attn: Literal["on", "off"] | msgspec.UnsetType = msgspec.UNSET
    flash_attn_reason: str | msgspec.UnsetType = msgspec.UNSET
    pooling: Pooling | msgspec.UnsetType = msgspec.UNSET
    """`rank`: it ranks; otherwise it embeds."""
    dimensions: int | msgspec.UnsetType = msgspec.UNSET
    embedding_ctx: int | msgspec.UnsetType = msgspec.UNSET
    """Tokens of the longest text that it embeds or ranks."""


class ModelList(msgspec.Struct, frozen=True):
    data: list[ModelEntry]
    object: Literal["list"] = "list"


def model_entry(model: LoadedModel) -> ModelEntry:
    """What /v1/models says of a model."""
    return ModelEntry(
        id=model.id,
        created=model.created_unix_s,
        loaded=True,
        ctx=model.ctx,
        slots=model.slots,
        threads=model.threads,
        chat_template=bool(model.info.chat_templates),
        chat_template_source=model.info.chat_template_source or msgspec.UNSET,
        architecture=model.info.architecture,
        file_type=model.info.file_type,
        num_parameters=model.info.num_parameters,
        size_bytes=model.info.size_bytes,
        context_length=model.info.context_length,
        layers_per_device=model.layers_per_device,
        backend=model.backend,
        memory=model.memory if model.slots else msgspec.UNSET,
        kv=model.kv if model.slots else msgspec.UNSET,
        kv_reason=model.kv_reason if model.slots else msgspec.UNSET,
        flash_attn=model.flash_attn if model.slots else msgspec.UNSET,
        flash_attn_reason=model.flash_attn_reason if model.slots else msgspec.UNSET,
        pooling=model.pooling,
        dimensions=model.dimensions,
        embedding_ctx=model.embedding_ctx,
    )


def available_entry(model: AvailableModel) -> ModelEntry:
    """What it says of one that is not loaded."""
    return ModelEntry(
        id=model.id,
        created=model.created_unix_s,
        loaded=False,
        file_type=model.quant,
        size_bytes=model.size_bytes,
    )


def usage_object(usage: Usage) -> UsageObject:
    """Usage in OpenAI's shape."""
    return UsageObject(
        usage.prompt_tokens,
        usage.completion_tokens,
        usage.total_tokens,
        PromptTokensDetails(usage.cached_tokens),
        usage.shifted_tokens,
    )


def timings_object(timings: Timings) -> TimingsObject:
    """Timings with what follows from them."""
    return TimingsObject(
        timings.queue_s, timings.prefill_s, timings.decode_s, round(timings.queue_s + timings.prefill_s, 6)
    )


def finish_reason(finish: Finish) -> Literal["stop", "length"]:
    """A request's own time limit cuts as its token limit does.

    Raises `Draining` for an answer that was cut short from our side: a client must not take it for whole.
    """
    if finish.reason == "cancelled":
        raise Draining("the answer was cancelled by the server")
    return "length" if finish.reason == "timeout" else finish.reason
