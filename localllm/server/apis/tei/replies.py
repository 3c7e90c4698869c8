"""text-embeddings-inference's replies apart from vectors: the model and its limits."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from localllm import __version__
from localllm.settings.config import Settings
from localllm.types import LoadedModel


class EmbeddingKind(msgspec.Struct, frozen=True):
    pooling: str


class Labels(msgspec.Struct, frozen=True):
    """The labels of a reranker: one."""

    id2label: dict[str, str]
    label2id: dict[str, int]


class ModelType(msgspec.Struct, frozen=True, kw_only=True):
    """Exactly one of the two is set."""

    embedding: EmbeddingKind | UnsetType = UNSET
    reranker: Labels | UnsetType = UNSET


class Info(msgspec.Struct, frozen=True, kw_only=True):
    """`GET /info`."""

    model_id: str
    model_sha: None = None
    model_dtype: str
    """The quantization, e.g. `Q8_0`."""
    model_type: ModelType
    max_concurrent_requests: int
    max_input_length: int
    """Maximum tokens of a text."""
    max_batch_tokens: int
    """Equal to the longest text, since texts are never split."""
    max_batch_requests: None = None
    max_client_batch_size: int
    auto_truncate: bool = False
    tokenization_workers: int = 1
    version: str = __version__
    """localllm's version."""
    sha: None = None
    docker_label: None = None


def info(model: LoadedModel, settings: Settings) -> Info:
    """The reply for a loaded model."""
    longest = model.embedding_ctx or model.ctx
    ranks = model.pooling == "rank"
    return Info(
        model_id=model.id,
        model_dtype=model.info.file_type or "unknown",
        model_type=ModelType(
            embedding=UNSET if ranks else EmbeddingKind(model.pooling),
            reranker=Labels({"0": "LABEL_0"}, {"LABEL_0": 0}) if ranks else UNSET,
        ),
        max_concurrent_requests=settings.max_waiting,
        max_input_length=longest,
        max_batch_tokens=longest,
        max_client_batch_size=settings.max_texts,
    )
