"""What a context's memory can drop, and how large its states are: found by computing two tokens.

That also loads the weights and compiles kernels before the first request: weights are mapped, not read, and "ready"
would be meaningless for a model larger than the page cache. Knows nothing of requests.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from localllm.engine.backend import Segment
from localllm.errors import LoadFailed
from localllm.llama.batch import Batch
from localllm.llama.context import LlamaContext, decode_failure
from localllm.llama.model import LlamaModel
from localllm.llama.states.padding import CELLS_A_PASS
from localllm.types import MemoryKind


class MemoryTraits(NamedTuple):
    """Of the memory of one context."""

    can_rewind: bool
    """Whether a slot can drop any number of its last tokens."""
    window: int = 0
    """Tokens that layers with a sliding window look back; 0: no such layers, or the memory is also recurrent."""
    snapshots: int = 0
    """Earlier states that a recurrent memory keeps for each slot."""
    fixed_bytes: int = 0
    """Size of a state besides its tokens."""
    token_bytes: int = 0
    """Size of a state per token; 0: unknown."""
    cells_a_pass: float = math.inf
    """Cells that are read in the time of a pass over the weights, or a little less; infinite: unknown."""

    @property
    def kind(self) -> MemoryKind:
        return "attention" if self.can_rewind else "sliding window" if self.window else "recurrent"


def try_memory(context: LlamaContext, model: LlamaModel, batch: Batch) -> MemoryTraits:
    """Leaves the slots empty. Raises `LoadFailed` if the model cannot compute."""
    api, memory = context.api, context.memory
    batch.fill([Segment(0, 0, [0, 0], num_outputs=1)])
    if status := int(api.llama_decode(context.handle, batch.struct)):
        raise LoadFailed(f"the model is loaded but cannot compute: {decode_failure(status)}")
    api.llama_synchronize(context.handle)
    two_tokens = int(api.llama_state_seq_get_size_ext(context.handle, 0, 0))
    drops_tail = bool(api.llama_memory_seq_rm(memory, 0, 1, -1))
    window = model.window if drops_tail and not model.is_recurrent else 0
    # Equal if both tokens are kept.
    one_token = two_tokens if window else int(api.llama_state_seq_get_size_ext(context.handle, 0, 0))
    api.llama_memory_seq_rm(memory, 0, -1, -1)
    token_bytes = two_tokens - one_token
    return MemoryTraits(
        can_rewind=drops_tail and not model.is_recurrent and not window,
        window=window,
        snapshots=int(api.llama_n_rs_seq(context.handle)) if model.is_recurrent else 0,
        fixed_bytes=two_tokens - 2 * token_bytes,
        token_bytes=token_bytes,
        cells_a_pass=model.size_bytes / token_bytes * CELLS_A_PASS if token_bytes else math.inf,
    )
