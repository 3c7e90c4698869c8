"""The nouns that every layer shares: what is asked, what is answered, what a model is. Plain frozen data.

Knows nothing of processes, HTTP or llama.cpp. Sizes are bytes, times are seconds unless a name says otherwise.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from localllm.errors import InvalidParameter
from localllm.ranges import check_range, check_texts

KvLayout = Literal["partitioned", "unified"]
"""Of a model's KV cache: every slot has cells of its own, or all take theirs from one pool."""

KvType = Literal["f16", "q8_0", "q4_0"]
FlashAttn = Literal["auto", "on", "off"]
MemoryKind = Literal["attention", "sliding window", "recurrent"]
"""`attention` can lose its tail; the others go back to checkpoints. Hybrid models are `recurrent` here."""
GpuLayers = int | Literal["auto", "all"]
"""How many layers to offload: a count, every one of them, or what fits."""

Pooling = Literal["none", "mean", "cls", "last", "rank"]
"""How the vectors of a text's tokens become the text's: none at all (one for each token), their mean, the first one's,
the last one's, or a score by the model's ranking head."""

FinishReason = Literal["stop", "length", "timeout", "cancelled"]
"""`timeout`: the request's own time was over."""

MAX_TOKEN_ID = 2**31 - 1
"""llama.cpp's tokens are 32-bit integers."""
TokenId = Annotated[int, msgspec.Meta(ge=0, le=MAX_TOKEN_ID)]
"""Of any vocabulary; whether a model has that token is known only where the model is."""

MAX_STOP_STRINGS, MAX_STOP_CHARS, MAX_STOP_TOKENS = 16, 256, 256
MAX_BIASED_TOKENS = 1024
MAX_LOGPROBS = 20
MAX_BREAKERS, MAX_BREAKER_CHARS = 16, 40

SAMPLING_RANGES: dict[str, tuple[float, float]] = {
    "temperature": (0.0, 100.0),
    "typical_p": (0.0, 1.0),
    "xtc_probability": (0.0, 1.0),
    "xtc_threshold": (0.0, 1.0),
    "dynatemp_range": (0.0, 100.0),
    "dynatemp_exponent": (0.01, 100.0),
    "mirostat": (0, 2),
    "mirostat_tau": (0.0, 100.0),
    "mirostat_eta": (0.0, 10.0),
    "dry_multiplier": (0.0, 100.0),
    "dry_base": (1.0, 100.0),
    "dry_allowed_length": (1, 1000),
    "dry_penalty_last_n": (-1, 2**31 - 1),
    "top_k": (0, 2**31 - 1),
    "top_p": (0.0, 1.0),
    "min_p": (0.0, 1.0),
    "top_n_sigma": (0.0, 100.0),
    "repeat_penalty": (0.01, 100.0),
    "repeat_last_n": (-1, 2**31 - 1),
    "presence_penalty": (-2.0, 2.0),
    "frequency_penalty": (-2.0, 2.0),
    "logprobs": (0, MAX_LOGPROBS),
    "seed": (0, 2**32 - 1),
    "max_tokens": (1, 2**31 - 1),
    "min_tokens": (0, 2**31 - 1),
}
"""Field of `SamplingParams` -> its least and its greatest value."""


