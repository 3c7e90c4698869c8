"""The data that every layer shares: requests, answers, what a model is. Plain frozen data.

Knows nothing of processes, HTTP or llama.cpp. Sizes are bytes, times are seconds unless a name says otherwise. Begin
with `conversation` and `load_options`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Literal, TypeVar

import msgspec

from localllm.types.conversation import CallDelta as CallDelta
from localllm.types.conversation import Calling as Calling
from localllm.types.conversation import Function as Function
from localllm.types.conversation import ImageDetail as ImageDetail
from localllm.types.conversation import Media as Media
from localllm.types.conversation import MediaFile as MediaFile
from localllm.types.conversation import MediaKind as MediaKind
from localllm.types.conversation import Message as Message
from localllm.types.conversation import Rendering as Rendering
from localllm.types.conversation import SoundCuts as SoundCuts
from localllm.types.conversation import ToolCall as ToolCall
from localllm.types.conversation import whole_calls as whole_calls
from localllm.types.details import Detail as Detail
from localllm.types.details import Extra as Extra
from localllm.types.details import Infill as Infill
from localllm.types.details import Lines as Lines
from localllm.types.details import Making as Making
from localllm.types.details import PromptProgress as PromptProgress
from localllm.types.details import Shift as Shift
from localllm.types.details import TokenLogprob as TokenLogprob
from localllm.types.documents import DocumentTaken as DocumentTaken
from localllm.types.formats import AnswerSource as AnswerSource
from localllm.types.formats import Beginning as Beginning
from localllm.types.formats import Capability as Capability
from localllm.types.formats import ChatFormat as ChatFormat
from localllm.types.formats import capabilities as capabilities
from localllm.types.headers.adapters import AdapterInfo as AdapterInfo
from localllm.types.headers.adapters import AppliedAdapter as AppliedAdapter
from localllm.types.headers.adapters import Layers as Layers
from localllm.types.headers.adapters import NumberedAdapter as NumberedAdapter
from localllm.types.headers.drafts import DraftBlock as DraftBlock
from localllm.types.headers.drafts import DraftHead as DraftHead
from localllm.types.headers.drafts import DraftHeadKind as DraftHeadKind
from localllm.types.headers.drafts import ReadKeys as ReadKeys
from localllm.types.headers.drafts import SharedKeys as SharedKeys
from localllm.types.headers.models import LayerMemory as LayerMemory
from localllm.types.headers.models import ModelInfo as ModelInfo
from localllm.types.headers.models import Pooling as Pooling
from localllm.types.headers.products import Products as Products
from localllm.types.headers.projectors import AudioEncoder as AudioEncoder
from localllm.types.headers.projectors import ProjectorInfo as ProjectorInfo
from localllm.types.headers.projectors import VisionEncoder as VisionEncoder
from localllm.types.ranges import check_range, check_token_ids
from localllm.types.ropes import RopeScaling as RopeScaling
from localllm.types.sampling import MAX_BREAKER_CHARS as MAX_BREAKER_CHARS
from localllm.types.sampling import MAX_BREAKERS as MAX_BREAKERS
from localllm.types.sampling import MAX_LOGPROBS as MAX_LOGPROBS
from localllm.types.sampling import MAX_STOP_CHARS as MAX_STOP_CHARS
from localllm.types.sampling import MAX_TOKEN_ID as MAX_TOKEN_ID
from localllm.types.sampling import NO_LIMIT as NO_LIMIT
from localllm.types.sampling import RANDOM_SEED as RANDOM_SEED
from localllm.types.sampling import SAMPLING_RANGES as SAMPLING_RANGES
from localllm.types.sampling import DrySampling as DrySampling
from localllm.types.sampling import ResolvedSampling as ResolvedSampling
from localllm.types.sampling import SamplingParams as SamplingParams
from localllm.types.sampling import TokenId as TokenId
from localllm.types.speculation import SourceName as SourceName
from localllm.types.speculation import Speculative as Speculative
from localllm.types.structures import MAX_SOURCE_BYTES as MAX_SOURCE_BYTES
from localllm.types.structures import GrammarLimits as GrammarLimits
from localllm.types.structures import Structure as Structure
from localllm.types.structures import Tags as Tags
from localllm.types.usage import CacheReport as CacheReport
from localllm.types.usage import PromptCount as PromptCount
from localllm.types.usage import Timings as Timings
from localllm.types.usage import Usage as Usage

T = TypeVar("T")
KvLayout = Literal["partitioned", "unified"]
"""Layout of a model's KV cache: cells per slot, or one pool for all slots."""

