"""A DFlash draft: it guesses several tokens in one decode, from vectors of some layers of its target.

    in the cache   keys and values that it makes of the target's vectors of tokens 0 .. p - 1, side by side
    a block        token p, mask, mask ..  ->  logits for tokens p + 1, p + 2 ..

The block's own keys and values are removed again: once the target has computed these tokens, theirs are made of its
vectors. A DSpark draft's first guess is the row of token p itself; a DFlash2 draft gives no logits but scores of some
candidates for each place, after each candidate of the place before it (src/models/dflash.cpp). Streams are as in
`heads`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from localllm.engine.backend import BackendError, Segment
from localllm.errors import LoadFailed
from localllm.llama.backend import LlamaBackend
from localllm.llama.context import Batching
from localllm.llama.drafts.nextn import LlamaHeads
from localllm.llama.library import Library
from localllm.llama.model import LlamaModel
from localllm.types import DraftBlock, FlashAttn

Row = npt.NDArray[np.float32]


class LlamaBlocks(LlamaHeads):
    """Has the target's vocabulary; the target keeps the vectors of the right layers."""

    name = "the DFlash draft"
    param, remedy = "draft", "remove draft"
    is_own = is_selective = False

    def __init__(
        self,
        library: Library,
        model: LlamaModel,
        target: LlamaBackend,
        *,
        block: DraftBlock,
        ctx: int,
        threads: int,
        batch_tokens: int,
        flash_attn: FlashAttn = "auto",
    ) -> None:
        """As `LlamaHeads`; a batch holds at least a block of two tokens for each slot."""
        self._block, self.guesses_at_once = block, block.num_guesses
        super().__init__(
            library,
            model,
            target,
            Batching(max(batch_tokens, 2 * target.cells.num_slots)),
            ctx=ctx,
            threads=threads,
            is_cropped=not block.num_candidates,
            flash_attn=flash_attn,
        )

    def earliest(self, slot: int) -> int:
        assert self._vectors.rows is not None
        return self._vectors.rows.first(slot)

    def decode(self, segments: Sequence[Segment], *, within_s: float | None = None) -> bool:  # noqa: ARG002
        """Keep what the target's vectors of the tokens give, and for each segment with outputs guess that many tokens
        after its last one, of which nothing is kept. All that guess have equally many outputs."""
        kept = [(slot, start, len(tokens) - bool(num_outputs)) for slot, start, tokens, num_outputs, *_ in segments]
        self._keep([(slot, place) for slot, start, count in kept for place in range(start, start + count)])
        self._outputs = self._guess(segments)
        return True

    def logits(self, index: int) -> list[Row]:
        """For segment `index` of the last decode, one row of shape (vocabulary size,) for each guess; a selector's
        scores stand for its candidates' logits, and no other token has any."""
        if not self._block.num_candidates:
            return super().logits(index)
        rows, chosen = list[Row](), 0
        for place in self._outputs[index]:
            candidates, scores = self._lattice_row(place, chosen)
            chosen = int(scores.argmax())
            row = np.full(self._target.vocab.size, -np.inf, np.float32)
            row[candidates] = scores
            rows.append(row)
        return rows

    def free(self) -> None:
        if hasattr(self, "_batch_of_vectors"):
            self._api.llama_batch_ext_free(self._batch_of_vectors)
            del self._batch_of_vectors
        super().free()

    def _keep(self, places: Sequence[tuple[int, int]]) -> None:
        """Keep the keys and values of tokens, given as slot and place in its stream."""
        api, known = self._api, self._vectors.rows
        assert known is not None
        for first in range(0, len(places), self.batch_capacity):
            api.llama_batch_ext_clear(self._batch_of_vectors)
            for slot, place in places[first : first + self.batch_capacity]:
                row = known.row(slot, self._firsts[slot] + place)
                if row is None:
                    raise BackendError(f"there is no vector of a token for {self.name}")
                self._add_vector(slot, place, row)
            status = api.llama_process(self._context, api.LLAMA_PROCESS_TYPE_DECODE, self._batch_of_vectors)
            if status != 0:
                raise BackendError(f"llama_process of vectors for {self.name} returned {status}")

    def _add_vector(self, slot: int, place: int, row: Row) -> None:
        pointer = row.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
        index = int(
            self._api.llama_batch_ext_add_embd(self._batch_of_vectors, slot, self._api.llama_embd(pointer, 1, len(row)))
        )
        # Four numbers, as rotary embeddings of several dimensions need; otherwise the first is read.
        positions = (ctypes.c_int32 * 4)(place, place, place, 0)
        if index < 0 or not self._api.llama_batch_ext_set_pos(self._batch_of_vectors, index, positions):
            raise BackendError(f"llama.cpp took no vector for {self.name}")

    def _guess(self, segments: Sequence[Segment]) -> list[list[int]]:
        """For each segment the places in the batch of its guesses."""
        api, batch, block = self._api, self._batch, self._block
        api.llama_batch_ext_clear(batch)
        found, ends, count = list[list[int]](), list[tuple[int, int]](), 0
        for slot, start, tokens, num_outputs, *_ in segments:
            if not num_outputs:
                found.append([])
                continue
            end = start + len(tokens) - 1
            places = []
            for place in range(num_outputs + (not block.is_anchor_first)):
                self._add_token(slot, end + place, tokens[-1] if place == 0 else block.mask)
                places.append(count)
                count += 1
            found.append(places[-num_outputs:])
            ends.append((slot, end))
        if not ends:
            return found
        status = api.llama_process(self._context, api.LLAMA_PROCESS_TYPE_DECODE, batch)
        for slot, end in ends:
            api.llama_memory_seq_rm(self._memory, slot, end, -1)
        if status != 0:
            raise BackendError(f"llama_process of {self.name} returned {status}")
        return found

    def _add_token(self, slot: int, place: int, token: int) -> None:
        api, batch = self._api, self._batch
        index = int(api.llama_batch_ext_add_token(batch, slot, token))
        is_set = index >= 0 and api.llama_batch_ext_set_pos(batch, index, (ctypes.c_int32 * 1)(place))
        if is_set and not self._block.num_candidates:
            is_set = api.llama_batch_ext_set_output_logits(batch, index, True)
        if not is_set:
            raise BackendError(f"llama.cpp took no token for {self.name}")

    def _lattice_row(self, place: int, chosen: int) -> tuple[npt.NDArray[np.int64], Row]:
        """The candidates for this place of the batch, and their scores after candidate `chosen` of the place before."""
        address, num = self._functions.rows(self._context), self._block.num_candidates
        if not address:
            raise BackendError(f"llama.cpp gave no candidates of {self.name}")
        numbers = (ctypes.c_float * self._width).from_address(address + 4 * self._width * place)
        row = np.ctypeslib.as_array(numbers)
        first = num * (1 + chosen)
        return row[:num].astype(np.int64), row[first : first + num].copy()

    def _check(self) -> None:
        """Keep a token, guess behind it, and drop it. Raises `LoadFailed`."""
        api: Any = self._api
        api.llama_set_causal_attn(self._context, self._block.is_causal)
        self._batch_of_vectors: Any = api.llama_batch_ext_init(self._context)
        vector = np.zeros(self._vectors.row_width, np.float32)
        try:
            for slot in range(self.num_slots):
                self._add_vector(slot, 0, vector)
            if api.llama_process(self._context, api.LLAMA_PROCESS_TYPE_DECODE, self._batch_of_vectors) != 0:
                raise BackendError(f"llama.cpp keeps no vectors for {self.name}")
            self._guess([Segment(slot, 1, [0], 1) for slot in range(self.num_slots)])
        except BackendError as error:
            self.free()
            raise LoadFailed(f"{error}; {self.remedy}", param=self.param) from error
        can_rewind = all(self.length(slot) == 1 for slot in range(self.num_slots))
        for slot in range(self.num_slots):
            self.truncate(slot, 0)
        if not can_rewind:
            self.free()
            raise LoadFailed(f"the memory of {self.name} keeps what it guessed; {self.remedy}", param=self.param)
