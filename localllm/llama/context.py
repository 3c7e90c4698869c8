"""A model's KV streams, one per slot, and the engine's `Backend` on top of them.

Partitioned layout (`kv_unified=False`): every slot owns `slot_capacity` cells, so slots cannot crowd each other out.
Batches are written through NumPy views, because field-by-field ctypes writes cost 200 us for 8 sequences.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from localllm.engine.backend import BackendError, Segment
from localllm.errors import LoadFailed
from localllm.llama.library import Library
from localllm.llama.model import LlamaModel
from localllm.llama.vocab import Vocab
from localllm.types import ResolvedSampling


class LlamaBackend:
    """Implements `engine.backend.Backend`; used by one thread."""

    def __init__(
        self, library: Library, model: LlamaModel, *, ctx: int, slots: int, threads: int, batch_tokens: int
    ) -> None:
        """Allocates the KV cache: `ctx` tokens for each of `slots`. Raises `LoadFailed`."""
        self._api: Any = library.api
        params = self._api.llama_context_default_params()
        params.n_ctx = ctx * slots
        params.n_seq_max = slots
        params.n_batch = params.n_ubatch = max(batch_tokens, slots)
        params.n_threads = params.n_threads_batch = threads
        params.kv_unified = False
        params.no_perf = True
        mark = library.log.mark()
        self._context: Any = self._api.llama_init_from_model(model.handle, params)
        if not self._context:
            raise LoadFailed(
                f"no memory for {slots} slots of {ctx} tokens ({library.log.errors_since(mark)}); "
                "ask for less with --ctx or --slots"
            )
        self._memory = self._api.llama_get_memory(self._context)
        self._batch = _Batch(self._api, self._api.llama_n_batch(self._context))
        self._samplers: dict[int, Any] = {}
        """Slot -> llama.cpp's chain; None is greedy, where argmax takes 0.01 ms and the chain 0.2 (152 k tokens)."""
        self._slots_of_rows: list[tuple[int, int]] = []
        self.vocab = Vocab(self._api, model.vocab)
        self.num_slots = slots
        self.slot_capacity: int = self._api.llama_n_ctx_seq(self._context)

    @property
    def batch_capacity(self) -> int:
        return self._batch.capacity

    def open(self, slot: int, sampling: ResolvedSampling) -> None:
        self._clear(slot)
        self._samplers[slot] = _sampler_chain(self._api, sampling) if sampling.temperature > 0 else None

    def close(self, slot: int) -> None:
        self._free_sampler(self._samplers.pop(slot))
        self._clear(slot)

    def decode(self, segments: Sequence[Segment]) -> None:
        self._slots_of_rows = self._batch.fill(segments)
        status = self._api.llama_decode(self._context, self._batch.struct)
        if status != 0:
            raise BackendError(_DECODE_STATUS.get(status, f"llama_decode returned {status}"))

    def sample(self, index: int) -> int:
        slot, row = self._slots_of_rows[index]
        sampler = self._samplers[slot]
        if sampler is None:
            return int(self._logits(row).argmax())
        return int(self._api.llama_sampler_sample(sampler, self._context, row))

    def token_bytes(self, token: int) -> bytes:
        return self.vocab.token_bytes(token)

    def ends_generation(self, token: int) -> bool:
        return self.vocab.ends_generation(token)

    def free(self) -> None:
        """Release samplers, batch and KV cache; the model may be closed after this."""
        for sampler in self._samplers.values():
            self._free_sampler(sampler)
        self._samplers.clear()
        self._batch.free()
        self._api.llama_free(self._context)

    def _logits(self, row: int) -> npt.NDArray[np.float32]:
        """A view of a batch row's logits, shape (vocabulary size,); valid until the next decode."""
        address = ctypes.cast(self._api.llama_get_logits_ith(self._context, row), ctypes.c_void_p).value
        assert address is not None, "that row was computed without logits"
        return np.ctypeslib.as_array((ctypes.c_float * self.vocab.size).from_address(address))

    def _free_sampler(self, sampler: Any) -> None:
        if sampler is not None:
            self._api.llama_sampler_free(sampler)

    def _clear(self, slot: int) -> None:
        self._api.llama_memory_seq_rm(self._memory, slot, -1, -1)


_DECODE_STATUS = {1: "no room in the KV cache", 2: "aborted", -1: "llama.cpp refused the batch"}


class _Batch:
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
        # llama_batch wants a pointer per token to its sequence ids: written once, into an array that we refill.
        self._slot_ids = np.zeros(capacity, dtype=np.int32)
        self._rows = view(ctypes.cast(self.struct.seq_id, ctypes.POINTER(ctypes.c_size_t)))
        self._own_rows = self._rows.copy()
        self._rows[:] = self._slot_ids.ctypes.data + 4 * np.arange(capacity, dtype=np.uintp)

    def fill(self, segments: Sequence[Segment]) -> list[tuple[int, int]]:
        """Write the segments; returns (slot, row of its last token) for each."""
        end = 0
        last_rows = []
        for slot, start, tokens, wants_token in segments:
            begin, end = end, end + len(tokens)
            self._tokens[begin:end] = tokens
            self._positions[begin:end] = range(start, start + len(tokens))
            self._slot_ids[begin:end] = slot
            self._wants_logits[begin:end] = 0
            self._wants_logits[end - 1] = wants_token
            last_rows.append((slot, end - 1))
        self.struct.n_tokens = end
        return last_rows

    def free(self) -> None:
        self._rows[:] = self._own_rows  # llama_batch_free frees these
        self._api.llama_batch_free(self.struct)


def _sampler_chain(api: Any, sampling: ResolvedSampling) -> Any:
    """llama.cpp's chain in its own default order: top_k, top_p, min_p, temperature, seeded draw."""
    chain = api.llama_sampler_chain_init(api.llama_sampler_chain_default_params())
    stages = []
    if sampling.top_k > 0:
        stages.append(api.llama_sampler_init_top_k(sampling.top_k))
    if sampling.top_p < 1:
        stages.append(api.llama_sampler_init_top_p(sampling.top_p, 1))
    if sampling.min_p > 0:
        stages.append(api.llama_sampler_init_min_p(sampling.min_p, 1))
    stages += [api.llama_sampler_init_temp(sampling.temperature), api.llama_sampler_init_dist(sampling.seed)]
    for stage in stages:
        api.llama_sampler_chain_add(chain, stage)
    return chain
