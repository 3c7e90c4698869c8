"""A `llama_batch`, written through NumPy views: field-by-field ctypes writes cost 200 us for 8 sequences.

Knows nothing of contexts and of what is computed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from localllm.engine.backend import MediaPart, Segment


class Batch:
    """A `llama_batch` of fixed capacity, filled through NumPy views of its arrays."""

    def __init__(self, api: Any, capacity: int) -> None:
        self._api = api
        self.capacity = capacity
        self.struct = api.llama_batch_init(capacity, 0, 1)

        def view(pointer: Any) -> npt.NDArray[Any]:
            return np.ctypeslib.as_array(pointer, shape=(capacity,))

        self._tokens = view(self.struct.token)  # int32
        self._positions = view(self.struct.pos)  # int32
        self._wants_logits = view(self.struct.logits)  # int8
        view(self.struct.n_seq_id)[:] = 1  # int32
        # llama_batch wants a pointer per token to its sequence ids: set once, to an array that is refilled.
        self._slot_ids = np.zeros(capacity, dtype=np.int32)
        self._rows = view(ctypes.cast(self.struct.seq_id, ctypes.POINTER(ctypes.c_size_t)))
        self._own_rows = self._rows.copy()
        self._rows[:] = self._slot_ids.ctypes.data + 4 * np.arange(capacity, dtype=np.uintp)
        # For all four, because setting a single item of a NumPy array takes several times as long.
        self._items = [_items(array) for array in (self._tokens, self._positions, self._slot_ids, self._wants_logits)]

    def fill(self, segments: Sequence[Segment]) -> None:
        """`start` of each is the position of its first token."""
        end = 0
        tokens_at, positions_at, slots_at, wants_at = self._items
        for slot, start, tokens, num_outputs, num_padding, _ in segments:
            begin, end = end, end + len(tokens) + num_padding
            if end == begin + 1:
                tokens_at[begin], positions_at[begin], slots_at[begin] = tokens[0], start, slot
                wants_at[begin] = num_outputs
                continue
            last = end - num_padding
            self._tokens[begin:last] = tokens
            self._tokens[last:end] = 0
            self._positions[begin:end] = range(start, start + end - begin)
            self._slot_ids[begin:end] = slot
            self._wants_logits[begin:end] = 0
            self._wants_logits[last - num_outputs : last] = 1
        self.struct.n_tokens = end

    def places(self, slots: Sequence[int]) -> list[int]:
        """Where the tokens of each of these slots begin; slots ascend."""
        found: list[int] = np.searchsorted(self._slot_ids[: self.struct.n_tokens], slots).tolist()
        return found

    def free(self) -> None:
        self._rows[:] = self._own_rows  # llama_batch_free frees these
        self._api.llama_batch_free(self.struct)


class RowsBatch:
    """A `llama_batch` of vectors in place of tokens: media rows of one slot. llama.cpp takes no batch of both."""

    def __init__(self, api: Any, capacity: int, width: int, sections: int) -> None:
        """`width`: numbers in a row; `sections`: numbers in its position."""
        self.capacity = capacity
        self.width = width
        self._sections = sections
        self._slot_ids = np.zeros(1, np.int32)
        pointers = np.full(capacity, self._slot_ids.ctypes.data, np.uintp)
        self._positions = np.zeros(sections * capacity, np.int32)
        self._wants_logits = np.zeros(capacity, np.int8)
        self._num_slots = np.ones(capacity, np.int32)
        self._pointers = pointers
        self._rows: npt.NDArray[np.float32] = np.zeros((1, width), np.float32)
        """Of the last `fill`: llama.cpp reads them where they are."""
        self.struct = api.llama_batch(0)
        for name, array in (
            ("pos", self._positions),
            ("n_seq_id", self._num_slots),
            ("seq_id", pointers),
            ("logits", self._wants_logits),
        ):
            self._point(name, array)

    def fill(self, slot: int, position: int, media: MediaPart, num_outputs: int) -> None:
        """`position`: of the span's first row if the rows have planes, otherwise of the first of these rows.

        `num_outputs`: logits are wanted of this many of the last rows.
        """
        count = len(media.rows)
        self._rows = np.ascontiguousarray(media.rows, np.float32)
        self._point("embd", self._rows)
        self._slot_ids[0] = slot
        positions = self._positions[: self._sections * count].reshape(self._sections, count)
        if media.planes is None:
            positions[:] = np.arange(position, position + count)
        else:
            positions[:] = media.planes.at(position)[: self._sections]
        self._wants_logits[:count] = 0
        self._wants_logits[count - num_outputs : count] = 1
        self.struct.n_tokens = count

    def want(self, rows: slice) -> None:
        """Of the last `fill`: what is computed of these rows is wanted, and of no others."""
        self._wants_logits[: self.struct.n_tokens] = 0
        self._wants_logits[rows] = 1

    def _point(self, name: str, array: npt.NDArray[Any]) -> None:
        kind = {field[0]: field[1] for field in self.struct._fields_}[name]
        setattr(self.struct, name, ctypes.cast(ctypes.c_void_p(array.ctypes.data), kind))


def _items(array: npt.NDArray[Any]) -> Any:
    """Its items as a memoryview, in a format that supports setting them one by one."""
    data: Any = array
    kind: Any = array.dtype.char
    return memoryview(data).cast("B").cast(kind)