class SamplingParams(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """How to choose tokens. `None` means: the model's own `general.sampling.*` value, else our default.

    temperature 0 is greedy; top_k 0, top_p 1, typical_p 1, min_p 0, top_n_sigma 0, xtc_probability 0, dynatemp_range 0
    and mirostat 0 switch that off, as do the penalties 0, dry_multiplier 0 and repeat_penalty 1. Presence and frequency
    are those of what was generated; `repeat_penalty` and DRY look at the last `repeat_last_n` and `dry_penalty_last_n`
    tokens of prompt and answer (-1: all of them). With mirostat the filters that are None are off. Names, meanings and
    defaults are llama-server's. Raises `InvalidParameter`.
    """

    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    top_n_sigma: float | None = None
    typical_p: float | None = None
    xtc_probability: float | None = None
    xtc_threshold: float | None = None
    dynatemp_range: float | None = None
    dynatemp_exponent: float | None = None
    mirostat: int | None = None
    mirostat_tau: float | None = None
    mirostat_eta: float | None = None
    repeat_penalty: float | None = None
    repeat_last_n: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    dry_multiplier: float | None = None
    dry_base: float | None = None
    dry_allowed_length: int | None = None
    dry_penalty_last_n: int | None = None
    dry_sequence_breakers: tuple[str, ...] | None = None
    logit_bias: dict[int, float] | None = None
    """Token id -> what is added to its logit."""
    seed: int | None = None
    logprobs: int | None = None
    """Log-probabilities to report: each token's own and those of so many of the likeliest; None: none."""
    min_tokens: int = 0
    """Before so many, nothing ends the answer: no end token can be drawn, no stop string is looked for."""
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False

    def __post_init__(self) -> None:
        for name, (low, high) in SAMPLING_RANGES.items():
            check_range(name, getattr(self, name), low, high)
        check_texts("dry_sequence_breakers", self.dry_sequence_breakers or (), MAX_BREAKERS, MAX_BREAKER_CHARS)
        if len(self.logit_bias or ()) > MAX_BIASED_TOKENS:
            raise InvalidParameter(
                f"logit_bias takes at most {MAX_BIASED_TOKENS} tokens, got {len(self.logit_bias or ())}",
                param="logit_bias",
            )
        for token, bias in (self.logit_bias or {}).items():
            check_range(f"logit_bias.{token}", bias, -100.0, 100.0)
        if self.max_tokens is not None and self.min_tokens > self.max_tokens:
            raise InvalidParameter(
                f"min_tokens must not be above max_tokens ({self.max_tokens}), got {self.min_tokens}",
                param="min_tokens",
            )
        check_texts("stop", self.stop, MAX_STOP_STRINGS, MAX_STOP_CHARS)
        if len(self.stop_token_ids) > MAX_STOP_TOKENS:
            raise InvalidParameter(
                f"stop_token_ids takes at most {MAX_STOP_TOKENS} tokens, got {len(self.stop_token_ids)}",
                param="stop_token_ids",
            )


class DrySampling(msgspec.Struct, frozen=True, kw_only=True):
    """The penalty for going on with a repetition; see `engine.dry`."""

    multiplier: float
    base: float = 1.75
    allowed_length: int = 2
    """So many tokens may be repeated."""
    penalty_last_n: int = -1
    sequence_breakers: tuple[str, ...] = ("\n", ":", '"', "*")
    """No repetition reaches across these."""


class ResolvedSampling(msgspec.Struct, frozen=True, kw_only=True):
    """`SamplingParams` with every default filled in; what a sampler is built from."""

    temperature: float = 0.8
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    top_n_sigma: float = 0.0
    typical_p: float = 1.0
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    dynatemp_range: float = 0.0
    dynatemp_exponent: float = 1.0
    mirostat: int = 0
    mirostat_tau: float = 5.0
    mirostat_eta: float = 0.1
    repeat_penalty: float = 1.0
    repeat_last_n: int = 64
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    dry: DrySampling | None = None
    logit_bias: dict[int, float] = {}
    seed: int = 0


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """One turn of a chat."""

    role: str
    content: str


class ModelDefaults(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a model's manifest says for requests that say nothing of their own."""

    params: SamplingParams = SamplingParams()
    system: str | None = None
    """For chats without a system message."""
    messages: tuple[Message, ...] = ()
    """With which every chat begins, after its system message."""


class GenerationRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Exactly one of `messages` (rendered by the model's template), `prompt` and `prompt_tokens` is set."""

    messages: tuple[Message, ...] | None = None
    prompt: str | None = None
    prompt_tokens: tuple[int, ...] | None = None
    suffix: str | None = None
    """What comes after the answer: the prompt is then what comes before it, and the model fills in the middle."""
    params: SamplingParams = SamplingParams()
    cache_prompt: bool = True
    """Whether it may start from what is in the KV cache already."""
    cache_salt: str = ""
    """Requests with different salts share nothing of what was computed."""
    priority: int = 0
    """Lower ones wait less."""
    timeout_s: float | None = None
    """Where it is not answered by then: an error while it waits, the end of the answer while it runs."""
    queue_timeout_s: float | None = None
    """Where it has no slot by then: an error."""

    def __post_init__(self) -> None:
        check_range("priority", self.priority, -1000, 1000)
        check_range("timeout", self.timeout_s, 0.001, 1e6)
        check_range("queue_timeout", self.queue_timeout_s, 0.001, 1e6)


class Usage(msgspec.Struct, frozen=True):
    """Token counts of one request."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    shifted_tokens: int = 0
    """That the model had forgotten when the answer ended (context shift)."""

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


class Timings(msgspec.Struct, frozen=True):
    """Where a request's time went: waiting for a slot, computing the prompt, then making tokens."""

    queue_s: float
    prefill_s: float
    decode_s: float


class Finish(msgspec.Struct, frozen=True):
    """The end of an answer."""

    reason: FinishReason
    usage: Usage
    timings: Timings


class TokenLogprob(msgspec.Struct, frozen=True):
    """How likely the model thought a token, in nats, before any sampling parameter; and its likeliest tokens."""

    piece: bytes
    """What the token stands for."""
    logprob: float
    top: tuple[tuple[bytes, float], ...] = ()


class Delta(msgspec.Struct, frozen=True, omit_defaults=True):
    """A piece of an answer: new text (whole characters only), the tokens behind it, and in the last one the finish."""

    text: str = ""
    num_tokens: int = 0
    finish: Finish | None = None
    logprobs: tuple[TokenLogprob, ...] = ()
    """One for each token, if they were asked for."""


class Chat(msgspec.Struct, frozen=True):
    """A whole answer."""

    text: str
    finish: Finish
    logprobs: tuple[TokenLogprob, ...] = ()


class DeviceInfo(msgspec.Struct, frozen=True):
    """One compute device as ggml lists it."""

    name: str
    description: str
    kind: Literal["cpu", "gpu", "igpu", "accel"]
    backend: str
    free_bytes: int
    total_bytes: int


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
    sampling: dict[str, float]
    """The model's own `general.sampling.*` numbers: temperature, top_k, top_p, min_p."""
    layer_bytes: tuple[int, ...]
    """Tensor bytes per block, `num_layers` long."""
    other_bytes: int
    """Tensor bytes outside the blocks: embeddings, output head, norms."""
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


class LoadOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How to load a model. `ctx` is what each slot gets, in tokens; None: the model's own, at most 8,192."""

    ctx: int | None = None
    slots: int | None = None
    gpu_layers: GpuLayers = "auto"
    devices: tuple[str, ...] | None = None
    """Device names as `localllm doctor` prints them; None: all GPUs there are."""
    threads: int | None = None
    batch_tokens: int = 512
    kv_ram_mb: int = 2048
    """Main memory, in MiB, for what slots had computed when others needed them, and for checkpoints; 0: none."""
    checkpoints: int = 8
    """Of one conversation, where the memory cannot lose its tail; 0: it is continued or computed anew."""
    kv: Literal["auto", "partitioned", "unified"] = "auto"
    kv_type: KvType = "f16"
    """Of keys and values in the cache."""
    flash_attn: FlashAttn = "auto"
    kv_cells: int | None = None
    """Tokens that a unified cache holds for all slots together; None: `ctx` for each."""
    kv_disk_mb: int = 0
    """Disk, in MiB, for all models' conversations and saved slots, so that they outlive the process; 0: none."""
    context_shift: bool = False
    """An answer that reaches the end of its slot goes on without the oldest tokens, and says so."""
    max_step_ms: int = 300
    """No step is planned longer, so that a cancel or a new request never waits longer."""
    prefill_step_ms: int = 100
    """Nor one that computes prompts while answers stream, so that these go on: less is smoother for them, and later
    for the prompts."""
    pooling: Pooling | None = None
    """How embeddings are made; None: as the model says, else the mean for encoders and the last token for others."""
    embedding_ctx: int | None = None
    """Tokens of the longest text to embed; None: what the model was trained for, at most 2,048."""

    def __post_init__(self) -> None:
        check_range("ctx", self.ctx, 8, 2**24)
        check_range("slots", self.slots, 1, 256)
        check_range("threads", self.threads, 1, 1024)
        check_range("batch_tokens", self.batch_tokens, 32, 8192)
        check_range("kv_ram_mb", self.kv_ram_mb, 0, 2**24)
        check_range("kv_disk_mb", self.kv_disk_mb, 0, 2**30)
        check_range("checkpoints", self.checkpoints, 0, 256)
        check_range("kv_cells", self.kv_cells, 256, 2**28)
        if self.kv_cells is not None and self.kv == "partitioned":
            raise InvalidParameter("kv_cells is the size of a unified cache; leave it out, or kv", param="kv_cells")
        if self.kv_type != "f16" and self.flash_attn == "off":
            raise InvalidParameter(f"kv_type {self.kv_type} needs flash attention; leave out one", param="flash_attn")
        check_range("max_step_ms", self.max_step_ms, 10, 60_000)
        check_range("prefill_step_ms", self.prefill_step_ms, 10, 60_000)
        check_range("embedding_ctx", self.embedding_ctx, 8, 2**20)
        if isinstance(self.gpu_layers, int):
            check_range("gpu_layers", self.gpu_layers, 0, 2**31 - 1)


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
    flash_attn: Literal["on", "off"] = "on"
    flash_attn_reason: str = ""
    threads: int
    layers_per_device: dict[str, int]
    """Device name -> layers on it; the CPU's included, the output layer counted as a layer, as llama.cpp does."""
    backend: str
    """What computes on the CPU, e.g. `sapphirerapids` or `linked-in, use_extra_bufts=off`."""
    load_s: float
    created_unix_s: int
    pooling: Pooling = "last"
    embedding_ctx: int = 0
    """Tokens of the longest text that it embeds or ranks."""
    dimensions: int = 0
    """Numbers in a vector of its embeddings."""
