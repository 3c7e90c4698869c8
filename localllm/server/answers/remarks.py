"""Metadata of answers in several APIs: warnings, timings and finish reasons. Knows no reply's format."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from localllm.errors import Draining
from localllm.server.answers.timings import Speed, encoding_of, speed_of
from localllm.types import Finish, Timings


class TimingsObject(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of one answer: waiting for a slot, prompt, tokens; and from arrival to first token.

    For a prompt with pictures or sounds: `encode_ms`, which they took, and how many of them, or of their tiles, were
    known already (`encode_cached`). The other fields are llama-server's, included if `timings_per_token` is set: see
    `SpeedObject`.
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
    draft_n: int | msgspec.UnsetType = msgspec.UNSET
    draft_n_accepted: int | msgspec.UnsetType = msgspec.UNSET
    encode_ms: float | msgspec.UnsetType = msgspec.UNSET
    encode_cached: int | msgspec.UnsetType = msgspec.UNSET


Limit = Literal["context", "timeout", "closed"]
"""`context`: the context is full, so continuing the answer fails; `timeout`: the time limit of the request; `closed`:
the document was closed before its limit with the shortest values, and is whole (`close_at_limit`)."""


class Remarks(msgspec.Struct, frozen=True, omit_defaults=True):
    """Extensions of OpenAI's replies."""

    warnings: list[str] = []
    num_tokens: int = 0
    """In a chunk, if `timings` is set: the number of tokens in it."""
    cache_miss: str | msgspec.UnsetType | None = msgspec.UNSET
    """If requested: why the prompt was not cached; null if everything ever computed of it was."""
    limit: Limit | msgspec.UnsetType = msgspec.UNSET
    """What ended an answer early, if it was not cut off at its token limit."""


def remarks(
    warnings: Iterable[str], cache_miss: str | None = None, finish: Finish | None = None
) -> Remarks | msgspec.UnsetType:
    """Each warning once; absent if there is nothing to report. `cache_miss` may be null in the reply."""
    miss = msgspec.UNSET if cache_miss is None else cache_miss or None
    made = Remarks(list(dict.fromkeys(warnings)), cache_miss=miss, limit=_limit(finish))
    return msgspec.UNSET if made == Remarks() else made


def _limit(finish: Finish | None) -> Limit | msgspec.UnsetType:
    if finish is None:
        return msgspec.UNSET
    if finish.is_closed:
        return "closed"
    return "timeout" if finish.reason == "timeout" else "context" if finish.is_context_full else msgspec.UNSET


def timings_object(timings: Timings) -> TimingsObject:
    """The timings in seconds, and the time to the first token."""
    return TimingsObject(
        queue_s=timings.queue_s,
        prefill_s=timings.prefill_s,
        decode_s=timings.decode_s,
        ttft_s=round(timings.queue_s + timings.prefill_s, 6),
    )


def final_timings(finish: Finish, *, seconds: bool, speed: bool) -> TimingsObject | msgspec.UnsetType:
    """The requested timings of a whole answer: `timings`, `timings_per_token`."""
    if not seconds and not speed:
        return msgspec.UNSET
    whole = timings_object(finish.timings) if seconds else TimingsObject()
    whole = msgspec.structs.replace(whole, **encoding_of(finish))
    return msgspec.structs.replace(whole, **msgspec.structs.asdict(speed_of(finish))) if speed else whole


def running_timings(speed: Speed) -> TimingsObject | msgspec.UnsetType:
    """The same for an answer in progress."""
    so_far = speed.so_far()
    return msgspec.UNSET if so_far is None else TimingsObject(**msgspec.structs.asdict(so_far))


def finish_reason(finish: Finish) -> Literal["stop", "length"]:
    """Reaching a request's time limit counts as reaching its token limit.

    Raises `Draining` if the server cut the answer short: a client must not take it for complete.
    """
    if finish.reason == "cancelled":
        raise Draining("the answer was cancelled by the server")
    return "length" if finish.reason == "timeout" else finish.reason
