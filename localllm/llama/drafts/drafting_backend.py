"""A `LlamaBackend` that also keeps what guesses are made from: the last tokens' vectors (`next_rows`).

Those before the output head for the model's NextN layers (`heads`) or an `assistant`, or those that enter some of its
layers, side by side, for an EAGLE-3 or DFlash draft (`eagle`, `blocks`). Knows nothing of how any of them guesses.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from localllm.engine.backend import BackendError, Segment, State
from localllm.errors import LoadFailed
from localllm.llama.context import LlamaBackend
from localllm.llama.drafts.next_rows import KEPT, NextRows
from localllm.llama.drafts.next_symbols import NextFunctions
from localllm.llama.library import Library
from localllm.llama.model import LlamaModel
from localllm.llama.rope import AS_TRAINED, Rope


class HeadedBackend(LlamaBackend):
    """Used by one thread."""

    def __init__(
        self, library: Library, model: LlamaModel, functions: NextFunctions, *, layers: Sequence[int] = (), **how: Any
    ) -> None:
        """`layers`: those whose inputs are kept, as in `types.DraftHead`, which llama.cpp must give out; none: what
        NextN layers need. `how`: as for a `LlamaBackend`. Raises `LoadFailed`.
        """
        self._functions = functions
        self.next_rows: NextRows | None = None
        self._decoded: list[tuple[Segment, int]] = []
        """Segments whose rows are not taken yet, and where they begin in the batch."""
        super().__init__(library, model, **how)
        self.rope: Rope = how.get("rope", AS_TRAINED)
        self._width = model.dimensions
        num_layers = int(library.api.llama_model_n_layer(model.handle))
        self._layers = [layer if layer < num_layers else None for layer in layers] or [None]
        """Layers whose inputs are kept; None: what comes out of the last one."""
        self.row_width = self._width * len(self._layers)
        self.next_rows = NextRows(self.num_slots, self.row_width)
        self._switch_rows(on=True)
        try:  # llama.cpp allocates for the rows with the next decode
            self.decode([Segment(0, 0, [0], num_outputs=1)])
            self.synchronize()
        except BackendError as error:
            raise LoadFailed(f"the model is loaded but cannot compute: {error}") from error
        self.truncate(0, 0)

    @property
    def context(self) -> Any:
        return self._context

    def decode(self, segments: Sequence[Segment], *, within_s: float | None = None) -> bool:
        self._decoded.clear()
        is_whole = super().decode(segments, within_s=within_s)
        rows = self.next_rows
        if rows is None:
            return is_whole
        if is_whole:
            places = self._batch.places([segment.slot for segment in segments])
            self._decoded = list(zip(segments, places, strict=True))
        else:
            for segment in segments:
                rows.forget(segment.slot, self.length(segment.slot))
        return is_whole

    def synchronize(self) -> None:
        super().synchronize()
        if self.next_rows is None or not self._decoded:
            return
        functions, context = self._functions, self._context
        addresses = [
            functions.rows(context) if layer is None else functions.layer(context, layer) for layer in self._layers
        ]
        assert all(addresses), "llama.cpp has no rows for the heads"
        for (slot, start, tokens, _, _), place in self._decoded:
            skipped = max(0, len(tokens) - KEPT)
            parts = [self._rows_at(address, place + skipped, len(tokens) - skipped) for address in addresses]
            rows = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
            self.next_rows.computed(slot, start + skipped, rows)
        self._decoded.clear()

    def _rows_at(self, address: int, place: int, count: int) -> npt.NDArray[np.float32]:
        numbers = (ctypes.c_float * (count * self._width)).from_address(address + 4 * self._width * place)
        return np.ctypeslib.as_array(numbers).reshape(count, self._width)

    def truncate(self, slot: int, length: int) -> None:
        super().truncate(slot, length)
        if self.next_rows is not None:
            self.next_rows.cut(slot, length)

    def copy(self, source: int, slot: int, length: int) -> None:
        super().copy(source, slot, length)
        self._forget(slot)

    def restore(self, slot: int, state: State, length: int) -> None:
        super().restore(slot, state, length)
        self._forget(slot)

    def rewind(self, slot: int, state: State, length: int) -> None:
        super().rewind(slot, state, length)
        if self.next_rows is not None:
            self.next_rows.cut(slot, length)

    def shift(self, slot: int, keep: int, drop: int) -> None:
        super().shift(slot, keep, drop)
        self._forget(slot)

    def keep_no_rows(self) -> None:
        """Nothing guesses any more."""
        if self.next_rows is not None:
            self.next_rows = None
            self._decoded.clear()
            self._switch_rows(on=False)

    def _switch_rows(self, *, on: bool) -> None:
        for layer in self._layers:
            if layer is None:
                self._functions.set_rows(self._context, on, False)
            else:
                self._functions.set_layer(self._context, layer, on)

    def _forget(self, slot: int) -> None:
        if self.next_rows is not None:
            self.next_rows.forget(slot, self._tails.lengths[slot])
