"""What llama.cpp allocates to compute with, beside weights and KV cache: a pure function of the header and a step.

llama.cpp lays out the graph of its largest step and reuses memory within it, so its size is the largest of three: the
feed-forward part, attention without flash, the output head. The coefficients were read off its allocations for models
of real widths (`tests/llama/test_buffer_planning.py` compares them). Knows nothing of options and devices.
"""

from __future__ import annotations

from typing import NamedTuple

from localllm.types import ModelInfo

F32, F16 = 4, 2
RECURRENT_WIDTHS = 13
"""Vectors as wide as the embedding that a token takes in a state-space layer."""
MORE_COPIES = 3
"""Of a step's inputs, where devices work one behind the other: GGML_SCHED_MAX_COPIES without the first."""


class Step(NamedTuple):
    """The largest one that may come."""

    rows: int
    """Tokens computed at once."""
    seen: int
    """Cells that a row looks at."""
    windowed: int
    """Likewise in a layer with a window."""
    outputs: int
    """Rows of logits."""
    states: int = 0
    """Of recurrent layers, those that are computed together."""
    snapshots: int = 0
    """Of each, kept beside the last one."""


def compute_bytes(info: ModelInfo, step: Step, *, flash: bool, copied: int = 0) -> int:
    """Of the compute buffer, if one device computes everything; `copied`: of what it fetches from another for that."""
    width = F32 * (info.embedding_length or 0) * step.rows
    peak = copied + _feed_forward(info, step, width) + _mask_bytes(info, step, F16 if flash else F32)
    if not flash:
        peak = max(peak, copied + _plain_attention(info, step, width))
    return max(peak, head_bytes(info, step))


def head_bytes(info: ModelInfo, step: Step) -> int:
    """Of the output head alone."""
    width = info.embedding_length or 0
    return F32 * step.outputs * (info.vocabulary_size + width) + F32 * width * step.rows


def input_bytes(info: ModelInfo, step: Step, *, flash: bool) -> int:
    """Of what a step begins with: rows of the embedding, and which cells each row sees."""
    return F32 * (info.embedding_length or 0) * step.rows + mask_bytes(info, step, flash=flash)


def mask_bytes(info: ModelInfo, step: Step, *, flash: bool) -> int:
    """Of which cells each row sees."""
    return _mask_bytes(info, step, F16 if flash else F32)


def host_bytes(info: ModelInfo, step: Step, *, flash: bool) -> int:
    """Of what the CPU prepares for devices that compute."""
    return input_bytes(info, step, flash=flash) + F32 * (info.embedding_length or 0) * step.rows


def encoder_bytes(info: ModelInfo, rows: int, *, flash: bool) -> int:
    """Of an encoder's compute buffer for a text of so many tokens, each of which sees all others."""
    embedding, inner = info.embedding_length or 0, info.feed_forward_length or 0
    feed_forward = F32 * rows * (inner + 3 * embedding) + F16 * rows * rows
    if flash:
        return feed_forward
    return max(feed_forward, scores_bytes(info, rows, rows) + F32 * rows * (rows + 6 * embedding))


def scores_bytes(info: ModelInfo, ctx: int, rows: int) -> int:
    """Of how much so many rows look at each of `ctx` tokens: one number for each head, F32."""
    return F32 * (info.num_heads or 0) * ctx * rows


def _feed_forward(info: ModelInfo, step: Step, width: int) -> int:
    """Gate, up and their product beside the residual stream; of a mixture what each expert in use gives, twice."""
    rows = step.rows
    size = 3 * F32 * (info.feed_forward_length or 0) * rows + 4 * width
    if info.experts_used:
        length = info.expert_feed_forward_length or info.feed_forward_length or 0
        inner = 3 * F32 * info.experts_used * length * rows
        size = max(2 * info.experts_used * width, inner) + 6 * width
    state = max((layer.state for layer in info.layer_memory), default=0)
    kept = F32 * state * step.states * (step.snapshots + 2) if step.snapshots else 0
    return max(size, RECURRENT_WIDTHS * width + kept if state else 0)


def _plain_attention(info: ModelInfo, step: Step, width: int) -> int:
    """All scores of a step, and queries, keys and values beside them."""
    keys = max((layer.keys for layer in info.layer_memory), default=0)
    queries = keys // (info.num_kv_heads or 1) * (info.num_heads or 0)
    beside = 3 * width + 2 * F32 * step.rows * (queries + keys)
    return scores_bytes(info, step.seen, step.rows) + _mask_bytes(info, step, F32) + beside


def _mask_bytes(info: ModelInfo, step: Step, number_bytes: int) -> int:
    """Which cells each row sees: once for the layers that see all, once for those with a window."""
    kinds = {layer.is_windowed for layer in info.layer_memory if layer.keys}
    cells = (step.seen if False in kinds else 0) + (step.windowed if True in kinds else 0)
    return number_bytes * cells * step.rows
