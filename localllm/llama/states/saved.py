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
from localllm.llama.states.save_buffers import BufferPool

WHOLE = 0
"""Flags value for a whole state."""
EXPECTED_STEP = 64
"""Change in the slots' total tokens after which the pool is informed."""


class SavedStates:
    """Used by one thread."""

    def __init__(self, api: Any, context: Any, max_bytes: int, *, competes: bool) -> None:
        """`max_bytes`: for states in use and memory kept ready for the next ones; 0: none is kept ready. `competes`:
        the CPU computes the steps."""
        self._api = api
        self._context = context
        self.pool = BufferPool(max_bytes, competes=competes)
        self._token_bytes = self._fixed_bytes = 0
        """Size of a whole state per token and besides, as far as known."""
        self._expected_tokens = 0

    @property
    def token_bytes(self) -> int:
        """Size of a state per token; 0: unknown."""
        return self._token_bytes

    def learn(self, num_tokens: int, num_bytes: int, token_bytes: int = 0) -> None:
        """The state of a slot with `num_tokens` has `num_bytes`; each further token takes `token_bytes`; 0: unknown."""
        self._token_bytes = token_bytes
        self._fixed_bytes = num_bytes - token_bytes * num_tokens

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
