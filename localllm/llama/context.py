"""A model's KV streams, one per slot, and the engine's `Backend` on top of them.

Partitioned layout (`kv_unified=False`): every slot owns `slot_capacity` cells, so slots cannot crowd each other out.
Unified: all take theirs from one pool of `num_cells`.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from localllm.engine.backend import BackendError, Segment, State
from localllm.errors import LoadFailed
from localllm.llama.batch import Batch
from localllm.llama.enums import flash_attn_type
from localllm.llama.interrupts import ABORTED, Interrupt
from localllm.llama.library import Library
from localllm.llama.log_text import gave_up_flash, shortage
from localllm.llama.model import LlamaModel
from localllm.llama.rope import AS_TRAINED, Rope
from localllm.llama.shifting import can_turn_quantized
from localllm.llama.states.padding import CELLS_A_PASS, fillers
from localllm.llama.states.saved import SavedStates
from localllm.llama.states.tails import Tails
from localllm.llama.tokens.vocab import Vocab
from localllm.types import FlashAttn, KvType, MemoryKind

FLASH_TILE, MATRIX_TILE = 64, 32
"""Attention is fast from this many rows. ggml's flash attention computes 64 together, fewer one by one; else matrices
are multiplied: 8, 32, 64 rows of 1.3 B on two cores take 31, 20, 18 ms a row at depth 0, 38, 24, 24 at 1,000."""
STATE_COPY_SHARE = 3
"""A slot filled to less than this fraction is copied through a state, which contains only its own cells
(benchmarks/log/kv.md#what-a-save-costs): 2 to 18 ms for 100 to 2,000 tokens, where all 8,192 cells take 32."""


class LlamaBackend:
    """Implements `engine.backend.Backend`; used by one thread."""

    def __init__(
        self,
        library: Library,
        model: LlamaModel,
        *,
        ctx: int,
        slots: int,
        threads: int,
        batch_tokens: int,
        num_cells: int | None = None,
        kv_type: KvType = "f16",
        flash_attn: FlashAttn = "auto",
        ubatch_tokens: int | None = None,
        is_offloaded: bool = False,
        max_outputs: int | None = None,
        states_bytes: int = 0,
        snapshots: int = 0,
        rope: Rope = AS_TRAINED,
    ) -> None:
        """Allocates the KV cache, `ctx` tokens for each of `slots`, and computes two tokens. Raises `LoadFailed`.

        `ubatch_tokens`: how many of a batch's `batch_tokens` are computed at once; None: all. `max_outputs`: rows of
        logits of a batch; None: all. `states_bytes`: memory for saved states (`buffers`). `num_cells`: size of a
        unified cache for all slots together, for a model whose memory can drop its tail. `is_offloaded`: some of it is
        computed on GPUs, which cannot be interrupted. `snapshots`: earlier recurrent states kept per slot for rollback;
        0 where llama.cpp supports none for the architecture.
        """
        self._api: Any = library.api
        params = self._api.llama_context_default_params()
        params.n_ctx = ctx * slots if num_cells is None else num_cells
        params.n_seq_max = slots
        params.n_batch = max(batch_tokens, slots)
        params.n_ubatch = max(ubatch_tokens or batch_tokens, slots)
        window = int(self._api.llama_model_n_swa(model.handle))
        # A ubatch must be longer, or llama.cpp aborts; and a memory both recurrent and windowed does not report how
        # much of the window is there.
        params.n_rs_seq = 0 if window else max(0, min(snapshots, params.n_ubatch // slots - 1, params.n_ubatch - 2))
        self.max_outputs: int = max(min(max_outputs or params.n_batch, params.n_batch), slots)
        params.n_outputs_max = self.max_outputs  # llama.cpp allocates this many rows; a batch with more aborts
        params.n_threads = params.n_threads_batch = threads
        params.kv_unified = num_cells is not None
        params.type_k = params.type_v = getattr(self._api, f"GGML_TYPE_{kv_type.upper()}")
        params.flash_attn_type = flash_attn_type(self._api, flash_attn)
        rope.apply(self._api, params)
        params.swa_full = False  # keep only the window in windowed layers: the rest would be most of the memory
        # llama.cpp copies no vectors for guesses (`headed`) if the header states a pooling, meant for embeddings.
        params.pooling_type = self._api.LLAMA_POOLING_TYPE_NONE
        params.no_perf = True
        mark = library.log.mark()
        self._context: Any = self._api.llama_init_from_model(model.handle, params)
        if not self._context:
            raise LoadFailed(
                f"llama.cpp made no KV cache for {slots} slots of {ctx} tokens in {kv_type} "
                f"({library.log.errors_since(mark)}); ask for less with --ctx or --slots"
                + ("" if kv_type == "f16" else ", or for --kv-type f16")
                + ("" if flash_attn != "off" else ", or leave out --flash-attn off"),
                param="ctx",
                **shortage(library.log.lines_since(mark), model.devices),
            )
        self.flash_attn: bool = flash_attn != "off" and not gave_up_flash(library.log.lines_since(mark))
        if flash_attn == "on" and not self.flash_attn:
            self._api.llama_free(self._context)
            raise LoadFailed("llama.cpp does not support flash attention for this model here", param="flash_attn")
        self._memory = self._api.llama_get_memory(self._context)
        lines = library.log.lines_since(mark)
        self._turns_keys: bool = kv_type == "f16" or can_turn_quantized(self._api, model.handle, lines)
        self._interrupt = Interrupt(self._api, self._context, self._memory, wanted=not is_offloaded)
        self._has_shifted = False
        """The next decode rotates keys to their new positions, in a graph that must not be interrupted."""
        self._batch = Batch(self._api, self._api.llama_n_batch(self._context))
        self._outputs: list[tuple[int, int]] = []
        """Range `[first, end)` of logit rows for every segment of the last decode."""
        self._logits_at: int | None = None
        """Address of the logits, one row after the other."""
        self._logit_rows: list[npt.NDArray[np.float32]] = []
        """Views of the first rows: creating one takes longer than using it."""
        self._get_logits: Any = self._api._lib["llama_get_logits"]
        """As an address: the binding's own function creates a pointer object."""
        self._get_logits.argtypes, self._get_logits.restype = [ctypes.c_void_p], ctypes.c_void_p
        self._is_synchronized = True
        self.is_asynchronous = library.is_asynchronous(model.layers_per_device)
        self._threads = threads
        self._copied: set[int] = set()
        """Slots from or to which the next decode copies cells."""
        recurrent = self._api.llama_model_is_recurrent(model.handle) or self._api.llama_model_is_hybrid(model.handle)
        self._tails = Tails(
            self._api,
            self._memory,
            slots=slots,
            ubatch_tokens=params.n_ubatch,
            window=0 if recurrent else window,
            snapshots=int(self._api.llama_n_rs_seq(self._context)) if recurrent else 0,
        )
        self.vocab = Vocab(self._api, model.vocab)
        self.num_slots = slots
        self.num_cells = None if num_cells is None else int(self._api.llama_n_ctx(self._context))
        self.slot_capacity: int = ctx if num_cells is not None else self._api.llama_n_ctx_seq(self._context)
        competes = not self.is_asynchronous
        self._states = SavedStates(self._api, self._context, states_bytes, competes=competes)
        self._filled_cells = math.inf
        """Limit for cells that gap fillers attend to."""
        self.can_rewind = self._tails.can_lose_any = self._warm_up() and not recurrent and not self._tails.window
        if token_bytes := self._states.token_bytes:
            self._filled_cells = self._api.llama_model_size(model.handle) / token_bytes * CELLS_A_PASS
        self.wants_dense = not (self.can_rewind or self._tails.window)
        if num_cells is not None and not self.can_rewind:
            raise LoadFailed(
                f"a {self.memory_kind} memory has no unified layout here; leave out --kv and --kv-cells", param="kv"
            )

    @property
    def batch_capacity(self) -> int:
        return self._batch.capacity

    @property
    def ubatch_capacity(self) -> int:
        return int(self._api.llama_n_ubatch(self._context))

    @property
    def can_be_interrupted(self) -> bool:
        # A recurrent state is changed in place: an unfinished ubatch leaves it unusable.
        return self._interrupt.works and self.memory_kind != "recurrent"

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

    @property
    def tile(self) -> int:
        return FLASH_TILE if self.flash_attn else MATRIX_TILE

    @property
    def grain(self) -> int:
        return FLASH_TILE if self.flash_attn else MATRIX_TILE // 2

    @property
    def can_shift(self) -> bool:
        # In a unified cache the cells may also belong to other slots.
        shifts = bool(self._api.llama_memory_can_shift(self._memory))
        return self.can_rewind and self.num_cells is None and shifts and self._turns_keys

    @property
    def memory_kind(self) -> MemoryKind:
        return "attention" if self.can_rewind else "sliding window" if self._tails.window else "recurrent"

    @property
    def max_rollback(self) -> int:
        return self.batch_capacity if self.can_rewind else self._tails.max_rollback

    @property
    def rolls_back_equals(self) -> bool:
        return self._tails.snapshots > 0

    def length(self, slot: int) -> int:
        return self._tails.length(slot)

    def least(self, slot: int) -> int:
        return self._tails.least(slot)

    def truncate(self, slot: int, length: int) -> None:
        self._tails.truncate(slot, length)

    def scrub(self) -> None:
        if self.num_cells is not None and any(self._tails.lengths):
            return  # shared cells would be duplicated per slot
        states = [(slot, self.save(slot), length) for slot, length in enumerate(self._tails.lengths) if length]
        self._api.llama_memory_clear(self._memory, True)
        for slot, state, length in states:
            self.restore(slot, state, length)

    def copy(self, source: int, slot: int, length: int) -> None:
        """In a unified cache the cells are shared. In a partitioned one this changes metadata, and llama.cpp moves all
        cells of the slot at the beginning of the next decode; or the copy goes through a saved state, at once, where
        that is less.

        A memory that needs checkpoints is always copied through a state: what `rewind` puts into the slot would be
        overwritten by cells that arrive later.
        """
        if not self.can_rewind or self._is_copied_as_state(source, slot):
            self.restore(slot, self.save(source), self._tails.lengths[source])
            if length < self._tails.lengths[slot]:
                self.truncate(slot, length)
            return
        self._api.llama_memory_seq_rm(self._memory, slot, -1, -1)
        if self.num_cells is not None:
            self._api.llama_memory_seq_cp(self._memory, source, slot, 0, length)
            self._tails.replaced(slot, length)
            return
        self._api.llama_memory_seq_cp(self._memory, source, slot, -1, -1)
        self._copied |= {source, slot}
        self._tails.replaced(slot, self._tails.lengths[source])
        self.truncate(slot, length)

    def _is_copied_as_state(self, source: int, slot: int) -> bool:
        """Where that is faster, and no copy of cells from or to either slot is pending."""
        is_short = STATE_COPY_SHARE * self._tails.lengths[source] < self.slot_capacity
        return self.num_cells is None and is_short and self._copied.isdisjoint((source, slot))

    def save(self, slot: int) -> State:
        self._tails.settle(slot)
        return self._states.read(slot)

    def state_bytes(self, slot: int) -> int:
        self._tails.settle(slot)
        return self._states.num_bytes(slot)

    def restore(self, slot: int, state: State, length: int) -> None:
        self._api.llama_memory_seq_rm(self._memory, slot, -1, -1)
        self._states.write(slot, state)
        self._tails.replaced(slot, length)

    def checkpoint(self, slot: int) -> State:
        self._tails.settle(slot)
        return self._states.read(slot, self._api.LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY)

    def rewind(self, slot: int, state: State, length: int) -> None:
        self._states.write(slot, state, self._api.LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY)
        if not self._api.llama_memory_seq_rm(self._memory, slot, length, -1):
            raise AssertionError(f"llama.cpp cannot go back to {length} of {self._tails.lengths[slot]} tokens")
        self._tails.replaced(slot, length)

    def shift(self, slot: int, keep: int, drop: int) -> None:
        """Changes metadata now; llama.cpp rotates the keys to their new positions with the next decode."""
        self._api.llama_memory_seq_rm(self._memory, slot, keep, keep + drop)
        self._api.llama_memory_seq_add(self._memory, slot, keep + drop, -1, -drop)
        self._tails.lengths[slot] -= drop
        self._has_shifted = True

    def set_threads(self, threads: int) -> None:
        """llama.cpp takes one number for single tokens and one for batches, which include tokens of several streams."""
        if threads != self._threads:
            self._threads = threads
            self._api.llama_set_n_threads(self._context, threads, threads)

    def decode(self, segments: Sequence[Segment], *, within_s: float | None = None) -> bool:
        num_rows = sum(segment.num_outputs for segment in segments)
        if num_rows > self.max_outputs:
            raise BackendError(f"{num_rows} rows of logits; at most {self.max_outputs} fit")
        between = [] if self.wants_dense or self.num_cells is not None else self._fillers(segments)
        self._batch.fill(sorted((*segments, *between)) if between else segments)
        self._tails.settle()
        slots = [segment.slot for segment in segments]
        with self._interrupt.listening(slots, None if self._has_shifted else within_s):
            status = self._api.llama_decode(self._context, self._batch.struct)
        self._has_shifted = False
        self._copied.clear()
        for filler in between:
            self._api.llama_memory_seq_rm(self._memory, filler.slot, filler.start, -1)
        self._outputs.clear()
        if status == ABORTED:
            self._tails.interrupted(slots)
            return False
        if status != 0:
            raise BackendError(_DECODE_STATUS.get(status, f"llama_decode returned {status}"))
        end = 0
        for segment in segments:
            first, end = end, end + segment.num_outputs
            self._outputs.append((first, end))
        self._tails.decoded(segments)
        self._states.expect(self._tails.lengths)
        self._is_synchronized = False
        return True

    def rest(self) -> None:
        self._states.rest()

    def synchronize(self) -> None:
        """Never raises: where computing fails this late, CUDA ends the process and Metal fails the next decode."""
        address = self._get_logits(self._context)  # waits for the devices
        self._is_synchronized = True
        if address != self._logits_at:
            self._logits_at, self._logit_rows = address, []

    def logits(self, index: int) -> Sequence[npt.NDArray[np.float32]]:
        if not self._is_synchronized:
            self.synchronize()
        (first, end), rows = self._outputs[index], self._logit_rows
        assert self._logits_at is not None, "llama.cpp has no logits"
        while len(rows) < end:
            address = self._logits_at + 4 * self.vocab.size * len(rows)
            rows.append(np.ctypeslib.as_array((ctypes.c_float * self.vocab.size).from_address(address)))
        return rows[first:end]

    def spelled(self, token: int) -> bytes:
        return self.vocab.piece(token, special=True)

    def token_bytes(self, token: int) -> bytes:
        return self.vocab.token_bytes(token)

    def ends_generation(self, token: int) -> bool:
        return self.vocab.ends_generation(token)

    def free(self) -> None:
        """Release batch and KV cache; the model may be closed after this. Saved states remain valid. Idempotent."""
        if self._context:
            self._states.close()
            self._batch.free()
            self._api.llama_free(self._context)
            self._context = None

    def _warm_up(self) -> bool:
        """Compute two tokens; whether the memory can drop the second.

        This loads the weights and compiles kernels before the first request: weights are mapped, not read, and "ready"
        would be meaningless for a model larger than the page cache.
        """
        self.can_rewind = self.wants_dense = False  # set below
        try:
            self.decode([Segment(0, 0, [0, 0], num_outputs=1)])
            self.synchronize()
        except BackendError as error:
            raise LoadFailed(f"the model is loaded but cannot compute: {error}") from error
        two_tokens = self._states.num_bytes(0)
        if not (can_rewind := bool(self._api.llama_memory_seq_rm(self._memory, 0, 1, -1))):
            self._tails.window = 0
        one_token = two_tokens if self._tails.window else self._states.num_bytes(0)  # equal if both are kept
        self._states.learn(2, two_tokens, two_tokens - one_token)
        self.truncate(0, 0)
        return can_rewind

    def _fillers(self, segments: Sequence[Segment]) -> list[Segment]:
        return fillers(
            segments,
            self._tails.lengths,
            slot_capacity=self.slot_capacity,
            batch_capacity=self.batch_capacity,
            most_cells=self._filled_cells,
        )


_DECODE_STATUS = {1: "no room in the KV cache", -1: "llama.cpp refused the batch"}
