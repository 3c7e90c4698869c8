"""How many states of a recurrent memory are kept of each slot beside the last, so that guesses can be taken back.

llama.cpp writes them for some architectures; the others' memories take nothing back. A state is as large as thousands
of tokens' keys and values are in other layers, or as small as a few, so that their number is decided by the model.
Pure.
"""

from __future__ import annotations

from localllm.types import ModelInfo

MOST = 7
"""More rows of a stream in a step hardly pay while several stream."""
LARGEST_SHARE = 8
"""All snapshots take this fraction of the model's file at most."""
ARCHITECTURES = frozenset({"lfm2", "lfm2moe", "qwen35", "qwen35moe"})
"""Of those in `llm_arch_supports_rs_rollback` of llama.cpp 0c1e57098 the ones that `tests/llama/test_rollback.py` has
seen going back exactly, and their siblings of the same graphs."""


def snapshots_of(info: ModelInfo, *, slots: int, ubatch_tokens: int) -> int:
    """Of each slot; `ubatch_tokens` are computed at once."""
    state_bytes = 4 * sum(layer.state for layer in info.layer_memory) * slots
    if info.architecture not in ARCHITECTURES or not state_bytes or any(one.is_windowed for one in info.layer_memory):
        return 0
    fitting = info.size_bytes // LARGEST_SHARE // state_bytes
    return max(0, min(MOST, fitting, ubatch_tokens // slots - 1, ubatch_tokens - 2))
