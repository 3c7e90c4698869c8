"""What is said of an answer beside it, in several APIs: remarks, seconds, and why it ended. Knows no reply's shape."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from localllm.errors import Draining
from localllm.server.speed import Speed, speed_of
from localllm.types import Finish, Timings


class TimingsObject(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of one answer: until it had a slot, its prompt, its tokens; and from its arrival to its first token.

    The other fields are llama-server's, where `timings_per_token` asks for them: see `SpeedObject`.
    """

    queue_s: float | msgspec.UnsetType = msgspec.UNSET
    prefill_s: float | msgspec.UnsetType = msgspec.UNSET
    decode_s: float | msgspec.UnsetType = msgspec.UNSET
    ttft_s: float | msgspec.UnsetType = msgspec.UNSET
    cache_n: int | msgspec.UnsetType = msgspec.UNSET
    prompt_n: int | msgspec.UnsetType = msgspec.UNSET
    prompt_ms: float | msgspec.UnsetType = msgspec.UNSET
    prompt_per_token_ms: float | msgspec.UnsetType = msgspec.UNSET
    prompt_per_second: float | msgspec.UnsetType = msgspec.UNSET
    predicted_n: int | msgspec.UnsetType = msgspec.UNSET
    predicted_ms: float | msgspec.UnsetType = msgspec.UNSET
    predicted_per_token_ms: float | msgspec.UnsetType = msgspec.UNSET
    predicted_per_second: float | msgspec.UnsetType = msgspec.UNSET


class Remarks(msgspec.Struct, frozen=True, omit_defaults=True):
    """What there is to say of an answer beyond OpenAI's fields."""

    warnings: list[str] = []
    num_tokens: int = 0
    """In a chunk of a stream, where `timings` are asked for: tokens behind it."""
    cache_miss: str | msgspec.UnsetType | None = msgspec.UNSET
    """Where it was asked for: why the prompt was not in the cache; null: all was that was ever computed of it."""


def remarks(warnings: Iterable[str], cache_miss: str | None = None) -> Remarks | msgspec.UnsetType:
    """Each once; absent where there are none, and nothing was asked. `cache_miss`: nothing is a reply as well."""
    said = list(dict.fromkeys(warnings))
    if cache_miss is not None:
        return Remarks(said, cache_miss=cache_miss or None)
    return Remarks(said) if said else msgspec.UNSET


def timings_object(timings: Timings) -> TimingsObject:
    """Timings with what follows from them."""
    return TimingsObject(
        queue_s=timings.queue_s,
        prefill_s=timings.prefill_s,
        decode_s=timings.decode_s,
        ttft_s=round(timings.queue_s + timings.prefill_s, 6),
    )


def final_timings(finish: Finish, *, seconds: bool, speed: bool) -> TimingsObject | msgspec.UnsetType:
    """Of a whole answer, those that were asked for: `timings`, `timings_per_token`."""
    if not seconds and not speed:
        return msgspec.UNSET
    whole = timings_object(finish.timings) if seconds else TimingsObject()
    return msgspec.structs.replace(whole, **msgspec.structs.asdict(speed_of(finish))) if speed else whole


def running_timings(speed: Speed) -> TimingsObject | msgspec.UnsetType:
    """Of an answer that is on its way."""
    told = speed.so_far()
    return msgspec.UNSET if told is None else TimingsObject(**msgspec.structs.asdict(told))


def finish_reason(finish: Finish) -> Literal["stop", "length"]:
    """A request's own time limit cuts as its token limit does.

    Raises `Draining` for an answer that was cut short from our side: a client must not take it for whole.
    """
    if finish.reason == "cancelled":
        raise Draining("the answer was cancelled by the server")
    return "length" if finish.reason == "timeout" else finish.reason
