"""Saved states of one context: what slots hold, as bytes, and back.

States lie in a pool of buffers (`buffers`), which is told how large the next ones will be: what all slots hold now.
Knows nothing of who keeps states.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from localllm.engine.backend import State
from localllm.llama.buffers import BufferPool

WHOLE = 0
"""As flags of a state: all of it."""
EXPECTED_STEP = 64
"""Tokens that slots hold more or fewer, together, before the pool is told."""


class SavedStates:
    """Used by one thread."""

    def __init__(self, api: Any, context: Any, max_bytes: int) -> None:
        """`max_bytes`: of states that are held and of memory that is kept ready for the next; 0: none is."""
        self._api = api
        self._context = context
        self.pool = BufferPool(max_bytes)
        self._token_bytes = self._fixed_bytes = 0
        """Of a whole state, as far as that is known."""
        self._expected_tokens = 0

    @property
    def token_bytes(self) -> int:
        """Of a state, that each token takes; 0: that is not known."""
        return self._token_bytes

    def learn(self, num_tokens: int, num_bytes: int, token_bytes: int = 0) -> None:
        """So large is the state of a slot of so many tokens, and so much each more takes; 0: that is not known."""
        self._token_bytes = token_bytes
        self._fixed_bytes = num_bytes - token_bytes * num_tokens

    def expect(self, lengths: Sequence[int]) -> None:
        """So many tokens are in the slots: the next states are theirs."""
        num_tokens = sum(lengths)
        if abs(num_tokens - self._expected_tokens) >= EXPECTED_STEP:
            self._expected_tokens = num_tokens
            each = [self._fixed_bytes + self._token_bytes * length for length in lengths if length]
            self.pool.expect(max(each, default=0), sum(each))

    def num_bytes(self, slot: int, flags: int = WHOLE) -> int:
        """Of the state that `read` would return."""
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
        """Memory of states that somebody holds stays theirs."""
        self.pool.close()


def _pointer(state: State) -> Any:
    buffer: npt.NDArray[np.uint8] = np.frombuffer(state, np.uint8)
    return ctypes.cast(ctypes.c_void_p(buffer.ctypes.data), ctypes.POINTER(ctypes.c_uint8))
