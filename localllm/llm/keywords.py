"""The keyword arguments of `LLM` and `AsyncLLM`, each declared and explained once. Checks nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypedDict

from localllm.llm.tools import Tools
from localllm.settings.config import Settings
from localllm.system.cancel import Cancel
from localllm.types import GpuLayers, Pooling, SamplingParams, Speculative
from localllm.types.keywords import Keywords
from localllm.types.load_options import LoadOptions
from localllm.types.states import ModelEvent
from localllm.types.transcripts import TranscriptSegment


class LoadArguments(TypedDict, total=False):
    """ctx: tokens per slot. slots: requests computed concurrently. gpu_layers: a number, "all" or "auto". pooling:
    overrides the model's own pooling of embeddings. embedding_ctx: tokens of the longest text to embed. draft: a
    smaller model with the same vocabulary for speculative decoding, or "auto". mmproj: the file of its projector, for
    pictures and sound. adapters: LoRA adapters and control vectors under which it answers, each NAME[:SCALE] of one
    that it has, or [NAME=]FILE[:SCALE]; of a control vector, :FIRST-LAST may follow: the only layers that it changes.
    options: all other `LoadOptions`.
    settings: used alone; neither environment nor files are read. home: holds all data and the only config.toml that is
    read; the environment is ignored. With neither, this user's configuration applies. Settings for loading count
    unless `options` has another value than its default; the arguments before it override both.
    on_progress, on_event: called with the fraction loaded, and with every `ModelEvent`. They must not block;
    exceptions they raise are logged.
    """

    ctx: int | None
    slots: int | None
    gpu_layers: GpuLayers
    threads: int | None
    pooling: Pooling | None
    embedding_ctx: int | None
    draft: str | Path | None
    mmproj: str | Path | None
    adapters: Sequence[str] | str | None
    options: LoadOptions | None
    settings: Settings | None
    home: str | Path | None
    on_progress: Callable[[float], None] | None
    on_event: Callable[[ModelEvent], None] | None


class ToolArguments(TypedDict, total=False):
    """tools: what the model may call: dicts in OpenAI's format, or Python functions with type hints. Requested calls
    are in the answer's `calls`; none is executed here. tool_choice: `auto`, `required`, `none` or a tool's name.
    thinking: whether the model thinks first, if its template can switch.
    """

    tools: Tools | None
    tool_choice: str
    parallel_tool_calls: bool
    thinking: bool | None


class AnswerArguments(TypedDict, total=False):
    """adapters: LoRA adapters for this answer in place of those of the model, in the same forms; an empty list: none.
    thinking_budget: token limit of `thought`. params: how to choose tokens; its fields may also be given as keywords
    (`temperature=0`), each in one of the two places.
    cache_prompt: whether cached prefixes may be reused. batch: served after all requests that are not, whatever their
    priority; these take its slot, and it goes on later. prediction: text that the answer probably repeats, for speed;
    speculative: `False` or limits of guessing.
    cancel: ends the answer from any thread; the partial answer has the finish reason `cancelled`.
    """

    adapters: Sequence[str] | str | None
    thinking_budget: int | None
    params: SamplingParams | None
    cache_prompt: bool
    batch: bool
    prediction: str | None
    speculative: bool | Speculative | None
    cancel: Cancel | None


class WaitArguments(TypedDict, total=False):
    """timeout: seconds; `RequestTimeout` if nothing was computed by then, else the partial answer with the finish
    reason `timeout`. priority: lower values are served first.
    """

    timeout: float | None
    priority: int


class SamplingArguments(TypedDict, total=False):
    """The fields of `SamplingParams`; None: as `params` says."""

    temperature: float | None
    top_k: int | None
    top_p: float | None
    min_p: float | None
    top_n_sigma: float | None
    typical_p: float | None
    xtc_probability: float | None
    xtc_threshold: float | None
    dynatemp_range: float | None
    dynatemp_exponent: float | None
    mirostat: int | None
    mirostat_tau: float | None
    mirostat_eta: float | None
    repeat_penalty: float | None
    repeat_last_n: int | None
    presence_penalty: float | None
    frequency_penalty: float | None
    dry_multiplier: float | None
    dry_base: float | None
    dry_allowed_length: int | None
    dry_penalty_last_n: int | None
    dry_sequence_breakers: list[str] | tuple[str, ...] | None
    logit_bias: dict[int, float] | None
    seed: int | None
    logprobs: int | None
    prompt_logprobs: int | None
    min_tokens: int | None
    max_tokens: int | None
    stop: list[str] | tuple[str, ...] | None
    stop_token_ids: list[int] | tuple[int, ...] | None
    ignore_eos: bool | None


class CompleteArguments(AnswerArguments, WaitArguments, SamplingArguments, total=False):
    """Keywords of `complete`, besides `schema` and `stream`."""


class ChatArguments(ToolArguments, CompleteArguments, total=False):
    """Keywords of `chat`, besides `schema` and `stream`."""


class ScoreArguments(WaitArguments, total=False):
    """adapters, batch, cache_prompt: as for answers."""

    adapters: Sequence[str] | str | None
    batch: bool
    cache_prompt: bool


class SelectArguments(ScoreArguments, total=False):
    """per_token: compares the means of the tokens' log-probabilities, not their sums, by which long texts are less
    likely than short ones.
    """

    per_token: bool


class EmbedArguments(WaitArguments, total=False):
    """dimensions: keep only this many of the first components (Matryoshka models). normalize: scale the result to unit
    length. truncate: a text that is too long is truncated at its end instead of refused.
    """

    dimensions: int | None
    normalize: bool
    truncate: bool


class RerankArguments(WaitArguments, total=False):
    """top_n: how many of the best to return; None: all. truncate: documents that are too long are truncated at their
    end instead of refused.
    """

    top_n: int | None
    truncate: bool


class TranscribeArguments(WaitArguments, total=False):
    """language: of the sound, such as `de`. translate: into English. prompt: what the model is asked, in place of what
    its kind was trained for. max_tokens: of each segment's text. on_segment: called with each segment as soon as it is
    whole, in order. It must not block; exceptions it raises are logged.
    """

    language: str | None
    translate: bool
    prompt: str | None
    max_tokens: int | None
    on_segment: Callable[[TranscriptSegment], None] | None


_ANSWER_DEFAULTS = {"priority": 0, "cache_prompt": True, "batch": False}
LOAD = Keywords(LoadArguments, defaults={"gpu_layers": "auto"})
COMPLETE = Keywords(
    CompleteArguments, AnswerArguments, WaitArguments, rest=SamplingArguments, defaults=_ANSWER_DEFAULTS
)
CHAT = Keywords(
    ChatArguments,
    ToolArguments,
    AnswerArguments,
    WaitArguments,
    rest=SamplingArguments,
    defaults={**_ANSWER_DEFAULTS, "tool_choice": "auto", "parallel_tool_calls": True},
)
SCORE = Keywords(ScoreArguments, ScoreArguments, WaitArguments, defaults=_ANSWER_DEFAULTS)
SELECT = Keywords(SelectArguments, SelectArguments, WaitArguments, defaults={**_ANSWER_DEFAULTS, "per_token": True})
EMBED = Keywords(EmbedArguments, defaults={"normalize": True, "truncate": False, "priority": 0})
RERANK = Keywords(RerankArguments, defaults={"truncate": False, "priority": 0})
TRANSCRIBE = Keywords(TranscribeArguments, defaults={"translate": False, "priority": 0})
