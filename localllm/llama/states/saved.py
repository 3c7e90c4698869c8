"""Saved states of one context: the content of slots as bytes, and back.

States lie in a pool of buffers (`buffers`), which learns the expected size of the next ones: what all slots hold now.
Knows nothing of who keeps states.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from localllm.engine.backend import State
from localllm.llama.context import LlamaContext
from localllm.llama.states.memory_trial import MemoryTraits
from localllm.llama.states.save_buffers import BufferPool

WHOLE = 0
"""Flags value for a whole state."""
EXPECTED_STEP = 64
"""Change in the slots' total tokens after which the pool is informed."""


class SavedStates:
    """Used by one thread."""

    def __init__(self, context: LlamaContext, traits: MemoryTraits, max_bytes: int, *, competes: bool) -> None:
        """`max_bytes`: for states in use and memory kept ready for the next ones; 0: none is kept ready. `competes`:
        the CPU computes the steps."""
        self._api = context.api
        self._context = context.handle
        self.pool = BufferPool(max_bytes, competes=competes)
        self._token_bytes = traits.token_bytes
        self._fixed_bytes = traits.fixed_bytes
        """Of a memory whose `token_bytes` are unknown, the size of the last state."""
        self._expected_tokens = 0

    def expect(self, lengths: Sequence[int]) -> None:
        """After a step: the slots hold this many tokens, and the next states are theirs."""
        num_tokens = sum(lengths)
        if abs(num_tokens - self._expected_tokens) >= EXPECTED_STEP:
            self._expected_tokens = num_tokens
            each = [self._fixed_bytes + self._token_bytes * length for length in lengths if length]
            self.pool.expect(max(each, default=0), sum(each))
        self.pool.refill()

    def rest(self) -> None:
        """Nothing is computed until the next step."""
        self.pool.rest()

    def num_bytes(self, slot: int, flags: int = WHOLE) -> int:
        """Size of the state that `read` would return."""
        return int(self._api.llama_state_seq_get_size_ext(self._context, slot, flags))

    def read(self, slot: int, flags: int = WHOLE) -> State:
        size = self.num_bytes(slot, flags)
        if flags == WHOLE and not self._token_bytes:
            self._fixed_bytes = size
        state = self.pool.take(size)
        written = self._api.llama_state_seq_get_data_ext(self._context, _pointer(state), size, slot, flags)
        assert written == size, f"llama.cpp saved {written} of {size} bytes"
        return state

    def write(self, slot: int, state: State, flags: int = WHOLE) -> None:
        read = self._api.llama_state_seq_set_data_ext(self._context, _pointer(state), len(state), slot, flags)
        assert read == len(state), f"llama.cpp took {read} of {len(state)} bytes"

    def close(self) -> None:
        """Memory of states in use remains valid."""
        self.pool.close()


def _pointer(state: State) -> Any:
    buffer: npt.NDArray[np.uint8] = np.frombuffer(state, np.uint8)
    return ctypes.cast(ctypes.c_void_p(buffer.ctypes.data), ctypes.POINTER(ctypes.c_uint8))
