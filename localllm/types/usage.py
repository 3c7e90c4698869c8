"""What an answer cost: tokens, seconds, and what of its prompt was in the cache."""

from __future__ import annotations

import msgspec


class Usage(msgspec.Struct, frozen=True):
    """Token counts of one request."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    shifted_tokens: int = 0
    """That the model had forgotten when the answer ended (context shift)."""
    reasoning_tokens: int = 0
    """Of the completion's, those of its thought."""
    accepted_guesses: int = 0
    """Of the completion's, those that were guessed and computed before it was their turn."""
    rejected_guesses: int = 0
    """Tokens that were guessed and computed, and did not come."""

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


class CacheReport(msgspec.Struct, frozen=True):
    """What there was of a conversation before it was asked again."""

    known_tokens: int = 0
    """At the prompt's beginning, that were computed before."""
    reason: str = ""
    """Why there are no more; nothing: as far as is known, there are none."""

    def miss(self, cached_tokens: int) -> str:
        """Why not all was in the cache, of which so much was; nothing: it was."""
        if self.reason or cached_tokens >= self.known_tokens - 1:
            return self.reason
        return f"of {self.known_tokens} tokens that were computed before, {cached_tokens} were still in memory"


class Timings(msgspec.Struct, frozen=True):
    """Where a request's time went: waiting for a slot, computing the prompt, then making tokens."""

    queue_s: float
    prefill_s: float
    decode_s: float
