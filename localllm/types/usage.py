"""The cost of an answer: tokens, seconds, and how much of its prompt was cached."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from localllm.types.documents import DocumentTaken


class Usage(msgspec.Struct, frozen=True):
    """Token counts of one request."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    shifted_tokens: int = 0
    """Tokens dropped by context shift before the answer ended."""
    reasoning_tokens: int = 0
    """Completion tokens that are reasoning."""
    accepted_guesses: int = 0
    """Completion tokens that were guessed correctly."""
    rejected_guesses: int = 0
    """Guessed tokens that were computed and wrong."""

    image_tokens: int = 0
    """Prompt tokens that are rows of pictures."""
    audio_tokens: int = 0
    """Prompt tokens that are rows of sounds."""
    document_pages: int = 0
    """Pages, slides and sheets of documents in the prompt."""
    document_pages_omitted: int = 0
    """Those that the request did not choose."""
    document_chars: int = 0
    """Characters of documents in the prompt."""

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


class PromptCount(msgspec.Struct, frozen=True):
    """The tokens of a prompt that is counted and not computed."""

    tokens: int
    image_tokens: int = 0
    """How many of them are rows of pictures, and of sounds."""
    audio_tokens: int = 0


def with_documents(usage: Usage, taken: Iterable[DocumentTaken]) -> Usage:
    """The usage of an answer to a request with these documents."""
    all_taken = tuple(taken)
    return replace(
        usage,
        document_pages=sum(each.pages for each in all_taken),
        document_pages_omitted=sum(each.pages_omitted for each in all_taken),
        document_chars=sum(each.characters for each in all_taken),
    )


class CacheReport(msgspec.Struct, frozen=True):
    """How much of a conversation was computed before."""

    known_tokens: int = 0
    """Leading tokens of the prompt that were computed before."""
    reason: str = ""
    """Why there are not more; empty: there is no reason to expect more."""

    def miss(self, cached_tokens: int) -> str:
        """Why some known tokens were not cached; empty: all were."""
        if self.reason or cached_tokens >= self.known_tokens - 1:
            return self.reason
        return f"of {self.known_tokens} tokens that were computed before, {cached_tokens} were still in memory"


class Timings(msgspec.Struct, frozen=True):
    """Where a request's time went: waiting for a slot, computing the prompt, generating tokens."""

    queue_s: float
    prefill_s: float
    decode_s: float
    encode_s: float = 0.0
    """Time to turn its pictures and sounds into rows, partly while others waited or were computed."""
    cached_encodes: int = 0
    """Pictures, tiles and pieces of sound of which the rows, or what follows from them, were known."""
