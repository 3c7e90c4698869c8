"""What an encoder needs on each device besides its weights: it computes whole texts, and keeps nothing of them.

Pure functions of its header and the longest text. Knows nothing of options and devices.
"""

from __future__ import annotations

from localllm.planning import buffers
from localllm.planning.placing import Demand, Sizes
from localllm.types import ModelInfo

ROWS, TEXTS = 512, 128
"""Tokens and texts that are embedded at once, at least: `llama.embedding.BATCH_TOKENS` and `MAX_TEXTS`."""

FIRST_COPIES, LATER_COPIES = 8, 4
"""Embeddings of all tokens that llama.cpp keeps on the first and on a later one of several devices, so that one can
compute while another does. Read off its allocations, like `buffers` (`tests/gpu/test_device_planning.py`)."""


def output_bytes(info: ModelInfo, texts: int = TEXTS) -> int:
    """Size of the vectors, and of the logits that llama.cpp allocates even if it computes none: one row per text."""
    return buffers.F32 * texts * (info.vocabulary_size + (info.embedding_length or 0))


def demand_of(info: ModelInfo, sizes: Sizes, ctx: int, *, flash: bool) -> Demand:
    """The memory that a placement must provide for texts of `ctx` tokens."""
    rows = max(ctx, ROWS)
    width = buffers.F32 * rows * (info.embedding_length or 0)
    beside = buffers.encoder_host_bytes(info, rows, TEXTS, flash=flash) - 3 * width
    largest = max((size for name, size in info.tensors.items() if name.startswith("blk.")), default=0)
    return Demand(
        sizes=sizes,
        kept=[0] * len(sizes.layers),
        compute=buffers.encoder_device_bytes(info, rows, TEXTS, flash=flash),
        compute_partly=buffers.encoder_device_bytes(info, rows, TEXTS, flash=flash, copied=largest),
        compute_experts=buffers.encoder_device_bytes(info, rows, TEXTS, flash=flash, copied=largest),
        compute_output=0,  # there is no head: the last layer's device pools
        host=3 * width + beside,
        copies=buffers.MORE_COPIES * beside + FIRST_COPIES * width,
        copies_later=buffers.MORE_COPIES * beside + LATER_COPIES * width,
        copies_host=buffers.MORE_COPIES * (beside + width),
        host_alone=buffers.encoder_bytes(info, rows, flash=flash),
        outputs=output_bytes(info),
    )
