"""Vectors as JSON, fast: each number in the fewest digits that give the same float32 again, or as base64.

Knows nothing of HTTP.
"""

from __future__ import annotations

import base64
import itertools
from collections.abc import Iterator
from typing import Any, Literal

import msgspec
import numpy as np

from localllm.server.answers.decimals import short_decimals
from localllm.server.apis.embeddings.replies import EmbeddingList, EmbeddingObject, cut, usage
from localllm.types.embeddings import Embeddings

_NUMBERS_AT_A_TIME = 32_768

Format = Literal["float", "base64"]


def embedding_list(made: Embeddings, model: str, format: Format, *, is_pooled: bool = True) -> bytes:
    """The whole response. Without pooling every item is an array of vectors."""
    # Vectors are already encoded, as `Raw`; the response types serve the API description.
    encode: Any = _texts if format == "base64" else _numbers
    data = [EmbeddingObject(index=index, embedding=vector) for index, vector in enumerate(encode(made, is_pooled))]
    truncated = cut(made.truncated)
    return msgspec.json.encode(EmbeddingList(data=data, model=model, usage=usage(made), truncated=truncated))


def vectors_of(made: Embeddings) -> Iterator[Any]:
    """Each item's encoded array of vectors: one vector, or one per token."""
    return _numbers(made, is_pooled=False)


def rows_of(made: Embeddings) -> Iterator[Any]:
    """The encoded vector of each item."""
    return _numbers(made, is_pooled=True)


def similarities(made: Embeddings) -> list[float]:
    """Similarities of the first vector to the others, all of length 1."""
    vectors = np.frombuffer(made.data, "<f4").reshape(-1, made.dimensions)
    products: list[float] = short_decimals(vectors[1:] @ vectors[0]).tolist()
    return products


def _numbers(made: Embeddings, is_pooled: bool) -> Iterator[msgspec.Raw]:
    vectors = np.frombuffer(made.data, "<f4").reshape(-1, made.dimensions)
    if not is_pooled:
        for begin, end in _spans(made):
            yield msgspec.Raw(msgspec.json.encode(short_decimals(vectors[begin:end]).tolist()))
        return
    # In chunks: the doubles need little memory, and other threads get the interpreter in between.
    step = max(1, _NUMBERS_AT_A_TIME // made.dimensions)
    for begin in range(0, len(vectors), step):
        for vector in short_decimals(vectors[begin : begin + step]).tolist():
            yield msgspec.Raw(msgspec.json.encode(vector))


def _texts(made: Embeddings, is_pooled: bool) -> Iterator[msgspec.Raw]:
    size_bytes = 4 * made.dimensions
    data = memoryview(made.data)
    for begin, end in _spans(made):
        texts = [
            b'"%b"' % base64.b64encode(data[index * size_bytes : (index + 1) * size_bytes])
            for index in range(begin, end)
        ]
        yield msgspec.Raw(texts[0] if is_pooled else b"[%b]" % b",".join(texts))


def _spans(made: Embeddings) -> Iterator[tuple[int, int]]:
    """The range [begin, end) of each item's vectors."""
    return itertools.pairwise(itertools.accumulate(made.num_vectors, initial=0))
