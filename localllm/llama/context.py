"""A `llama_context`: the KV memory and the compute buffers of one model, as llama.cpp allocates them.

Partitioned (`kv_unified=False`): every slot owns `slot_capacity` cells, so slots cannot crowd each other out.
Unified: all take theirs from one pool of `num_cells`.
Checks in llama.cpp's log what was allocated. Knows nothing of what slots hold.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from localllm.errors import LoadFailed
from localllm.llama.enums import flash_attn_type
from localllm.llama.library import Library
from localllm.llama.log_text import gave_up_flash, shortage
from localllm.llama.model import LlamaModel
from localllm.llama.rope import AS_TRAINED, Rope
from localllm.llama.shifting import can_turn_quantized
from localllm.types import FlashAttn, KvType

EXPERT_CACHE = "moe_cache_size"
"""The field of `llama_context_params` that older versions lack."""
_DECODE_STATUS = {1: "no room in the KV cache", -1: "llama.cpp refused the batch"}


class KvMemory(NamedTuple):
    """The cells of a context's slots, and what is kept beside them."""

    ctx: int
    """Tokens of each slot."""
    slots: int
    num_cells: int | None = None
    """Size of a unified cache for all slots together, for a model whose memory can drop its tail; None: partitioned."""
    kv_type: KvType = "f16"
    snapshots: int = 0
    """Earlier recurrent states kept per slot for rollback; 0 where llama.cpp supports none for the architecture."""
    states_bytes: int = 0
    """Main memory for saved states (`states.save_buffers`)."""
    expert_cache_bytes: int = 0
    """Device memory for experts that are computed by turns, of layers whose experts are in main memory."""


class Batching(NamedTuple):
    """Limits of one decode."""

    tokens: int
    ubatch_tokens: int | None = None
    """How many of them are computed at once; None: all."""
    max_outputs: int | None = None
    """Rows of logits of a batch; None: all."""


class Attention(NamedTuple):
    """How attention is computed."""

    flash_attn: FlashAttn = "auto"
    rope: Rope = AS_TRAINED


class LlamaContext:
    """Owns a `llama_context *`; `free` releases it, before the model is closed."""

    def __init__(
        self,
        library: Library,
        model: LlamaModel,
        kv: KvMemory,
        batching: Batching,
        *,
        threads: int,
        attention: Attention,
    ) -> None:
        """Raises `LoadFailed`."""
        api = self.api = library.api
        self.rope = attention.rope
        if kv.expert_cache_bytes and not hasattr(api.llama_context_default_params(), EXPERT_CACHE):
            raise LoadFailed(
                "moe_cache_mb needs llama.cpp 0.6 or newer; `localllm runtime list` shows this one's version, "
                "`localllm runtime install` others",
                param="moe_cache_mb",
            )
        params = _params(api, model, kv, batching, threads=threads, attention=attention)
        self.max_outputs = int(params.n_outputs_max)
        """Rows that llama.cpp allocated: a batch with more aborts the process."""
        mark = library.log.mark()
        self.handle: Any = api.llama_init_from_model(model.handle, params)
        lines = library.log.lines_since(mark)
        if not self.handle:
            raise LoadFailed(
                f"llama.cpp made no KV cache for {kv.slots} slots of {kv.ctx} tokens in {kv.kv_type} "
                f"({library.log.errors_since(mark)}); ask for less with --ctx or --slots"
                + ("" if kv.kv_type == "f16" else ", or for --kv-type f16")
                + ("" if attention.flash_attn != "off" else ", or leave out --flash-attn off")
                + ("" if not kv.expert_cache_bytes else ", or for another --moe-cache-mb"),
                param="ctx",
                **shortage(lines, model.devices),
            )
        self.flash_attn = attention.flash_attn != "off" and not gave_up_flash(lines)
        if attention.flash_attn == "on" and not self.flash_attn:
            self.free()
            raise LoadFailed("llama.cpp does not support flash attention for this model here", param="flash_attn")
        self.memory: Any = api.llama_get_memory(self.handle)
        """The `llama_memory_t` with the cells of all slots."""
        self.num_slots = kv.slots
        self.num_cells = None if kv.num_cells is None else int(api.llama_n_ctx(self.handle))
        self.slot_capacity = kv.ctx if kv.num_cells is not None else int(api.llama_n_ctx_seq(self.handle))
        self.batch_capacity = int(api.llama_n_batch(self.handle))
        self.ubatch_capacity = int(api.llama_n_ubatch(self.handle))
        turns_keys = kv.kv_type == "f16" or can_turn_quantized(api, model.handle, lines)
        # In a unified cache the cells may also belong to other slots.
        self.can_shift = self.num_cells is None and turns_keys and bool(api.llama_memory_can_shift(self.memory))
        """Whether keys can move to other positions, in a memory that can drop any tokens."""

    def free(self) -> None:
        """Idempotent."""
        if self.handle:
            self.api.llama_free(self.handle)
            self.handle = None


def decode_failure(status: int) -> str:
    """What a status of `llama_decode` other than 0 means."""
    return _DECODE_STATUS.get(status, f"llama_decode returned {status}")


def _params(
    api: Any, model: LlamaModel, kv: KvMemory, batching: Batching, *, threads: int, attention: Attention
) -> Any:
    params = api.llama_context_default_params()
    params.n_ctx = kv.ctx * kv.slots if kv.num_cells is None else kv.num_cells
    params.n_seq_max = kv.slots
    params.n_batch = max(batching.tokens, kv.slots)
    params.n_ubatch = max(batching.ubatch_tokens or batching.tokens, kv.slots)
    # A ubatch must be longer, or llama.cpp aborts; and a memory both recurrent and windowed does not report how much
    # of the window is there.
    most_snapshots = min(params.n_ubatch // kv.slots - 1, params.n_ubatch - 2)
    params.n_rs_seq = 0 if model.window else max(0, min(kv.snapshots, most_snapshots))
    params.n_outputs_max = max(min(batching.max_outputs or params.n_batch, params.n_batch), kv.slots)
    params.n_threads = params.n_threads_batch = threads
    params.kv_unified = kv.num_cells is not None
    params.type_k = params.type_v = getattr(api, f"GGML_TYPE_{kv.kv_type.upper()}")
    params.flash_attn_type = flash_attn_type(api, attention.flash_attn)
    attention.rope.apply(api, params)
    params.swa_full = False  # keep only the window in windowed layers: the rest would be most of the memory
    # llama.cpp copies no vectors for guesses (`drafts`) if the header states a pooling, meant for embeddings.
    params.pooling_type = api.LLAMA_POOLING_TYPE_NONE
    params.no_perf = True
    if kv.expert_cache_bytes:
        params.moe_cache_size = kv.expert_cache_bytes
    return params
