"""Size of llama.cpp's compute buffers, which come on top of weights and KV cache: pure functions of a header and a
step.

llama.cpp lays out the graph of its largest step and reuses memory within it, so the size is the largest of three: the
feed-forward part, attention without flash, the output head. The coefficients were read off its allocations for models
of real widths (`tests/llama/test_buffer_planning.py` compares them). Knows nothing of options and devices.
"""

from __future__ import annotations

from typing import NamedTuple

from localllm.types import ModelInfo
from localllm.types.upstream import SCHEDULER_COPIES

F32, F16 = 4, 2
RECURRENT_WIDTHS = 13
"""Embedding-wide vectors that a token takes up in a state-space layer."""
INPUT_WIDTHS = 1.5
"""Embedding-wide vectors that each token of an encoder takes up besides: from 0.6 on two with flash attention, since a
batch may hold tokens and vectors, in 0.7 three, in 0.5 none; so every plan is within 10 %. In decoders, whose other
buffers are larger, they are within 5 %."""
MORE_COPIES = SCHEDULER_COPIES - 1
"""Additional copies of a step's inputs if devices work in a pipeline."""


class Step(NamedTuple):
    """The largest step that may be computed."""

    rows: int
    """Tokens computed at once."""
    seen: int
    """Cells that each row attends to."""
    windowed: int
    """Cells that each row attends to in a layer with a sliding window."""
    outputs: int
    """Rows of logits."""
    states: int = 0
    """Sequences of a recurrent memory that are computed together."""
    snapshots: int = 0
    """Earlier states kept of each sequence, besides its latest."""


def compute_bytes(info: ModelInfo, step: Step, *, flash: bool, copied: int = 0, experts: int = 0) -> int:
    """Size of the compute buffer if one device computes everything. `copied`: bytes of weights fetched from another
    device for that; `experts`: bytes of a tensor of experts that is."""
    width = F32 * (info.embedding_length or 0) * step.rows
    feed_forward = _feed_forward(info, step, width) + _mask_bytes(info, step, F16 if flash else F32)
    peak = max(copied, experts) + feed_forward
    if not flash:
        peak = max(peak, copied + _plain_attention(info, step, width))
    return max(peak, head_bytes(info, step)) + info.more_bytes_per_row * step.rows


def head_bytes(info: ModelInfo, step: Step) -> int:
    """Size for the output head alone."""
    width = info.embedding_length or 0
    return F32 * step.outputs * (info.vocabulary_size + width) + F32 * width * step.rows


def input_bytes(info: ModelInfo, step: Step, *, flash: bool) -> int:
    """Size of a step's inputs: embedding rows, and the mask of which cells each row sees."""
    return F32 * (info.embedding_length or 0) * step.rows + mask_bytes(info, step, flash=flash)


def mask_bytes(info: ModelInfo, step: Step, *, flash: bool) -> int:
    """Size of the mask of which cells each row sees."""
    return _mask_bytes(info, step, F16 if flash else F32)


def host_bytes(info: ModelInfo, step: Step, *, flash: bool) -> int:
    """Size of what the CPU prepares for the devices that compute."""
    return input_bytes(info, step, flash=flash) + F32 * (info.embedding_length or 0) * step.rows


def encoder_bytes(info: ModelInfo, rows: int, *, flash: bool) -> int:
    """Size of an encoder's compute buffer for a text of `rows` tokens, each of which attends to all others."""
    embedding, inner = info.embedding_length or 0, info.feed_forward_length or 0
    feed_forward = F32 * rows * (inner + 3 * embedding) + F16 * rows * rows
    feed_forward += int(INPUT_WIDTHS * F32 * rows * embedding)
    if flash:
        return feed_forward
    return max(feed_forward, scores_bytes(info, rows, rows) + F32 * rows * (rows + 6 * embedding))


def encoder_device_bytes(info: ModelInfo, rows: int, texts: int, *, flash: bool, copied: int = 0) -> int:
    """Size of an encoder's compute buffer on a device, which gets embedded tokens from the CPU. `copied`: bytes of the
    largest matrix in main memory if the CPU has layers too, since the device also computes those for long texts.
    """
    embedding, inner = info.embedding_length or 0, info.feed_forward_length or 0
    beside = (F16 if flash else F32) * rows * rows + F32 * rows * texts
    peak = F32 * rows * (inner + 2 * embedding) + beside + (copied + beside if copied else 0)
    if flash:
        return peak
    return max(peak, scores_bytes(info, rows, rows) + 5 * F32 * rows * embedding + beside)


def encoder_host_bytes(info: ModelInfo, rows: int, texts: int, *, flash: bool) -> int:
    """Size of what the CPU prepares for a device: three embeddings per token, the mask, and each token's text."""
    return 3 * F32 * rows * (info.embedding_length or 0) + (F16 if flash else F32) * rows * rows + F32 * rows * texts


def scores_bytes(info: ModelInfo, ctx: int, rows: int) -> int:
    """Size of the attention scores of `rows` rows over `ctx` tokens: one F32 number per head."""
    return F32 * (info.num_heads or 0) * ctx * rows


def _feed_forward(info: ModelInfo, step: Step, width: int) -> int:
    """Gate, up and their product beside the residual stream; in a mixture of experts, two outputs per active expert."""
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
    """All scores of a step, with queries, keys and values beside them."""
    keys = max((layer.keys for layer in info.layer_memory), default=0)
    queries = keys // (info.num_kv_heads or 1) * (info.num_heads or 0)
    beside = 3 * width + 2 * F32 * step.rows * (queries + keys)
    return scores_bytes(info, step.seen, step.rows) + _mask_bytes(info, step, F32) + beside


def _mask_bytes(info: ModelInfo, step: Step, number_bytes: int) -> int:
    """The mask of cells that each row sees: one for layers with full attention, one for those with a window."""
    kinds = {layer.is_windowed for layer in info.layer_memory if layer.keys}
    cells = (step.seen if False in kinds else 0) + (step.windowed if True in kinds else 0)
    return number_bytes * cells * step.rows
