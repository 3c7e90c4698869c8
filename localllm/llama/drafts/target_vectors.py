"""What drafts guess from: vectors that a target model computed of its slots' last tokens, beside their cells.

Those before the output head for the model's NextN layers (`nextn`) or an `assistant`, or those that enter some of its
layers, side by side, for an EAGLE-3 or DFlash draft (`eagle`, `dflash`). Knows nothing of how any of them guesses.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from localllm.engine.backend import Segment, State
from localllm.engine.media import Extent
from localllm.llama.batch import Batch
from localllm.llama.cells import LlamaCells
from localllm.llama.context import LlamaContext
from localllm.llama.drafts.next_rows import KEPT, NextRows
from localllm.llama.drafts.next_symbols import NextFunctions
from localllm.llama.model import LlamaModel
from localllm.llama.states.memory_trial import MemoryTraits
from localllm.llama.states.saved import SavedStates


class KeptVectors(NamedTuple):
    """Which vectors are kept, and the library's functions that give them out."""

    functions: NextFunctions
    layers: tuple[int, ...] = ()
    """Layers of which a draft needs the inputs, as in `types.DraftHead`; none: what NextN layers and assistants
    need."""


class TargetVectors:
    """Of one context; used by one thread."""

    def __init__(self, context: LlamaContext, model: LlamaModel, batch: Batch, kept: KeptVectors) -> None:
        """From the next decode on, for which llama.cpp then allocates them."""
        self.functions = kept.functions
        self._handle = context.handle
        self._batch = batch
        self._width = model.dimensions
        num_layers = int(context.api.llama_model_n_layer(model.handle))
        self._layers = [layer if layer < num_layers else None for layer in kept.layers] or [None]
        """Layers whose inputs are kept; None: what comes out of the last one."""
        self.row_width = self._width * len(self._layers)
        self.rows: NextRows | None = NextRows(context.num_slots, self.row_width)
        """None once nothing guesses any more."""
        self._decoded: list[tuple[Segment, int]] = []
        """Segments whose rows are not taken yet, and where they begin in the batch."""
        self._switch(on=True)

    def decoded(self, segments: Sequence[Segment]) -> None:
        """The batch with these segments was decoded."""
        if self.rows is not None:
            places = self._batch.places([segment.slot for segment in segments])
            self._decoded = list(zip(segments, places, strict=True))

    def decodes(self) -> None:
        """Another batch was given to llama.cpp: what was not taken yet is gone."""
        self._decoded.clear()

    def take(self) -> None:
        """Copy what was decoded; the devices are done."""
        if self.rows is None or not self._decoded:
            return
        functions, handle = self.functions, self._handle
        addresses = [
            functions.rows(handle) if layer is None else functions.layer(handle, layer) for layer in self._layers
        ]
        assert all(addresses), "llama.cpp has no rows for the heads"
        for (slot, start, tokens, *_), place in self._decoded:
            skipped = max(0, len(tokens) - KEPT)
            parts = [self._rows_at(address, place + skipped, len(tokens) - skipped) for address in addresses]
            rows = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
            self.rows.computed(slot, start + skipped, rows)
        self._decoded.clear()

    def cut(self, slot: int, length: int) -> None:
        """The slot lost its tokens from position `length` on."""
        if self.rows is not None:
            self.rows.cut(slot, length)

    def forget(self, slot: int, length: int) -> None:
        """The slot now holds `length` other tokens."""
        if self.rows is not None:
            self.rows.forget(slot, length)

    def stop(self) -> None:
        """Nothing guesses any more."""
        if self.rows is not None:
            self.rows = None
            self._decoded.clear()
            self._switch(on=False)

    def _rows_at(self, address: int, place: int, count: int) -> npt.NDArray[np.float32]:
        numbers = (ctypes.c_float * (count * self._width)).from_address(address + 4 * self._width * place)
        return np.ctypeslib.as_array(numbers).reshape(count, self._width)

    def _switch(self, *, on: bool) -> None:
        for layer in self._layers:
            if layer is None:
                self.functions.set_rows(self._handle, on, False)
            else:
                self.functions.set_layer(self._handle, layer, on)


class CellsWithVectors(LlamaCells):
    """Cells whose last tokens' vectors are kept as long as the tokens stay where they are."""

    def __init__(
        self, context: LlamaContext, traits: MemoryTraits, states: SavedStates, vectors: TargetVectors
    ) -> None:
        super().__init__(context, traits, states)
        self._vectors = vectors

    def arrived(self, between: Sequence[Segment]) -> None:
        super().arrived(between)
        self._vectors.decodes()

    def interrupted(self, slots: Sequence[int]) -> None:
        super().interrupted(slots)
        for slot in slots:
            self._vectors.forget(slot, self.length(slot))

    def computed(self, segments: Sequence[Segment]) -> None:
        super().computed(segments)
        if segments[0].media is None:
            self._vectors.decoded(segments)
        else:  # drafts begin behind media rows
            self._forget(segments[0].slot)

    def synchronized(self) -> None:
        self._vectors.take()

    def truncate(self, slot: int, length: int) -> None:
        super().truncate(slot, length)
        self._vectors.cut(slot, length)

    def copy(self, source: int, slot: int, length: int) -> None:
        super().copy(source, slot, length)
        self._forget(slot)

    def restore(self, slot: int, state: State, length: int, extents: Sequence[Extent] = ()) -> None:
        super().restore(slot, state, length, extents)
        self._forget(slot)

    def rewind(self, slot: int, state: State, length: int) -> None:
        super().rewind(slot, state, length)
        self._vectors.cut(slot, length)

    def shift(self, slot: int, keep: int, drop: int) -> None:
        super().shift(slot, keep, drop)
        self._forget(slot)

    def _forget(self, slot: int) -> None:
        self._vectors.forget(slot, self._tails.lengths[slot])
