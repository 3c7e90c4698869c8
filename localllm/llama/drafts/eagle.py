"""An EAGLE-3 draft: one layer of its own, which guesses from vectors of three layers of its target, and from tokens.

    encoder   the target's vectors of token p - 1, side by side   ->  g, a vector of the draft's width
    place p   token p, and g of token p - 1                       ->  logits for token p + 1, a vector of p

So it is used as a model's own NextN layers are, and all of `heads` holds, except that there is no vector before the
first token. llama.cpp counts its positions from the second token; only differences between them matter.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt

from localllm.engine.backend import BackendError
from localllm.errors import LoadFailed
from localllm.llama.backend import LlamaBackend
from localllm.llama.context import Batching
from localllm.llama.drafts.nextn import LlamaHeads
from localllm.llama.library import Library
from localllm.llama.model import LlamaModel
from localllm.types import FlashAttn


class LlamaEagle(LlamaHeads):
    """Has the target's vocabulary; the target keeps the vectors of the right layers."""

    name = "the EAGLE-3 draft"
    param, remedy = "draft", "remove draft"
    is_own = is_selective = False

    def __init__(
        self,
        library: Library,
        model: LlamaModel,
        target: LlamaBackend,
        *,
        ctx: int,
        threads: int,
        batch_tokens: int,
        flash_attn: FlashAttn = "auto",
    ) -> None:
        """As `LlamaHeads`; every token of a batch may have logits."""
        super().__init__(
            library,
            model,
            target,
            Batching(batch_tokens),
            ctx=ctx,
            threads=threads,
            is_cropped=True,
            flash_attn=flash_attn,
        )
        self._features: Any = self._api.llama_batch_ext_init(self._context)
        try:
            self._encoded([np.zeros(self._vectors.row_width, np.float32)])
        except BackendError as error:
            self.free()
            raise LoadFailed(f"{error}; {self.remedy}", param=self.param) from error

    def earliest(self, slot: int) -> int:
        assert self._vectors.rows is not None
        return self._vectors.rows.first(slot) + 1

    def free(self) -> None:
        if hasattr(self, "_features"):
            self._api.llama_batch_ext_free(self._features)
            del self._features
        super().free()

    def _encoded(self, rows: list[npt.NDArray[np.float32]]) -> list[npt.NDArray[np.float32]]:
        """llama.cpp has room for as many of a batch as for rows of logits."""
        found: list[npt.NDArray[np.float32]] = []
        for start in range(0, len(rows), self.max_outputs):
            some = rows[start : start + self.max_outputs]
            self._api.llama_batch_ext_clear(self._features)
            for place, row in enumerate(some, start=self.length(0)):
                self._add_features(place, row)
            status = self._api.llama_process(self._context, self._api.LLAMA_PROCESS_TYPE_ENCODE, self._features)
            address = self._functions.rows(self._context) if status == 0 else 0
            if not address:
                raise BackendError(f"llama_process of the encoder of {self.name} returned {status}")
            numbers = (ctypes.c_float * (len(some) * self._width)).from_address(address)
            found += list(np.ctypeslib.as_array(numbers).reshape(len(some), self._width).copy())
        return found

    def _add_features(self, place: int, row: npt.NDArray[np.float32]) -> None:
        pointer = row.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
        index = int(self._api.llama_batch_ext_add_embd(self._features, 0, self._api.llama_embd(pointer, 1, len(row))))
        # The encoder ignores positions, but llama.cpp refuses those that do not continue the slot's.
        if index < 0 or not self._api.llama_batch_ext_set_pos(self._features, index, (ctypes.c_int32 * 1)(place)):
            raise BackendError(f"llama.cpp took no vector for {self.name}")
