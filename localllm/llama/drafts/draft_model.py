"""A draft model of its own: a whole small model, which guesses by computing.

Knows nothing of its target.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from localllm.engine.backend import Segment
from localllm.llama.backend import LlamaBackend
from localllm.llama.model import LlamaModel


class LlamaDraft:
    """Implements `engine.speculation.draft_backend.DraftBackend`; used by one thread."""

    def __init__(self, model: LlamaModel, backend: LlamaBackend) -> None:
        """Owns both."""
        self._model, self._backend = model, backend
        self._decoder, self._cells, self._vocab = backend.decoder, backend.cells, backend.vocab
        self.num_slots = backend.cells.num_slots
        self.slot_capacity = backend.cells.slot_capacity
        self.batch_capacity = backend.decoder.batch_capacity
        self.max_outputs = backend.decoder.max_outputs
        self.can_shift = backend.cells.can_shift

    def length(self, slot: int) -> int:
        return self._cells.length(slot)

    def truncate(self, slot: int, length: int) -> None:
        self._cells.truncate(slot, length)

    def shift(self, slot: int, keep: int, drop: int) -> None:
        self._cells.shift(slot, keep, drop)

    def set_threads(self, threads: int) -> None:
        self._decoder.set_threads(threads)

    def decode(self, segments: Sequence[Segment], *, within_s: float | None = None) -> bool:
        return self._decoder.decode(segments, within_s=within_s)

    def synchronize(self) -> None:
        self._decoder.synchronize()

    def logits(self, index: int) -> Sequence[npt.NDArray[np.float32]]:
        return self._decoder.logits(index)

    def ends_generation(self, token: int) -> bool:
        return self._vocab.ends_generation(token)

    def free(self) -> None:
        """Release the KV cache and the model. Idempotent."""
        self._backend.free()
        self._model.close()
