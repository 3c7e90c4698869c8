"""How many earlier states of a recurrent memory are kept per slot, so that drafted tokens can be rolled back.

llama.cpp keeps them for some architectures; the memory of the others cannot roll back. A state may be as large as the
keys and values of thousands of tokens in other layers, or of a few only, so the number depends on the model. Pure.
"""

from __future__ import annotations

from localllm.gguf.rules.rollback import ROLLS_BACK
from localllm.types import ModelInfo

MOST = 7
"""More rows per stream in a step hardly pay off while several streams run."""
LARGEST_SHARE = 8
"""All snapshots together take at most this fraction of the model's file."""


def snapshots_of(info: ModelInfo, *, slots: int, ubatch_tokens: int) -> int:
    """Snapshots per slot, with `ubatch_tokens` computed at once."""
    state_bytes = 4 * sum(layer.state for layer in info.layer_memory) * slots
    if info.architecture not in ROLLS_BACK or not state_bytes or any(one.is_windowed for one in info.layer_memory):
        return 0
    fitting = info.size_bytes // LARGEST_SHARE // state_bytes
    return max(0, min(MOST, fitting, ubatch_tokens // slots - 1, ubatch_tokens - 2))
