"""What embedding and ranking ask and answer, for every layer. Plain frozen data.

Knows nothing of processes, HTTP or llama.cpp.
"""

from __future__ import annotations

import msgspec

from localllm.types import MAX_TOKEN_ID, TokenId
from localllm.types.ranges import check_range, check_token_ids


class EmbeddingRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Exactly one of `texts` and `tokens` is set; each of its items becomes one vector, or one for each token."""

    texts: tuple[str, ...] | None = None
    tokens: tuple[tuple[TokenId, ...], ...] | None = None
    dimensions: int | None = None
    """Keep so many of each vector's numbers, the first ones; None: all."""
    normalize: bool = True
    """To length 1 (Euclidean), after `dimensions`."""
    truncate: bool = False
    """Cut what is longer than the model can read, and say so; otherwise that is refused."""
    priority: int = 0
    timeout_s: float | None = None
    queue_timeout_s: float | None = None
    """Until the first of its texts is being computed."""

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
    """Of each item: 1, or with pooling `none` as many as it has tokens."""
    num_tokens: tuple[int, ...]
    """Of each item, as computed."""
    truncated: tuple[int, ...] = ()
    """The numbers of the items that were cut."""


class RerankRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How well does each of the documents answer the query?"""

    query: str
    documents: tuple[str, ...]
    truncate: bool = False
    """Cut documents that are too long, and say so; otherwise they are refused."""
    priority: int = 0
    timeout_s: float | None = None
    queue_timeout_s: float | None = None

    def __post_init__(self) -> None:
        _check_order(self.priority, self.timeout_s, self.queue_timeout_s)


class Ranking(msgspec.Struct, frozen=True, kw_only=True):
    """One score for each document, in the request's order, as the model gives it: higher is better, any number."""

    scores: tuple[float, ...]
    num_tokens: tuple[int, ...]
    truncated: tuple[int, ...] = ()


def _check_order(priority: int, timeout_s: float | None, queue_timeout_s: float | None) -> None:
    """As of a `GenerationRequest`."""
    check_range("priority", priority, -1000, 1000)
    check_range("timeout", timeout_s, 0.001, 1e6)
    check_range("queue_timeout", queue_timeout_s, 0.001, 1e6)
