"""Response bodies: OpenAI's embeddings, Jina's and TEI's rankings. Extension: `truncated`, where anything was cut."""

from __future__ import annotations

import math
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from localllm.types.embeddings import Ranking

PROBABILITIES = frozenset({"qwen3", "qwen3vl"})
"""Architectures whose scores llama.cpp ends with a softmax: they are between 0 and 1 already (src/llama-graph.cpp)."""


class TokenUsage(msgspec.Struct, frozen=True):
    prompt_tokens: int
    total_tokens: int


class EmbeddingObject(msgspec.Struct, frozen=True, kw_only=True):
    """One item's. With pooling `none` it has a vector for each of its tokens, and is an array of them."""

    index: int
    embedding: str | list[float | str | list[float]]
    object: Literal["embedding"] = "embedding"


class NativeEmbedding(msgspec.Struct, frozen=True):
    """llama-server's: an array of vectors, of one with pooling."""

    index: int
    embedding: list[list[float]]


class EmbeddingList(msgspec.Struct, frozen=True, kw_only=True):
    """`truncated`: the numbers of the items that were cut, if any were."""

    data: list[EmbeddingObject]
    model: str
    usage: TokenUsage
    truncated: list[int] | UnsetType = UNSET
    object: Literal["list"] = "list"


class DocumentObject(msgspec.Struct, frozen=True):
    text: str


class RankedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """`index`: its place in the request."""

    index: int
    relevance_score: float
    document: DocumentObject | UnsetType = UNSET


class RankedList(msgspec.Struct, frozen=True, kw_only=True):
    """The best first. `truncated`: the numbers of the documents that were cut, if any were."""

    results: list[RankedDocument]
    model: str
    usage: TokenUsage
    truncated: list[int] | UnsetType = UNSET
    object: Literal["list"] = "list"


class TeiRank(msgspec.Struct, frozen=True, kw_only=True):
    """One of TEI's ranking, which has the best first. `truncated` is there only where it is true."""

    index: int
    score: float
    text: str | UnsetType = UNSET
    truncated: Literal[True] | UnsetType = UNSET


def usage(num_tokens: tuple[int, ...]) -> TokenUsage:
    """Of one request."""
    return TokenUsage(sum(num_tokens), sum(num_tokens))


def cut(numbers: tuple[int, ...]) -> list[int] | UnsetType:
    """The field `truncated`."""
    return list(numbers) or UNSET


def truncated_header(numbers: tuple[int, ...]) -> dict[str, str]:
    """How many were cut, also where a shape has no place for it."""
    return {"x-localllm-truncated": str(len(numbers))} if numbers else {}


def best_first(ranking: Ranking, top_n: int | None) -> list[int]:
    """The numbers of the documents; equal ones stay in their order."""
    return sorted(range(len(ranking.scores)), key=lambda index: -ranking.scores[index])[:top_n]


def shown_scores(ranking: Ranking, architecture: str | None, *, raw: bool) -> list[float]:
    """As the model gives them if `raw`, else between 0 and 1."""
    if raw or architecture in PROBABILITIES:
        return list(ranking.scores)
    return [_sigmoid(score) for score in ranking.scores]


def _sigmoid(value: float) -> float:
    if value >= 0:
        return 1 / (1 + math.exp(-value))
    power = math.exp(value)  # the other form overflows here
    return power / (1 + power)
