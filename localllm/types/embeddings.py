"""What embedding and ranking ask and answer, for every layer. Plain frozen data.

Knows nothing of processes, HTTP or llama.cpp.
"""

from __future__ import annotations

import msgspec

from localllm.types import MAX_TOKEN_ID, TokenId
from localllm.types.ranges import check_range, check_token_ids


class EmbeddingRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Exactly one of `texts` and `tokens` is set; each item becomes one vector, or one per token."""

    texts: tuple[str, ...] | None = None
    tokens: tuple[tuple[TokenId, ...], ...] | None = None
    dimensions: int | None = None
    """Keep only this many leading numbers of each vector; None: all."""
    normalize: bool = True
    """To Euclidean length 1, after `dimensions`."""
    truncate: bool = False
    """Cut what is longer than the model can read, and report it; otherwise that is rejected."""
    priority: int = 0
    timeout_s: float | None = None
    queue_timeout_s: float | None = None
    """Until the first of its texts is computed."""

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
    """Per item: 1, or with pooling `none` its number of tokens."""
    num_tokens: tuple[int, ...]
    """Per item, as computed."""
    truncated: tuple[int, ...] = ()
    """Indexes of the items that were cut."""


class RerankRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How well does each of the documents answer the query?"""

    query: str
    documents: tuple[str, ...]
    truncate: bool = False
    """Cut documents that are too long, and report it; otherwise they are rejected."""
    priority: int = 0
    timeout_s: float | None = None
    queue_timeout_s: float | None = None

    def __post_init__(self) -> None:
        _check_order(self.priority, self.timeout_s, self.queue_timeout_s)


class Ranking(msgspec.Struct, frozen=True, kw_only=True):
    """One score per document, in the request's order, as given by the model: higher is better, any number."""

    scores: tuple[float, ...]
    num_tokens: tuple[int, ...]
    truncated: tuple[int, ...] = ()


def _check_order(priority: int, timeout_s: float | None, queue_timeout_s: float | None) -> None:
    """As of a `GenerationRequest`."""
    check_range("priority", priority, -1000, 1000)
    check_range("timeout", timeout_s, 0.001, 1e6)
    check_range("queue_timeout", queue_timeout_s, 0.001, 1e6)
