"""A model's own NextN layers (multi-token prediction): whether they guess, and what memory that takes.

Pure functions of headers and options. Knows nothing of how guesses are computed.
"""

from __future__ import annotations

from typing import NamedTuple

from localllm.planning import buffers
from localllm.planning.buffers import Step
from localllm.types import ModelInfo
from localllm.types.load_options import LoadOptions

CTX = 4096
"""The most tokens that heads look back: they need few, and their memory is allocated at once."""
BATCH_TOKENS = 256
OUTPUTS = 32
"""Rows of logits of a batch, or one per slot."""
KEPT_ROWS = 512
"""Vectors kept for each slot: `llama.drafts.next_rows.KEPT`."""
MOST_BATCH = 2048
"""The most tokens whose vectors llama.cpp hands out at once: `worker.loading.WHOLE_BATCH`."""
F32, F16 = 4, 2


class HeadsBytes(NamedTuple):
    """Memory that heads add."""

    kept: int
    """Keys and values."""
    compute: int
    host: int
    """In main memory: vectors and logits."""

    @property
    def total(self) -> int:
        return self.kept + self.compute + self.host


NOTHING = HeadsBytes(0, 0, 0)


def why_none(info: ModelInfo, options: LoadOptions) -> str:
    """Why the heads do not guess; empty: they do, or the model has none."""
    if info.heads is None:
        return ""
    if options.mtp == "off" or options.speculation == "off":
        return "as requested"
    if options.draft not in (None, "auto"):
        return "a draft model guesses instead"
    return info.no_heads


def context_of_heads(info: ModelInfo, options: LoadOptions, ctx: int) -> int:
    """Tokens that the heads look back in a slot of `ctx` tokens; 0: they are not used."""
    return 0 if info.heads is None or why_none(info, options) else min(ctx, CTX)


def heads_bytes(info: ModelInfo, options: LoadOptions, *, ctx: int, slots: int) -> HeadsBytes:
    """Memory that the heads need for slots of `ctx` tokens."""
    seen = context_of_heads(info, options, ctx)
    if info.heads is None or not seen:
        return NOTHING
    outputs = max(OUTPUTS, slots)
    step = Step(rows=max(BATCH_TOKENS, slots), seen=seen, windowed=seen, outputs=outputs)
    width = info.embedding_length or 0
    rows = KEPT_ROWS * slots + max(MOST_BATCH, options.ubatch_tokens) + step.rows
    return HeadsBytes(
        kept=F16 * (info.heads.keys + info.heads.values) * seen * slots,
        compute=buffers.compute_bytes(info, step, flash=False),
        host=F32 * (rows * width + outputs * info.vocabulary_size),
    )
