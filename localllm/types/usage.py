"""What an answer cost: tokens, seconds, and how much of its prompt was in the cache."""

from __future__ import annotations

import msgspec


class Usage(msgspec.Struct, frozen=True):
    """Token counts of one request."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    shifted_tokens: int = 0
    """Tokens dropped by context shift before the answer ended."""
    reasoning_tokens: int = 0
    """Of the completion's tokens, those of its reasoning."""
    accepted_guesses: int = 0
    """Of the completion's tokens, those that were guessed and computed ahead of their turn."""
    rejected_guesses: int = 0
    """Tokens that were guessed and computed, and turned out wrong."""

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


class CacheReport(msgspec.Struct, frozen=True):
    """How much of a conversation had been computed before."""

    known_tokens: int = 0
    """Tokens at the prompt's beginning that were computed before."""
    reason: str = ""
    """Why there are not more; empty: as far as known, there are none."""

    def miss(self, cached_tokens: int) -> str:
        """Why not everything was in the cache, given the number of cached tokens; empty: it was."""
        if self.reason or cached_tokens >= self.known_tokens - 1:
            return self.reason
        return f"of {self.known_tokens} tokens that were computed before, {cached_tokens} were still in memory"


class Timings(msgspec.Struct, frozen=True):
    """Where a request's time went: waiting for a slot, computing the prompt, generating tokens."""

    queue_s: float
    prefill_s: float
    decode_s: float
