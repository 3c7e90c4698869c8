"""Response bodies: OpenAI's embeddings, Jina's and TEI's rankings. Extension: `truncated`."""

from __future__ import annotations

import math
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from localllm.gguf.rules.encoders import SCORE_PROBABILITIES
from localllm.types.embeddings import Embeddings, Ranking


class TokenDetails(msgspec.Struct, frozen=True):
    image_tokens: int | UnsetType = UNSET
    audio_tokens: int | UnsetType = UNSET


class TokenUsage(msgspec.Struct, frozen=True):
    prompt_tokens: int
    total_tokens: int
    prompt_tokens_details: TokenDetails | UnsetType = UNSET
    """Present if there are pictures or sounds among the texts."""


class EmbeddingObject(msgspec.Struct, frozen=True, kw_only=True):
    """One item. With pooling `none`, `embedding` is an array with a vector per token."""

    index: int
    embedding: str | list[float | str | list[float]]
    object: Literal["embedding"] = "embedding"


class NativeEmbedding(msgspec.Struct, frozen=True):
    """llama-server's: an array of vectors; only one if the model pools."""

    index: int
    embedding: list[list[float]]


class EmbeddingList(msgspec.Struct, frozen=True, kw_only=True):
    """`truncated`: indices of truncated items, if any."""

    data: list[EmbeddingObject]
    model: str
    usage: TokenUsage
    truncated: list[int] | UnsetType = UNSET
    object: Literal["list"] = "list"


class DocumentObject(msgspec.Struct, frozen=True):
    text: str


class RankedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """`index`: position in the request."""

    index: int
    relevance_score: float
    document: DocumentObject | UnsetType = UNSET


class RankedList(msgspec.Struct, frozen=True, kw_only=True):
    """Best first. `truncated`: indices of truncated documents, if any."""

    results: list[RankedDocument]
    model: str
    usage: TokenUsage
    truncated: list[int] | UnsetType = UNSET
    object: Literal["list"] = "list"


class TeiRank(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of TEI's ranking, best first. `truncated` is present only if true."""

    index: int
    score: float
    text: str | UnsetType = UNSET
    truncated: Literal[True] | UnsetType = UNSET


def usage(made: Embeddings | Ranking) -> TokenUsage:
    """The tokens of one request."""
    count, details = sum(made.num_tokens), TokenDetails()
    if isinstance(made, Embeddings):
        details = TokenDetails(made.image_tokens or UNSET, made.audio_tokens or UNSET)
    return TokenUsage(count, count, UNSET if details == TokenDetails() else details)


def cut(numbers: tuple[int, ...]) -> list[int] | UnsetType:
    """The field `truncated`."""
    return list(numbers) or UNSET


def truncated_header(numbers: tuple[int, ...]) -> dict[str, str]:
    """The number of truncated items, also for formats without such a field."""
    return {"x-localllm-truncated": str(len(numbers))} if numbers else {}


def best_first(ranking: Ranking, top_n: int | None) -> list[int]:
    """Indices of the documents, best first; ties keep their order."""
    return sorted(range(len(ranking.scores)), key=lambda index: -ranking.scores[index])[:top_n]


def shown_scores(ranking: Ranking, architecture: str | None, *, raw: bool) -> list[float]:
    """The model's own scores if `raw`, else from 0 to 1."""
    if raw or architecture in SCORE_PROBABILITIES:
        return list(ranking.scores)
    return [_sigmoid(score) for score in ranking.scores]


def _sigmoid(value: float) -> float:
    if value >= 0:
        return 1 / (1 + math.exp(-value))
    power = math.exp(value)  # the other formula overflows here
    return power / (1 + power)
