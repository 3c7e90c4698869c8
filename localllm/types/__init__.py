"""The nouns that every layer shares: what is asked, what is answered, what a model is. Plain frozen data.

Knows nothing of processes, HTTP or llama.cpp. Sizes are bytes, times are seconds unless a name says otherwise.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from localllm.types.conversation import CallDelta as CallDelta
from localllm.types.conversation import Calling as Calling
from localllm.types.conversation import Function as Function
from localllm.types.conversation import Message as Message
from localllm.types.conversation import Rendering as Rendering
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
from localllm.types.formats import AnswerSource as AnswerSource
from localllm.types.formats import Beginning as Beginning
from localllm.types.formats import Capability as Capability
from localllm.types.formats import ChatFormat as ChatFormat
from localllm.types.formats import capabilities as capabilities
from localllm.types.products import Products as Products
from localllm.types.ranges import check_range, check_token_ids
from localllm.types.ropes import RopeScaling as RopeScaling
from localllm.types.sampling import MAX_BIASED_TOKENS as MAX_BIASED_TOKENS
from localllm.types.sampling import MAX_BREAKER_CHARS as MAX_BREAKER_CHARS
from localllm.types.sampling import MAX_BREAKERS as MAX_BREAKERS
from localllm.types.sampling import MAX_LOGPROBS as MAX_LOGPROBS
from localllm.types.sampling import MAX_STOP_CHARS as MAX_STOP_CHARS
from localllm.types.sampling import MAX_STOP_STRINGS as MAX_STOP_STRINGS
from localllm.types.sampling import MAX_STOP_TOKENS as MAX_STOP_TOKENS
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
from localllm.types.usage import Timings as Timings
from localllm.types.usage import Usage as Usage

KvLayout = Literal["partitioned", "unified"]
"""Of a model's KV cache: every slot has cells of its own, or all take theirs from one pool."""

KvType = Literal["f16", "q8_0", "q4_0"]
FlashAttn = Literal["auto", "on", "off"]
Repack = Literal["auto", "on", "off"]
"""Whether weights are laid out anew for the CPU as they are loaded."""
MemoryKind = Literal["attention", "sliding window", "recurrent"]
"""`attention` can lose its tail; the others go back to checkpoints. Hybrid models are `recurrent` here."""
GpuLayers = int | Literal["auto", "all"]
"""How many layers to offload: a count, every one of them, or what fits."""

ThinkingDefault = Literal["auto", "on", "off"]
Pooling = Literal["none", "mean", "cls", "last", "rank"]
"""How the vectors of a text's tokens become the text's: none at all (one for each token), their mean, the first one's,
the last one's, or a score by the model's ranking head."""

FinishReason = Literal["stop", "length", "timeout", "cancelled"]
"""`timeout`: the request's own time was over."""