KvType = Literal["f16", "q8_0", "q4_0"]
FlashAttn = Literal["auto", "on", "off"]
Repack = Literal["auto", "on", "off"]
"""Whether to repack weights for the CPU during loading."""
ProjectorUse = Literal["auto", "gpu", "cpu", "off"]
"""Where pictures and sounds are encoded; off: nowhere."""
MemoryKind = Literal["attention", "sliding window", "recurrent"]
"""`attention` can drop its tail; the others return to checkpoints. Hybrid models count as `recurrent`."""
GpuLayers = int | Literal["auto", "all"]
"""How many layers to offload: a count, all of them, or as many as fit."""

CpuMoe = int | Literal["auto", "all"]
"""The experts of how many layers, from the first, stay on the CPU: a count, all of them, or as many as do not fit."""

ThinkingDefault = Literal["auto", "on", "off"]

FinishReason = Literal["stop", "length", "timeout", "cancelled"]
"""`timeout`: the request's own time limit was reached."""


class ModelDefaults(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Defaults for requests, from a model's manifest."""

    params: SamplingParams = SamplingParams()
    system: str | None = None
    """For chats without a system message."""
    messages: tuple[Message, ...] = ()
    """Messages at the beginning of every chat, after the system message."""


class GenerationRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Exactly one of `messages` (rendered by the model's template), `prompt`, `prompt_tokens`, `prompt_parts` and
    `infill` is set."""

    messages: tuple[Message, ...] | None = None
    prompt: str | None = None
    prompt_tokens: tuple[TokenId, ...] | None = None
    prompt_parts: tuple[str | Media, ...] | None = None
    """Texts, and pictures and sounds between them, without a template."""
    adapters: tuple[AppliedAdapter, ...] | None = None
    """Those that change the model for this answer; None: those of the model's name."""
    lora: tuple[NumberedAdapter, ...] | None = None
    """The same by number; the worker does not get it."""
    suffix: str | None = None
    """Text after the answer: the model fills in the middle between `prompt` and `suffix`."""
    infill: Infill | None = None
    media: tuple[MediaFile, ...] = ()
    """For messages and parts: the bytes of their pictures and sounds, sent to the worker only when it asks for them."""
    documents: tuple[DocumentTaken, ...] = ()
    """What was taken of the messages' documents, for usage; the worker does not get it."""
    rendering: Rendering = Rendering()
    """For messages."""
    notes: tuple[str, ...] = ()
    """What was left out of the messages before they came here; the answer's notes begin with these."""
    params: SamplingParams = SamplingParams()
    structure: Structure | None = None
    """The structure of the answer; None: free text."""
    calling: Calling | None = None
    """For messages: the tools that the answer may call; None: none, and anything that looks like a call is text."""
    splits_thoughts: bool = True
    """For messages: whether reasoning is separated from the text."""
    thinking_budget: int | None = None
    """Maximum number of reasoning tokens before the answer; None: limited only by the answer's length."""
    cache_prompt: bool = True
    """Whether the prompt may reuse tokens in the KV cache."""
    cache_salt: str = ""
    """Requests with different salts share no cached tokens."""
    explains_cache: bool = False
    """For messages: report where the prompt diverges from earlier ones. This reveals part of another prompt."""
    detail: Detail | None = None
    """Details to report with the answer; None: none."""
    slot: int | None = None
    """Wait for this slot; None: take the best one."""
    lines: Lines | None = None
    shift: Shift = Shift()
    priority: int = 0
    """Lower values are served first."""
    scored: str | None = None
    """A text behind the prompt whose log-probabilities are wanted instead of an answer; only `prompt`, `prompt_tokens`
    and `messages` take one."""
    comes_whole: bool = False
    """Whether nobody reads the answer before its end: then it is sent in one piece."""
    batch: bool = False
    """Whether it is of the batch class, which is served after all others, whatever their priorities."""
    timeout_s: float | None = None
    """Time limit: a waiting request fails then, and a running answer ends."""
    queue_timeout_s: float | None = None
    """Time limit for waiting: without a slot by then, the request fails."""
    speculative: Speculative = Speculative()
    prediction: str | None = None
    """Expected answer, from which tokens are guessed; matching parts are computed faster."""

    def __post_init__(self) -> None:
        check_token_ids("prompt", self.prompt_tokens or (), MAX_TOKEN_ID)
        check_range("id_slot", self.slot, 0, 255)
        check_range("priority", self.priority, -1000, 1000)
        check_range("thinking_budget", self.thinking_budget, 0, 2**31 - 1)
        check_range("timeout", self.timeout_s, 0.001, 1e6)
        check_range("queue_timeout", self.queue_timeout_s, 0.001, 1e6)


class Finish(msgspec.Struct, frozen=True):
    """The end of an answer."""

    reason: FinishReason
    usage: Usage
    timings: Timings
    stop: str | None = None
    """The stop string that ended it, if one did."""
    is_context_full: bool = False
    """After `length`: the context has no room for another token, so the answer cannot be continued in it."""
    is_closed: bool = False
    """The text is a whole document, closed before its limit with the shortest values. The reason is `stop` if the
    request asked for that, else `length`."""


class Delta(msgspec.Struct, frozen=True, omit_defaults=True):
    """A piece of an answer: new text (whole characters only) and its tokens; the last one has `finish`."""

    text: str = ""
    num_tokens: int = 0
    finish: Finish | None = None
    logprobs: tuple[TokenLogprob, ...] = ()
    """One per token, if requested."""
    prompt_logprobs: tuple[TokenLogprob, ...] = ()
    """For the next tokens of the prompt, if requested."""
    thought: str = ""
    """New reasoning, which is not part of `text`."""
    calls: tuple[CallDelta, ...] = ()
    """New pieces of calls, which are not part of `text`."""
    notes: tuple[str, ...] = ()
    """Notes on text that could not be read as a call."""
    tokens: tuple[int, ...] = ()
    """The ids of those tokens, if requested."""
    progress: tuple[PromptProgress, ...] = ()
    """Progress of the prompt, if requested."""
    lengths: tuple[int, ...] = ()
    """For several tokens: the number of characters of each."""

    @property
    def token_lengths(self) -> tuple[int, ...]:
        """The number of characters of each token, if known."""
        return self.lengths or ((len(self.text),) if self.num_tokens == 1 else ())


def joined(deltas: Sequence[Delta]) -> Delta:
    """Pieces of one answer as one piece, before they are read as reasoning and calls; the last may have a finish."""
    if len(deltas) == 1:
        return deltas[0]
    return Delta(
        "".join([each.text for each in deltas]),
        sum([each.num_tokens for each in deltas]),
        deltas[-1].finish,
        _chained([each.logprobs for each in deltas]),
        _chained([each.prompt_logprobs for each in deltas]),
        tokens=_chained([each.tokens for each in deltas]),
        progress=_chained([each.progress for each in deltas]),
        lengths=_chained([each.token_lengths for each in deltas]),
    )


def _chained(parts: Sequence[tuple[T, ...]]) -> tuple[T, ...]:
    return tuple(chain.from_iterable(parts))


class Chat(msgspec.Struct, frozen=True):
    """A whole answer."""

    text: str
    finish: Finish
    logprobs: tuple[TokenLogprob, ...] = ()
    prompt_logprobs: tuple[TokenLogprob, ...] = ()
    thought: str = ""
    """Reasoning before the text."""
    calls: tuple[ToolCall, ...] = ()
    """Requested calls; their arguments are JSON."""
    notes: tuple[str, ...] = ()
    """Notes on text that could not be read as a call, and on changed messages and schemas."""

    def __str__(self) -> str:
        return self.text

    @property
    def message(self) -> Message:
        """The answer as a message, for the next turn of the conversation."""
        return Message("assistant", self.text, thought=self.thought, tool_calls=self.calls)


class DeviceInfo(msgspec.Struct, frozen=True):
    """One compute device as ggml lists it."""

    name: str
    description: str
    kind: Literal["cpu", "gpu", "igpu", "accel"]
    backend: str
    free_bytes: int
    total_bytes: int
    id: str = ""
    """Id of the hardware, which several backends may list; empty: unknown."""
    splits_rows: bool = False
    """Whether matrices can be split by rows among devices of its backend."""
    is_automatic: bool = True
    """Whether `gpu_layers` auto may use it: it computes correctly and faster than the CPU, or was not examined."""
    trial: str = ""
    """What its examination found, for people; empty: it was not examined."""

    @property
    def memory_key(self) -> str:
        """Equal for devices that share their memory."""
        return self.id or self.name


class LoadedModel(msgspec.Struct, frozen=True, kw_only=True):
    """A loaded model, as its worker reported it in `Ready`."""

    id: str
    path: str
    info: ModelInfo
    ctx: int
    """Capacity of each slot in tokens; for an encoder, of the longest text."""
    slots: int  # 0 for an encoder, which does not generate
    memory: MemoryKind = "attention"
    kv: KvLayout = "partitioned"
    kv_reason: str = ""
    """Why this layout was chosen."""
    format: ChatFormat = ChatFormat()
    """How it writes reasoning and calls."""
    flash_attn: Literal["on", "off"] = "on"
    flash_attn_reason: str = ""
    speculation: Literal["auto", "off"] = "off"
    speculation_reason: str = ""
    draft: str = ""
    """Id of its draft model; empty: none."""
    sources: tuple[SourceName, ...] = ()
    """Sources of guessed tokens."""
    mtp_reason: str = ""
    """Why the model's own NextN layers guess no tokens; empty: they do, or it has none."""
    draft_reason: str = ""
    """Why the requested draft model is not used."""
    threads: int
    threads_batch: int = 0
    """For prompts."""
    ubatch: int = 0
    """Prompt tokens computed together; 0 for an encoder."""
    tuned: str = ""
    """The settings found by `localllm tune` that are in use, or why they are not used."""
    layers_per_device: dict[str, int]
    """Device name -> layers on it, including the CPU's; counts the output layer, as llama.cpp does."""
    cpu_experts: int = 0
    """Number of layers on devices whose experts are in main memory, where the CPU computes them."""
    placement_note: str = ""
    """Why other models leave fewer of its layers on GPUs; empty: they do not."""
    backend: str
    """CPU backend, e.g. `sapphirerapids` or `linked-in, use_extra_bufts=off`."""
    load_s: float
    created_unix_s: int
    pooling: Pooling = "last"
    embedding_ctx: int = 0
    """Length limit in tokens for texts to embed or rank."""
    dimensions: int = 0
    """Size of its embedding vectors."""
    defaults: SamplingParams = SamplingParams()
    """Defaults for requests, from its manifest."""
    sampling: ResolvedSampling = ResolvedSampling()
    """Effective sampling parameters of such requests; the seed only if `defaults` has one."""
    bos_text: str = ""
    eos_text: str = ""
    projector: ProjectorInfo | None = None
    """What turns its pictures and sounds into rows; None: it reads text only."""
    projector_device: str = ""
    no_media: str = ""
    """Why it reads text only, and what to type, after a semicolon; empty: it reads more."""

    @property
    def reads(self) -> tuple[MediaKind, ...]:
        """What it reads beside text."""
        return () if self.projector is None else self.projector.reads

    def __repr__(self) -> str:
        return f"<LoadedModel {self.id!r}, ctx={self.ctx}, slots={self.slots}, layers on {self.layers_per_device}>"
