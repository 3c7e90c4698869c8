"""Sends one request for vectors, and collects these in the request's order. Lives on one event loop.

Knows nothing of workers.
"""

from __future__ import annotations

import asyncio
from itertools import accumulate

from msgspec.structs import replace

from localllm.errors import LocalLLMError
from localllm.types import MediaFile
from localllm.types.embeddings import EmbeddingRequest, Embeddings, RerankRequest
from localllm.worker.messages import Embed, Tokenized, Vectors


def embed_frame(id: int, request: EmbeddingRequest | RerankRequest) -> Embed:
    """For the worker, without the bytes of pictures and sounds."""
    if isinstance(request, RerankRequest):
        return Embed(id, None, request)
    return Embed(id, replace(request, media=()) if request.media else request, None)


class Collector:
    """`result` resolves once everything has arrived, or fails with the error."""

    def __init__(self, loop: asyncio.AbstractEventLoop, files: tuple[MediaFile, ...] = ()) -> None:
        """`files`: of the pictures and sounds among the texts."""
        self.files = files
        self.result: asyncio.Future[Embeddings] = loop.create_future()
        self._expected: Tokenized | None = None
        self._data = bytearray()
        self._begins: list[int] = []
        """Offset in `_data` at which each text's vectors begin."""

    @property
    def is_expected(self) -> bool:
        """Whether the worker has accepted the texts."""
        return self._expected is not None

    def expect(self, tokenized: Tokenized) -> None:
        vector_bytes = 4 * tokenized.dimensions
        self._expected = tokenized
        self._begins = [0, *(vector_bytes * end for end in accumulate(tokenized.num_vectors))]
        self._data = bytearray(self._begins[-1])

    def take(self, vectors: Vectors) -> None:
        """The vectors of some texts; `is_last` marks the end."""
        position = 0
        for text in vectors.texts:
            begin, end = self._begins[text], self._begins[text + 1]
            self._data[begin:end] = vectors.data[position : position + end - begin]
            position += end - begin
        if vectors.is_last:
            self._finish()

    def fail(self, error: LocalLLMError) -> None:
        if not self.result.done():
            self.result.set_exception(error)

    def _finish(self) -> None:
        expected = self._expected
        assert expected is not None, "vectors came before their number"
        if not self.result.done():
            self.result.set_result(
                Embeddings(
                    data=bytes(self._data),
                    dimensions=expected.dimensions,
                    num_vectors=expected.num_vectors,
                    num_tokens=expected.num_tokens,
                    truncated=expected.truncated,
                    image_tokens=expected.image_tokens,
                    audio_tokens=expected.audio_tokens,
                )
            )