class ModelDefaults(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a model's manifest says for requests that say nothing of their own."""

    params: SamplingParams = SamplingParams()
    system: str | None = None
    """For chats without a system message."""
    messages: tuple[Message, ...] = ()
    """With which every chat begins, after its system message."""


class GenerationRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Exactly one of `messages` (rendered by the model's template), `prompt`, `prompt_tokens` and `infill` is set."""

    messages: tuple[Message, ...] | None = None
    prompt: str | None = None
    prompt_tokens: tuple[TokenId, ...] | None = None
    suffix: str | None = None
    """What comes after the answer: the prompt is then what comes before it, and the model fills in the middle."""
    infill: Infill | None = None
    rendering: Rendering = Rendering()
    """Of the messages."""
    params: SamplingParams = SamplingParams()
    structure: Structure | None = None
    """What shape the answer has; None: any."""
    calling: Calling | None = None
    """Of messages: what the answer may call; None: nothing, and what looks like a call is text."""
    splits_thoughts: bool = True
    """Of messages: whether thoughts come apart from the text."""
    thinking_budget: int | None = None
    """The most tokens of the thought before an answer; None: no other limit than the answer's own."""
    cache_prompt: bool = True
    """Whether it may start from what is in the KV cache already."""
    cache_salt: str = ""
    """Requests with different salts share nothing of what was computed."""
    explains_cache: bool = False
    """Of messages: say why its prompt does not begin as what was computed before. That shows some of another prompt."""
    detail: Detail | None = None
    """What is told of how it is made; None: nothing."""
    slot: int | None = None
    """It waits for that one; None: it takes the best."""
    lines: Lines | None = None
    shift: Shift = Shift()
    priority: int = 0
    """Lower ones wait less."""
    timeout_s: float | None = None
    """Where it is not answered by then: an error while it waits, the end of the answer while it runs."""
    queue_timeout_s: float | None = None
    """Where it has no slot by then: an error."""
    speculative: Speculative = Speculative()
    prediction: str | None = None
    """What the answer is expected to be like, to be computed sooner where it is."""

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


class Delta(msgspec.Struct, frozen=True, omit_defaults=True):
    """A piece of an answer: new text (whole characters only), the tokens behind it, and in the last one the finish."""

    text: str = ""
    num_tokens: int = 0
    finish: Finish | None = None
    logprobs: tuple[TokenLogprob, ...] = ()
    """One for each token, if they were asked for."""
    prompt_logprobs: tuple[TokenLogprob, ...] = ()
    """Of the next tokens of the prompt, if those were asked for."""
    thought: str = ""
    """New text of the thought before the answer, which is not in `text`."""
    calls: tuple[CallDelta, ...] = ()
    """New pieces of calls, which are not in `text`."""
    notes: tuple[str, ...] = ()
    """What the reader of the answer has to say: a call that could not be read, and is text."""
    tokens: tuple[int, ...] = ()
    """The ids of those tokens, if they were asked for."""
    progress: tuple[PromptProgress, ...] = ()
    """How far the prompt is, if that was asked for."""
    lengths: tuple[int, ...] = ()
    """Of several tokens: how many characters of the text came with each."""

    @property
    def token_lengths(self) -> tuple[int, ...]:
        """Of each token, if that is known."""
        return self.lengths or ((len(self.text),) if self.num_tokens == 1 else ())


class Chat(msgspec.Struct, frozen=True):
    """A whole answer."""

    text: str
    finish: Finish
    logprobs: tuple[TokenLogprob, ...] = ()
    prompt_logprobs: tuple[TokenLogprob, ...] = ()
    thought: str = ""
    """What came before the text."""
    calls: tuple[ToolCall, ...] = ()
    """What the model asks for; the arguments of each are JSON."""
    notes: tuple[str, ...] = ()
    """On what could not be read as a call, and on messages and schemas that were not taken as they are."""

    @property
    def message(self) -> Message:
        """For the next turn of the conversation."""
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
    """Of the hardware, which several backends may show; empty: not known."""
    splits_rows: bool = False
    """Whether rows of a matrix can be divided between it and others of its backend."""

    @property
    def memory_key(self) -> str:
        """The same for devices that share their memory."""
        return self.id or self.name


class LayerMemory(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Numbers that one layer keeps in its context's memory."""

    keys: int = 0
    """Of each token."""
    values: int = 0
    state: int = 0
    """Of each slot, F32: what a recurrent layer has instead."""
    is_windowed: bool = False
    """Only the last tokens' stay: a sliding window's."""


class ModelInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a GGUF header says of its model. Counts are of elements, sizes are bytes."""

    architecture: str
    name: str | None
    num_parameters: int
    size_bytes: int
    """Tensor data in all shards."""
    quantization: dict[str, int]
    """ggml type name -> bytes of tensor data of that type, largest first."""
    file_type: str | None
    """The label of `general.file_type`, e.g. `Q4_K_M`."""
    context_length: int | None
    num_layers: int
    embedding_length: int | None
    feed_forward_length: int | None
    num_heads: int | None
    num_kv_heads: int | None
    vocabulary_size: int
    tokenizer: str | None
    """`tokenizer.ggml.model`, e.g. `gpt2` (BPE), `llama` (SentencePiece)."""
    chat_templates: dict[str, str]
    """Template name -> Jinja source; the unnamed one is `default`."""
    chat_template_source: str = ""
    """Where `default` is from: the `file`, the `manifest`, its `architecture` (the file has none), an `option`."""
    sampling: dict[str, float]
    """The model's own `general.sampling.*` numbers: temperature, top_k, top_p, min_p."""
    layer_bytes: tuple[int, ...]
    """Tensor bytes per block, `num_layers` long."""
    other_bytes: int
    """Tensor bytes outside the blocks: embeddings, output head, norms."""
    tensors: dict[str, int] = {}
    """Name -> bytes; empty where nobody plans with it."""
    split_count: int
    """Number of files; 1 when not split."""
    causal: bool = True
    """False for encoders such as BERT."""
    pooling: Pooling | None = None
    """How its vectors are meant to be pooled, if it says so."""
    has_ranking_head: bool = False
    """It can score a text: what pooling `rank` needs."""
    layer_memory: tuple[LayerMemory, ...] = ()
    """What each block keeps of the tokens."""
    sliding_window: int = 0
    """Tokens that windowed layers look back; 0: there are none."""
    experts_used: int = 0
    """Of a mixture: experts that a token takes; 0: it is none."""
    expert_feed_forward_length: int | None = None
    """Of one expert, where the header says it apart."""
    fills_in_middle: bool = False
    """It has tokens for a text of which the beginning and the end are given."""
    products: Products = Products()
    """What a token is multiplied with."""


class LoadedModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model that can answer, as its worker reported it in `Ready`."""

    id: str
    path: str
    info: ModelInfo
    ctx: int
    """Tokens each slot holds; of an encoder those of the longest text."""
    slots: int  # 0 for an encoder: it generates nothing
    memory: MemoryKind = "attention"
    kv: KvLayout = "partitioned"
    kv_reason: str = ""
    """Why that layout."""
    format: ChatFormat = ChatFormat()
    """How it writes thoughts and calls."""
    flash_attn: Literal["on", "off"] = "on"
    flash_attn_reason: str = ""
    speculation: Literal["auto", "off"] = "off"
    speculation_reason: str = ""
    draft: str = ""
    """The id of the model that guesses for it; empty: none does."""
    draft_reason: str = ""
    """Why none does, where one was asked for."""
    threads: int
    threads_batch: int = 0
    """For prompts."""
    ubatch: int = 0
    """Tokens of a prompt that are computed at once; of an encoder 0."""
    tuned: str = ""
    """What `localllm tune` found for this model here that is used, or why that is not."""
    layers_per_device: dict[str, int]
    """Device name -> layers on it; the CPU's included, the output layer counted as a layer, as llama.cpp does."""
    placement_note: str = ""
    """Why fewer layers are on GPUs than would be if it were alone; empty: they are not."""
    backend: str
    """What computes on the CPU, e.g. `sapphirerapids` or `linked-in, use_extra_bufts=off`."""
    load_s: float
    created_unix_s: int
    pooling: Pooling = "last"
    embedding_ctx: int = 0
    """Tokens of the longest text that it embeds or ranks."""
    dimensions: int = 0
    """Numbers in a vector of its embeddings."""
    defaults: SamplingParams = SamplingParams()
    """Of its manifest, for requests that do not say."""
    sampling: ResolvedSampling = ResolvedSampling()
    """What such requests are drawn with; the seed only where `defaults` has one."""
    bos_text: str = ""
    eos_text: str = ""
