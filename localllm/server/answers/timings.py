"""Timings and prompt progress in llama-server's format, for every API that can include them.

Knows nothing of the answers themselves.
"""

from __future__ import annotations

import time
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from localllm.types import Delta, Detail, Finish, PromptProgress


class ProgressObject(msgspec.Struct, frozen=True):
    """`prompt_progress`: tokens, and milliseconds since the prompt got a slot."""

    total: int
    cache: int
    processed: int
    """Including cached tokens."""
    time_ms: int


class SpeedObject(msgspec.Struct, frozen=True):
    """`timings`: of computed prompt tokens and of generated tokens."""

    cache_n: int
    prompt_n: int
    prompt_ms: float
    prompt_per_token_ms: float
    prompt_per_second: float
    predicted_n: int
    predicted_ms: float
    """Since the first token, which belongs to the prompt's last step; rates count the others."""
    predicted_per_token_ms: float
    predicted_per_second: float
    draft_n: int | UnsetType = UNSET
    """Guessed tokens that were computed, of all sources, if there were any; those accepted. Of whole answers only."""
    draft_n_accepted: int | UnsetType = UNSET
    encode_ms: float | UnsetType = UNSET
    """Ours, of whole answers to prompts with pictures or sounds: the time that these took."""
    encode_cached: int | UnsetType = UNSET
    """How many of them, or of their tiles, were known already."""


def detail_of(stream: bool | None, return_progress: bool | None, timings_per_token: bool | None) -> Detail | None:
    """The reports that a stream needs for these fields; None if it needs none."""
    return Detail(progress=bool(return_progress)) if stream and (return_progress or timings_per_token) else None


def progress_object(progress: PromptProgress) -> ProgressObject:
    """The progress of a prompt as `prompt_progress`."""
    return ProgressObject(progress.total, progress.cached, progress.computed, int(1000 * progress.seconds))


def speed_of(finish: Finish) -> SpeedObject:
    """Timings of a complete answer."""
    usage, timings = finish.usage, finish.timings
    num_computed = usage.prompt_tokens - usage.cached_tokens
    speed = _speed(usage.cached_tokens, num_computed, timings.prefill_s, usage.completion_tokens, timings.decode_s)
    num_guesses = usage.accepted_guesses + usage.rejected_guesses
    guesses = {"draft_n": num_guesses, "draft_n_accepted": usage.accepted_guesses} if num_guesses else {}
    return msgspec.structs.replace(speed, **guesses, **encoding_of(finish))


def encoding_of(finish: Finish) -> dict[str, Any]:
    """The fields of `timings` about pictures and sounds; none if the prompt has none."""
    if not finish.usage.image_tokens and not finish.usage.audio_tokens:
        return {}
    timings = finish.timings
    return {"encode_ms": round(1000 * timings.encode_s, 3), "encode_cached": timings.cached_encodes}


class Speed:
    """Timings of an answer in progress."""

    def __init__(self) -> None:
        self.num_tokens = 0
        self.progress: PromptProgress | None = None
        self._first_s = 0.0

    def count(self, delta: Delta) -> None:
        """Update from a delta."""
        if delta.progress:
            self.progress = delta.progress[-1]
        if delta.num_tokens and not self.num_tokens:
            self._first_s = time.perf_counter()
        self.num_tokens += delta.num_tokens

    def of_prompt(self) -> SpeedObject | None:
        """Progress while the prompt is computed; None before it has a slot."""
        if self.progress is None:
            return None
        progress = self.progress
        num_computed = progress.computed - progress.cached
        return _speed(progress.cached, num_computed, progress.seconds if num_computed else 0.0, 0, 0.0)

    def so_far(self) -> SpeedObject | None:
        """Timings so far; None before the prompt is complete."""
        if self.progress is None or not self.num_tokens:
            return None
        progress, decode_s = self.progress, time.perf_counter() - self._first_s
        num_computed = progress.total - progress.cached
        return _speed(progress.cached, num_computed, progress.seconds, self.num_tokens, decode_s)


def _speed(num_cached: int, num_computed: int, prefill_s: float, num_made: int, decode_s: float) -> SpeedObject:
    prefill_ms, decode_ms = round(1000 * prefill_s, 3), round(1000 * decode_s, 3)
    num_steps = max(0, num_made - 1)
    return SpeedObject(
        num_cached,
        num_computed,
        prefill_ms,
        _rate(prefill_ms, num_computed),
        _rate(1000 * num_computed, prefill_ms),
        num_made,
        decode_ms,
        _rate(decode_ms, num_steps),
        _rate(1000 * num_steps, decode_ms),
    )


def _rate(part: float, whole: float) -> float:
    """0 instead of a division by zero, which JSON cannot express. Not rounded, to agree with the other fields."""
    return part / whole if whole > 0 else 0.0
