"""Computes batches of tokens with `llama_decode`, and reads the logits.

The only place where something is computed for answers; `cells` learns of every decode. Knows nothing of requests.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from localllm.engine.backend import BackendError, MediaPart, Segment
from localllm.engine.requests.adapters import AdapterSet
from localllm.llama.adapters.lora import LlamaAdapters
from localllm.llama.batch import Batch, RowsBatch
from localllm.llama.cells import LlamaCells
from localllm.llama.context import LlamaContext, decode_failure
from localllm.llama.interrupts import ABORTED, Interrupt
from localllm.types.states import AdapterStatus

FLASH_TILE, MATRIX_TILE = 64, 32
"""Attention is fast from this many rows. ggml's flash attention computes 64 together, fewer one by one; else matrices
are multiplied: 8, 32, 64 rows of 1.3 B on two cores take 31, 20, 18 ms a row at depth 0, 38, 24, 24 at 1,000."""


class LlamaDecoder:
    """Implements `engine.backend.BatchDecoder`; used by one thread."""

    def __init__(
        self,
        context: LlamaContext,
        cells: LlamaCells,
        batch: Batch,
        rows: RowsBatch | None,
        interrupt: Interrupt,
        *,
        adapters: LlamaAdapters,
        vocab_size: int,
        threads: int,
        is_asynchronous: bool,
    ) -> None:
        """`rows`: None for a model that takes no media rows; `threads`: those of the context."""
        self._context = context
        self._cells = cells
        self._batch = batch
        self._rows = rows
        self._interrupt = interrupt
        self._adapters = adapters
        self._vocab_size = vocab_size
        self._threads = threads
        self.is_asynchronous = is_asynchronous
        self._decode: Any = context.api.llama_decode
        self._get_logits: Any = context.api._lib["llama_get_logits"]
        """As an address: the binding's own function creates a pointer object."""
        self._get_logits.argtypes, self._get_logits.restype = [ctypes.c_void_p], ctypes.c_void_p
        self._outputs: list[tuple[int, int]] = []
        """Range `[first, end)` of logit rows for every segment of the last decode."""
        self._logits_at: int | None = None
        """Address of the logits, one row after the other."""
        self._logit_rows: list[npt.NDArray[np.float32]] = []
        """Views of the first rows: creating one takes longer than using it."""
        self._is_synchronized = True
        self.batch_capacity = context.batch_capacity
        self.ubatch_capacity = context.ubatch_capacity
        self.max_outputs = context.max_outputs
        self.tile = FLASH_TILE if context.flash_attn else MATRIX_TILE
        self.grain = FLASH_TILE if context.flash_attn else MATRIX_TILE // 2
        # A recurrent state is changed in place: an unfinished ubatch leaves it unusable.
        self.can_be_interrupted = interrupt.works and cells.memory_kind != "recurrent"

    @property
    def num_nodes(self) -> int:
        return self._interrupt.num_nodes

    @property
    def lost_s(self) -> float:
        return self._interrupt.lost_s

    def interrupt(self, within_s: float) -> None:
        self._interrupt.ask(within_s)

    def clear_interrupts(self) -> None:
        self._interrupt.clear()

    def set_threads(self, threads: int) -> None:
        """llama.cpp takes one number for single tokens and one for batches, which include tokens of several streams."""
        if threads != self._threads:
            self._threads = threads
            self._context.api.llama_set_n_threads(self._context.handle, threads, threads)

    def use_adapters(self, adapters: AdapterSet) -> bool:
        return self._adapters.use(adapters)

    @property
    def adapter_status(self) -> AdapterStatus | None:
        return self._adapters.status

    def decode(self, segments: Sequence[Segment], *, within_s: float | None = None) -> bool:
        if segments[0].media is not None:
            return self._decode_rows(segments[0], segments[0].media, within_s)
        num_rows = sum(segment.num_outputs for segment in segments)
        if num_rows > self.max_outputs:
            raise BackendError(f"{num_rows} rows of logits; at most {self.max_outputs} fit")
        between = self._cells.fillers(segments)
        together = sorted((*segments, *between), key=itemgetter(0)) if between else segments
        self._batch.fill(self._cells.placed(together))
        may_stop = self._cells.prepare()
        slots = [segment.slot for segment in segments]
        with self._interrupt.listening(slots, within_s if may_stop else None):
            status = self._decode(self._context.handle, self._batch.struct)
        return self._ended(status, segments, between)

    def _decode_rows(self, segment: Segment, media: MediaPart, within_s: float | None) -> bool:
        rows, extent, handle = self._rows, media.extent, self._context.handle
        if rows is None:
            raise BackendError("this model's file takes no media rows; one that was converted for pictures may")
        count, most = len(media.rows), rows.capacity if media.is_causal else self.ubatch_capacity
        if count > most:  # llama.cpp would end the process
            raise BackendError(f"{count} rows that see each other; at most {most} are computed at once")
        if media.rows.shape != (len(segment.tokens), rows.width):
            raise BackendError(f"media rows of shape {media.rows.shape}; the model takes {rows.width} numbers each")
        shares_positions = extent is not None and extent.shares_positions
        first = extent.start if extent is not None and shares_positions else segment.start
        position = self._cells.position(segment.slot, first)
        if media.planes is not None and not shares_positions:
            position -= int(media.planes.numbers[0, 0])
        rows.fill(segment.slot, position, media, segment.num_outputs)
        may_stop = self._cells.prepare() and not shares_positions
        if not media.is_causal:
            self._context.api.llama_set_causal_attn(handle, False)
        try:
            with self._interrupt.listening([segment.slot], within_s if may_stop else None):
                status = self._decode(handle, rows.struct)
        finally:
            if not media.is_causal:
                self._context.api.llama_set_causal_attn(handle, True)
        return self._ended(status, [segment], [])

    def _ended(self, status: int, segments: Sequence[Segment], between: Sequence[Segment]) -> bool:
        self._cells.arrived(between)
        self._outputs.clear()
        if status == ABORTED:
            self._cells.interrupted([segment.slot for segment in segments])
            return False
        if status != 0:
            raise BackendError(decode_failure(status))
        end = 0
        for segment in segments:
            first, end = end, end + segment.num_outputs
            self._outputs.append((first, end))
        self._cells.computed(segments)
        self._is_synchronized = False
        return True

    def rest(self) -> None:
        self._cells.rest()

    def synchronize(self) -> None:
        """Never raises: where computing fails this late, CUDA ends the process and Metal fails the next decode."""
        address = self._get_logits(self._context.handle)  # waits for the devices
        self._is_synchronized = True
        if address != self._logits_at:
            self._logits_at, self._logit_rows = address, []
        self._cells.synchronized()

    def logits(self, index: int) -> Sequence[npt.NDArray[np.float32]]:
        if not self._is_synchronized:
            self.synchronize()
        (first, end), rows = self._outputs[index], self._logit_rows
        assert self._logits_at is not None, "llama.cpp has no logits"
        while len(rows) < end:
            address = self._logits_at + 4 * self._vocab_size * len(rows)
            rows.append(np.ctypeslib.as_array((ctypes.c_float * self._vocab_size).from_address(address)))
        return rows[first:end]
