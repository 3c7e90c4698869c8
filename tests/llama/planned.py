"""A backend as the worker makes it: what the plan says, for a model on the CPU."""

from __future__ import annotations

from localllm.llama.backend import LlamaBackend, open_backend
from localllm.llama.context import Attention, Batching, KvMemory
from localllm.llama.library import Library
from localllm.llama.model import LlamaModel
from localllm.planning.plan import plan
from localllm.types import ModelInfo
from localllm.types.load_options import LoadOptions


def planned_backend(library: Library, model: LlamaModel, info: ModelInfo, options: LoadOptions) -> LlamaBackend:
    placement = plan(info, options, [])
    return open_backend(
        library,
        model,
        KvMemory(
            placement.ctx,
            placement.slots,
            num_cells=placement.num_cells if placement.kv == "unified" else None,
            kv_type=options.kv_type,
            snapshots=placement.snapshots,
        ),
        Batching(options.ubatch_tokens, ubatch_tokens=placement.ubatch_tokens, max_outputs=placement.max_outputs),
        threads=2,
        attention=Attention(placement.flash_attn),
    )
