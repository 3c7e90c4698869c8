"""Replies of `/completion` and `/infill`: complete and streamed. Names and order are llama-server's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType, field

from localllm.server.answers.remarks import Remarks
from localllm.server.answers.timings import ProgressObject, SpeedObject
from localllm.types import DrySampling, Finish, Making, TokenLogprob

LOWEST = -3.4028234663852886e38
"""The lowest float32, since JSON has no infinity."""
DEFAULT_DRY = DrySampling(multiplier=0.0)

StopType = Literal["none", "eos", "limit", "word"]


class Likely(msgspec.Struct, frozen=True, kw_only=True):
    """An alternative token, with one of the two fields."""

    id: int
    token: str
    bytes: list[int]
    logprob: float | UnsetType = UNSET
    prob: float | UnsetType = UNSET
    """After all filters: `post_sampling_probs`."""


class Chosen(Likely, frozen=True, kw_only=True):
    """A token, and the most likely alternatives."""

    top_logprobs: list[Likely] | UnsetType = UNSET
    top_probs: list[Likely] | UnsetType = UNSET


class BiasObject(msgspec.Struct, frozen=True):
    bias: float | None
    """None: the token is forbidden."""
    token: int


class GenerationSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The effective sampling settings, including defaults; the seed is the one that was used."""

    seed: int
    temperature: float
    dynatemp_range: float
    dynatemp_exponent: float
    top_k: int
    top_p: float
    min_p: float
    top_n_sigma: float
    xtc_probability: float
    xtc_threshold: float
    typical_p: float
    repeat_last_n: int
    repeat_penalty: float
    presence_penalty: float
    frequency_penalty: float
    dry_multiplier: float
    dry_base: float
    dry_allowed_length: int
    dry_penalty_last_n: int
    dry_sequence_breakers: list[str]
    mirostat: int
    mirostat_tau: float
    mirostat_eta: float
    adaptive_target: float = -1.0
    adaptive_decay: float = 0.9
    stop: list[str]
    max_tokens: int
    n_predict: int
    n_keep: int
    n_discard: int
    ignore_eos: bool
    stream: bool
    logit_bias: list[BiasObject]
    n_probs: int
    min_keep: int = 0
    grammar: str
    grammar_lazy: bool = False
    grammar_triggers: list[str] = []
    preserved_tokens: list[int] = []
    chat_format: str = "Content-only"
    reasoning_format: str = "none"
    reasoning_in_content: bool = False
    generation_prompt: str = ""
    samplers: list[str]
    speculative_types: str = field(default="none", name="speculative.types")
    timings_per_token: bool
    post_sampling_probs: bool
    backend_sampling: bool = False
    lora: list[str] = []


class WholeReply(msgspec.Struct, frozen=True, kw_only=True):
    """A complete answer, or the last event of a stream, whose text and tokens were sent before."""

    index: int
    content: str
    tokens: list[int]
    id_slot: int
    stop: bool = True
    model: str
    tokens_predicted: int
    tokens_evaluated: int
    image_tokens: int | UnsetType = UNSET
    """Ours: how many of these are of pictures, if there are any; and of sounds."""
    audio_tokens: int | UnsetType = UNSET
    generation_settings: GenerationSettings
    prompt: str
    has_new_line: bool
    truncated: bool
    stop_type: StopType
    stopping_word: str
    tokens_cached: int
    timings: SpeedObject
    completion_probabilities: list[Chosen] | UnsetType = UNSET
    localllm: Remarks | UnsetType = UNSET


class PartialReply(msgspec.Struct, frozen=True, kw_only=True):
    """An event of a stream."""

    index: int
    content: str
    tokens: list[int]
    stop: bool = False
    id_slot: int
    tokens_predicted: int
    tokens_evaluated: int
    timings: SpeedObject | UnsetType = UNSET
    prompt_progress: ProgressObject | UnsetType = UNSET
    completion_probabilities: list[Chosen] | UnsetType = UNSET


def sampling_of(making: Making) -> dict[str, Any]:
    """The sampling fields of `GenerationSettings`."""
    sampling = making.sampling
    dry = sampling.dry or DEFAULT_DRY
    same = {name: getattr(sampling, name) for name in _SAME}
    limit = -1 if making.max_tokens is None else making.max_tokens
    return same | {
        "top_n_sigma": sampling.top_n_sigma or -1.0,
        "dry_multiplier": dry.multiplier,
        "dry_base": dry.base,
        "dry_allowed_length": dry.allowed_length,
        "dry_penalty_last_n": dry.penalty_last_n,
        "dry_sequence_breakers": list(dry.sequence_breakers),
        "logit_bias": [
            BiasObject(None if bias == -math.inf else bias, token) for token, bias in sampling.logit_bias.items()
        ],
        "max_tokens": limit,
        "n_predict": limit,
    }


_SAME = (
    "seed", "temperature", "dynatemp_range", "dynatemp_exponent", "top_k", "top_p", "min_p", "xtc_probability",
    "xtc_threshold", "typical_p", "repeat_last_n", "repeat_penalty", "presence_penalty", "frequency_penalty",
    "mirostat", "mirostat_tau", "mirostat_eta",
)  # fmt: skip


def probabilities(items: Sequence[TokenLogprob], *, behind_filters: bool) -> list[Chosen]:
    """Log-probabilities or probabilities of tokens; the latter omit tokens that could not be drawn."""
    return [_chosen(item, behind_filters=behind_filters) for item in items]


def _chosen(item: TokenLogprob, *, behind_filters: bool) -> Chosen:
    top = [
        Likely(**_likely(token, piece, logprob, behind_filters=behind_filters))
        for token, (piece, logprob) in zip(item.top_tokens, item.top, strict=True)
    ]
    own = _likely(item.token, item.piece, item.logprob, behind_filters=behind_filters)
    return Chosen(**own, top_probs=top) if behind_filters else Chosen(**own, top_logprobs=top)


def _likely(token: int, piece: bytes, logprob: float, *, behind_filters: bool) -> dict[str, Any]:
    text = piece.decode("utf-8", "replace")
    number = {"prob": math.exp(logprob)} if behind_filters else {"logprob": max(logprob, LOWEST)}
    return {"id": token, "token": text, "bytes": list(piece), **number}


def stop_type(finish: Finish) -> StopType:
    """Why an answer ended; the request's time limit counts as a limit."""
    if finish.reason in ("length", "timeout"):
        return "limit"
    return "eos" if finish.stop is None else "word"


def only(reply: WholeReply, paths: Sequence[str]) -> dict[str, Any]:
    """The requested parts of a reply, each under its path; a slash separates object levels."""
    everything = msgspec.json.decode(msgspec.json.encode(reply))
    found: dict[str, Any] = {}
    for path in paths:
        value: Any = everything
        for name in path.split("/"):
            if not isinstance(value, dict) or name not in value:
                break
            value = value[name]
        else:
            found[path] = value
    return found
