"""A model's own NextN layers (multi-token prediction): a context that guesses from the model's vectors and tokens.

    place p of a stream   token p, and the model's vector of token p - 1  ->  logits for token p + 1, a vector of p

The first guess uses a vector that the model computed (`next_rows`); those after it use the heads' own. Each slot of the
model has a stream of the same number. A stream begins at any token: nothing before it is seen, which only makes
guesses worse. Knows nothing of when anything is guessed.
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
from localllm.llama.enums import flash_attn_type
from localllm.llama.library import Library
from localllm.llama.model import LlamaModel
from localllm.types import FlashAttn


class LlamaHeads:
    """Implements `engine.speculation.head_streams.Heads`; used by one thread."""

    can_shift = False
    guesses_at_once = 0
    sees_last_only = False
    name = "the model's NextN layers"
    param, remedy = "mtp", "--mtp off does without them"
    """Of a `LoadFailed`."""
    is_own = True
    """Whether they are layers of the target's file."""
    is_selective = True
    """Whether llama.cpp's graph computes logits only of tokens that want them; otherwise all or none must."""

    def __init__(
        self,
        library: Library,
        model: LlamaModel,
        target: LlamaBackend,
        batching: Batching,
        *,
        ctx: int,
        threads: int,
        is_cropped: bool,
        flash_attn: FlashAttn = "auto",
    ) -> None:
        """Allocates `ctx` tokens for each slot of the target, which keeps vectors. Raises `LoadFailed`.

        `is_cropped`: as in `gguf.rules.nextn.Form`; the vectors of other tokens are taken where it is wrong.
        """
        assert target.vectors is not None
        api: Any = library.api
        self._api, self._model = api, model
        self._target, self._vectors, self._functions = target, target.vectors, target.vectors.functions
        self.num_slots = target.cells.num_slots
        self.batch_capacity = max(batching.tokens, self.num_slots)
        self.max_outputs = max(min(batching.max_outputs or self.batch_capacity, self.batch_capacity), self.num_slots)
        params = api.llama_context_default_params()
        params.n_ctx, params.n_seq_max = ctx * self.num_slots, self.num_slots
        params.n_batch = params.n_ubatch = self.batch_capacity
        params.n_outputs_max = self.max_outputs
        params.n_threads = params.n_threads_batch = threads
        params.kv_unified = False
        params.flash_attn_type = flash_attn_type(api, flash_attn)
        params.pooling_type = api.LLAMA_POOLING_TYPE_NONE  # else llama.cpp copies no vectors if the header states one
        params.ctx_other = target.context.handle
        self._configure(params)
        params.no_perf = True
        mark = library.log.mark()
        self._context: Any = api.llama_init_from_model(model.handle, params)
        if not self._context:
            raise LoadFailed(
                f"llama.cpp made no context for {self.name} ({library.log.errors_since(mark)}); {self.remedy}",
                param=self.param,
            )
        self._functions.set_rows(self._context, True, is_cropped)
        self._memory = api.llama_get_memory(self._context)
        self._batch: Any = api.llama_batch_ext_init(self._context)
        self.slot_capacity = int(api.llama_n_ctx_seq(self._context))
        self._width = model.dimensions
        self._zeros = np.zeros(self._width, np.float32)
        self._threads = threads
        self._firsts = [0] * self.num_slots
        """Per slot, the index of the stream's first token in the text."""
        self._lengths = [0] * self.num_slots
        self._own: list[tuple[int, npt.NDArray[np.float32]]] = [(-1, self._zeros)] * self.num_slots
        """Per slot, the heads' last vector, and the index of the token that it is of."""
        self._outputs: list[list[int]] = []
        """For each segment of the last decode, the places in the batch of its tokens with logits."""
        self._check()

    def _configure(self, params: Any) -> None:
        """Change the context's parameters."""
        if self.is_own:
            params.ctx_type = self._api.LLAMA_CONTEXT_TYPE_MTP

    def earliest(self, slot: int) -> int:
        """The first token of the text that the slot's stream may begin with."""
        assert self._vectors.rows is not None
        first = self._vectors.rows.first(slot)
        return first + 1 if first else 0

    def begins(self, slot: int, first: int) -> None:
        """The slot's stream, which is empty, begins with this token of the text."""
        self._firsts[slot] = first
        self._own[slot] = -1, self._zeros

    def length(self, slot: int) -> int:
        return int(self._api.llama_memory_seq_pos_max(self._memory, slot)) + 1

    def truncate(self, slot: int, length: int) -> None:
        self._api.llama_memory_seq_rm(self._memory, slot, length or -1, -1)
        self._lengths[slot] = min(length, self._lengths[slot])

    def shift(self, slot: int, keep: int, drop: int) -> None:
        raise AssertionError(f"slot {slot}: heads begin anew where {drop} tokens after {keep} are removed")

    def set_threads(self, threads: int) -> None:
        if threads != self._threads:
            self._threads = threads
            self._api.llama_set_n_threads(self._context, threads, threads)

    def decode(self, segments: Sequence[Segment], *, within_s: float | None = None) -> bool:  # noqa: ARG002
        """As `BatchDecoder.decode`; never interrupted. What the last call gave is gone."""
        api, batch = self._api, self._batch
        api.llama_batch_ext_clear(batch)
        self._outputs = []
        rows = self._before(segments)
        following = iter(rows)
        want_all = not self.is_selective and any(segment.num_outputs for segment in segments)
        for slot, start, tokens, num_outputs, num_padding, _ in segments:
            wanted = range(len(tokens) - num_outputs, len(tokens))
            places = []
            for index, token in enumerate((*tokens, *[0] * num_padding)):
                wants_logits = want_all or index in wanted
                place = self._add(slot, start + index, token, next(following), wants_logits=wants_logits)
                if index in wanted:
                    places.append(place)
            self._outputs.append(places)
        status = api.llama_process(self._context, api.LLAMA_PROCESS_TYPE_DECODE, batch)
        if status != 0:
            raise BackendError(f"llama_process of {self.name} returned {status}")
        for (slot, start, tokens, num_outputs, num_padding, _), places in zip(segments, self._outputs, strict=True):
            self._lengths[slot] = start + len(tokens)
            if num_padding:
                api.llama_memory_seq_rm(self._memory, slot, self._lengths[slot], -1)
            if num_outputs:
                self._own[slot] = self._firsts[slot] + start + len(tokens) - 1, self._row(places[-1])
        return True

    def synchronize(self) -> None:
        """Reading a vector has waited for the devices."""

    def logits(self, index: int) -> list[npt.NDArray[np.float32]]:
        """The rows of segment `index` of the last decode, each of shape (vocabulary size,), valid until the next."""
        size = self._target.vocab.size
        rows = []
        for place in self._outputs[index]:
            pointer = self._api.llama_get_logits_ith(self._context, place)
            rows.append(np.ctypeslib.as_array(pointer, shape=(size,)))
        return rows

    def ends_generation(self, token: int) -> bool:
        return self._target.vocab.ends_generation(token)

    def free(self) -> None:
        """Release the context, and a model of its own; before the target's context is freed. Idempotent."""
        if self._context:
            self._api.llama_batch_ext_free(self._batch)
            self._api.llama_free(self._context)
            self._context = None
        if not self.is_own:
            self._model.close()

    def _before(self, segments: Sequence[Segment]) -> list[npt.NDArray[np.float32]]:
        """For each token, padding included, the vector of the one before it: the model's, else the heads' own, else
        zeros."""
        assert self._vectors.rows is not None
        known = self._vectors.rows
        rows, others = list[npt.NDArray[np.float32] | None](), list[npt.NDArray[np.float32]]()
        for slot, start, tokens, _, num_padding, _ in segments:
            own_at, own = self._own[slot]
            first = self._firsts[slot] + start - 1
            for at in range(first, first + len(tokens) + num_padding):
                rows.append(known.row(slot, at) if at >= 0 else None)
                others.append(own if own_at == at >= 0 else self._zeros)
        encoded = iter(self._encoded([row for row in rows if row is not None]))
        return [other if row is None else next(encoded) for row, other in zip(rows, others, strict=True)]

    def _encoded(self, rows: list[npt.NDArray[np.float32]]) -> list[npt.NDArray[np.float32]]:
        """What the layers take of vectors that the model computed: these themselves."""
        return rows

    def _place(self, slot: int, place: int) -> int:  # noqa: ARG002  others need it
        """Where llama.cpp sees the token at this place of the slot's stream."""
        return place

    def _add(self, slot: int, place: int, token: int, row: npt.NDArray[np.float32], *, wants_logits: bool) -> int:
        api, batch = self._api, self._batch
        index = int(api.llama_batch_ext_add_token(batch, slot, token))
        vector = api.llama_embd(row.ctypes.data_as(ctypes.POINTER(ctypes.c_float)), 1, self._width)
        at = (ctypes.c_int32 * 1)(self._place(slot, place))
        is_set = index >= 0 and api.llama_batch_ext_set_pos(batch, index, at)
        # Since 0.6 a hidden state has a place of its own in contexts for heads; without one, this does nothing.
        is_set = is_set and (
            api.llama_batch_ext_set_embd_state(batch, index, vector)
            or api.llama_batch_ext_set_embd_token(batch, index, vector)
        )
        if is_set and wants_logits:
            is_set = api.llama_batch_ext_set_output_logits(batch, index, True)
        if not is_set:
            raise BackendError(f"llama.cpp took no token for {self.name}")
        return index

    def _row(self, place: int) -> npt.NDArray[np.float32]:
        address = self._functions.row(self._context, place)
        if not address:
            raise BackendError(f"llama.cpp gave no vector of {self.name}")
        return np.ctypeslib.as_array((ctypes.c_float * self._width).from_address(address)).copy()

    def _check(self) -> None:
        """Compute two tokens and drop one. Raises `LoadFailed`."""
        try:
            self.decode([Segment(0, 0, [0, 0], 1)])
        except BackendError as error:
            self.free()
            raise LoadFailed(f"{error}; {self.remedy}", param=self.param) from error
        can_rewind = self._api.llama_memory_seq_rm(self._memory, 0, 1, -1)
        self.truncate(0, 0)
        self._own[0] = -1, self._zeros
        if not can_rewind:
            self.free()
            raise LoadFailed(
                f"the memory of {self.name} cannot roll back wrong guesses; {self.remedy}", param=self.param
            )
