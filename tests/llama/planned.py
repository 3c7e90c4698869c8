"""A backend as the worker makes it: what the plan says, for a model on the CPU."""

from __future__ import annotations

from localllm.llama.context import LlamaBackend
from localllm.llama.library import Library
from localllm.llama.model import LlamaModel
from localllm.planning.plan import plan
from localllm.types import ModelInfo
from localllm.types.load_options import LoadOptions


def planned_backend(library: Library, model: LlamaModel, info: ModelInfo, options: LoadOptions) -> LlamaBackend:
    placement = plan(info, options, [])
    return LlamaBackend(
        library,
        model,
        ctx=placement.ctx,
        slots=placement.slots,
        threads=2,
        batch_tokens=options.ubatch_tokens,
        ubatch_tokens=placement.ubatch_tokens,
        num_cells=placement.num_cells if placement.kv == "unified" else None,
        kv_type=options.kv_type,
        flash_attn=placement.flash_attn,
        max_outputs=placement.max_outputs,
        snapshots=placement.snapshots,
    )
