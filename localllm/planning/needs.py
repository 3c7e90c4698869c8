"""Main memory that a model needs: estimates on the high side, from header and options."""

from __future__ import annotations

from typing import Literal

import msgspec

from localllm.planning import encoders
from localllm.planning.buffers import Step, compute_bytes, encoder_bytes
from localllm.planning.plan import (
    EMBEDDING_STATES,
    cpu_compute_bytes,
    cpu_memory_bytes,
    embedding_context_of,
    embedding_memory_bytes,
    heads_of,
    output_bytes,
)
from localllm.types import ModelInfo
from localllm.types.load_options import LoadOptions

FIXED_BYTES = 96 * 2**20
"""Memory of a worker itself: Python, the library, and its child for templates."""


def need_bytes(info: ModelInfo, options: LoadOptions, flash_attn: Literal["on", "off"] | None = None) -> int:
    """Main memory of a model with all layers on the CPU: an estimate on the high side. Raises as `plan`.

    `flash_attn`: what its worker found to be faster; None if unknown, which gives the larger need.
    """
    if flash_attn is not None and options.flash_attn == "auto":
        options = msgspec.structs.replace(options, flash_attn=flash_attn)
    kv = cpu_memory_bytes(info, options)
    computed = cpu_compute_bytes(info, options) + output_bytes(info, options)
    return info.size_bytes + kv + computed + heads_of(info, options).total + FIXED_BYTES


def embedding_bytes(info: ModelInfo, options: LoadOptions) -> int:
    """Additional main memory for embedding: the longest text in one step; for a causal model also KV cells and logits.

    llama.cpp allocates a row of logits for each text, whether it computes any or not.
    """
    ctx, flash = embedding_context_of(info, options), options.flash_attn != "off"
    has_state = any(layer.state for layer in info.layer_memory)
    outputs = encoders.output_bytes(info, EMBEDDING_STATES if has_state else encoders.TEXTS)
    if not info.causal:
        return outputs + encoder_bytes(info, max(ctx, encoders.ROWS), flash=flash)
    cells = ctx + encoders.ROWS
    step = Step(rows=encoders.ROWS, seen=cells, windowed=cells, outputs=encoders.ROWS)
    return outputs + embedding_memory_bytes(info, cells) + compute_bytes(info, step, flash=flash)
