"""Response bodies of Ollama's API. Durations are nanoseconds; empty fields are omitted, as in Go."""

from __future__ import annotations

import datetime
import math
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from localllm.types import Finish, TokenLogprob, ToolCall

LEAST_LOGPROB = -9999.0
"""JSON has no infinity."""
FOREVER = "2318-01-01T00:00:00Z"
"""The expiry of a model that stays loaded."""


class CalledFunction(msgspec.Struct, frozen=True):
    index: int
    name: str
    arguments: dict[str, Any]


class CallObject(msgspec.Struct, frozen=True):
    id: str
    function: CalledFunction


class ReplyMessage(msgspec.Struct, frozen=True, kw_only=True):
    role: str = "assistant"
    content: str = ""
    thinking: str | msgspec.UnsetType = msgspec.UNSET
    tool_calls: list[CallObject] | msgspec.UnsetType = msgspec.UNSET


class TopLogprob(msgspec.Struct, frozen=True):
    token: str
    logprob: float
    bytes: list[int]


class Logprob(msgspec.Struct, frozen=True):
    token: str
    logprob: float
    bytes: list[int]
    top_logprobs: list[TopLogprob] | msgspec.UnsetType = msgspec.UNSET


class ChatReply(msgspec.Struct, frozen=True, kw_only=True):
    """A complete answer or one line of it; only the last has usage."""

    model: str
    created_at: str
    message: ReplyMessage
    done: bool
    done_reason: str | msgspec.UnsetType = msgspec.UNSET
    logprobs: list[Logprob] | msgspec.UnsetType = msgspec.UNSET
    total_duration: int | msgspec.UnsetType = msgspec.UNSET
    load_duration: int | msgspec.UnsetType = msgspec.UNSET
    prompt_eval_count: int | msgspec.UnsetType = msgspec.UNSET
    prompt_eval_duration: int | msgspec.UnsetType = msgspec.UNSET
    eval_count: int | msgspec.UnsetType = msgspec.UNSET
    eval_duration: int | msgspec.UnsetType = msgspec.UNSET
    image_eval_count: int | msgspec.UnsetType = msgspec.UNSET
    """Ours, for prompts with pictures or sounds: how many tokens of `prompt_eval_count` these are, the time that they
    took, and how many of them, or of their tiles, were known already."""
    audio_eval_count: int | msgspec.UnsetType = msgspec.UNSET
    encode_duration: int | msgspec.UnsetType = msgspec.UNSET
    encode_cached_count: int | msgspec.UnsetType = msgspec.UNSET


class GenerateReply(msgspec.Struct, frozen=True, kw_only=True):
    """A complete answer or one line of it; only the last has usage."""

    model: str
    created_at: str
    response: str = ""
    thinking: str | msgspec.UnsetType = msgspec.UNSET
    done: bool
    done_reason: str | msgspec.UnsetType = msgspec.UNSET
    context: list[int] | msgspec.UnsetType = msgspec.UNSET
    """The tokens of the prompt and its answer."""
    logprobs: list[Logprob] | msgspec.UnsetType = msgspec.UNSET
    total_duration: int | msgspec.UnsetType = msgspec.UNSET
    load_duration: int | msgspec.UnsetType = msgspec.UNSET
    prompt_eval_count: int | msgspec.UnsetType = msgspec.UNSET
    prompt_eval_duration: int | msgspec.UnsetType = msgspec.UNSET
    eval_count: int | msgspec.UnsetType = msgspec.UNSET
    eval_duration: int | msgspec.UnsetType = msgspec.UNSET
    image_eval_count: int | msgspec.UnsetType = msgspec.UNSET
    """Ours, for prompts with pictures or sounds: how many tokens of `prompt_eval_count` these are, the time that they
    took, and how many of them, or of their tiles, were known already."""
    audio_eval_count: int | msgspec.UnsetType = msgspec.UNSET
    encode_duration: int | msgspec.UnsetType = msgspec.UNSET
    encode_cached_count: int | msgspec.UnsetType = msgspec.UNSET


class EmbedReply(msgspec.Struct, frozen=True, kw_only=True):
    model: str
    embeddings: list[list[float]]
    total_duration: int | msgspec.UnsetType = msgspec.UNSET
    load_duration: int | msgspec.UnsetType = msgspec.UNSET
    prompt_eval_count: int | msgspec.UnsetType = msgspec.UNSET


class EmbeddingsReply(msgspec.Struct, frozen=True):
    embedding: list[float]


class Version(msgspec.Struct, frozen=True):
    version: str


class ProgressLine(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of a pull or create; the last is `success`."""

    status: str
    digest: str | msgspec.UnsetType = msgspec.UNSET
    """Clients distinguish downloads by this; here it is the model's, since a pull is one download."""
    total: int | msgspec.UnsetType = msgspec.UNSET
    completed: int | msgspec.UnsetType = msgspec.UNSET


def now() -> str:
    """The current time in Go's format, to the nanosecond."""
    return moment(time.time_ns())


def moment(unix_ns: int) -> str:
    """RFC 3339 in UTC, without trailing zeros in the fraction."""
    seconds, fraction = divmod(unix_ns, 10**9)
    whole = datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{whole}{f'.{fraction:09d}'.rstrip('0') if fraction else ''}Z"


def metrics(finish: Finish, load_s: float, total_s: float) -> dict[str, Any]:
    """An answer's usage, as fields of a reply."""
    return {
        "total_duration": nanoseconds(total_s),
        "load_duration": nanoseconds(load_s),
        "prompt_eval_count": finish.usage.prompt_tokens,
        "prompt_eval_duration": nanoseconds(finish.timings.prefill_s),
        "eval_count": finish.usage.completion_tokens,
        "eval_duration": nanoseconds(finish.timings.decode_s),
        **_media_metrics(finish),
    }


def _media_metrics(finish: Finish) -> dict[str, Any]:
    usage, timings = finish.usage, finish.timings
    if not usage.image_tokens and not usage.audio_tokens:
        return {}
    return {
        "image_eval_count": usage.image_tokens or msgspec.UNSET,
        "audio_eval_count": usage.audio_tokens or msgspec.UNSET,
        "encode_duration": nanoseconds(timings.encode_s),
        "encode_cached_count": timings.cached_encodes or msgspec.UNSET,
    }


def nanoseconds(seconds: float) -> int:
    """At least 1 ns: Go omits zero, and clients divide by it."""
    return max(1, round(seconds * 1e9))


def call_object(index: int, call: ToolCall) -> CallObject | None:
    """The call for the reply; None if its arguments were truncated and are not an object."""
    try:
        arguments = msgspec.json.decode(call.arguments or "{}", type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return None
    return CallObject(call.id, CalledFunction(index, call.name, arguments))


def logprobs(items: Sequence[TokenLogprob]) -> list[Logprob]:
    """Log-probabilities of a line's tokens."""
    return [
        Logprob(
            _text(item.piece),
            _number(item.logprob),
            list(item.piece),
            [TopLogprob(_text(piece), _number(logprob), list(piece)) for piece, logprob in item.top] or msgspec.UNSET,
        )
        for item in items
    ]


def _text(piece: bytes) -> str:
    return piece.decode("utf-8", "replace")


def _number(logprob: float) -> float:
    return LEAST_LOGPROB if math.isnan(logprob) else max(logprob, LEAST_LOGPROB)
