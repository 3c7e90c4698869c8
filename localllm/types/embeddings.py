"""Requests and results of embedding and ranking, for every layer. Plain frozen data.

Knows nothing of processes, HTTP or llama.cpp.
"""

from __future__ import annotations

import msgspec

from localllm.types import MAX_TOKEN_ID, Media, MediaFile, TokenId
from localllm.types.ranges import check_range, check_token_ids


class EmbeddingRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Exactly one of `texts`, `tokens` and `parts` is set; each item becomes one vector, or one per token."""

    texts: tuple[str, ...] | None = None
    tokens: tuple[tuple[TokenId, ...], ...] | None = None
    parts: tuple[tuple[str | Media, ...], ...] | None = None
    """Texts with pictures and sounds between them."""
    media: tuple[MediaFile, ...] = ()
    """For parts: their bytes, sent to the worker only when it asks for them."""
    dimensions: int | None = None
    """Keep only this many leading numbers of each vector; None: all."""
    normalize: bool = True
    """To Euclidean length 1, after `dimensions`."""
    truncate: bool = False
    """Truncate texts that are too long for the model, and report them; otherwise they are rejected."""
    priority: int = 0
    timeout_s: float | None = None
    queue_timeout_s: float | None = None
    """Time limit until its first text is computed."""

    def __post_init__(self) -> None:
        for number, tokens in enumerate(self.tokens or ()):
            check_token_ids(f"input[{number}]", tokens, MAX_TOKEN_ID, param="input")
        _check_order(self.priority, self.timeout_s, self.queue_timeout_s)


class Embeddings(msgspec.Struct, frozen=True, kw_only=True):
    """The vectors of one request, in its order."""

    data: bytes
    """float32, little-endian, shape (sum of num_vectors, dimensions)."""
    dimensions: int
    num_vectors: tuple[int, ...]
    """Per item: 1; with pooling `none`, its number of tokens."""
    num_tokens: tuple[int, ...]
    """Per item, as computed."""
    truncated: tuple[int, ...] = ()
    """Indexes of the truncated items."""
    image_tokens: int = 0
    """How many of all tokens are rows of pictures, and of sounds."""
    audio_tokens: int = 0


class RerankRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Rank documents by how well they answer a query."""

    query: str
    documents: tuple[str, ...]
    truncate: bool = False
    """Truncate documents that are too long, and report them; otherwise they are rejected."""
    priority: int = 0
    timeout_s: float | None = None
    queue_timeout_s: float | None = None

    def __post_init__(self) -> None:
        _check_order(self.priority, self.timeout_s, self.queue_timeout_s)


class Ranking(msgspec.Struct, frozen=True, kw_only=True):
    """One score per document, in the request's order: the model's own number, of which higher is better."""

    scores: tuple[float, ...]
    num_tokens: tuple[int, ...]
    truncated: tuple[int, ...] = ()


def _check_order(priority: int, timeout_s: float | None, queue_timeout_s: float | None) -> None:
    """Check the ranges, which are those of `GenerationRequest`."""
    check_range("priority", priority, -1000, 1000)
    check_range("timeout", timeout_s, 0.001, 1e6)
    check_range("queue_timeout", queue_timeout_s, 0.001, 1e6)
