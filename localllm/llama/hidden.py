"""What a causal model computes before its output head, without the head: a vector for each wanted row.

llama.cpp returns a causal model's vectors together with logits of every token, and with a vocabulary of 152,000 these
take half of a small model's time. Its scheduler offers each node of a graph to a callback before computing it. Ours
asks for the vectors, copies them, and ends the graph there. Knows nothing of texts or pooling.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt

from localllm.llama.library import Library

NODE = b"result_norm"
"""Name that llama.cpp's models give their last layer's normalized output; `embedding.py` verifies that by a trial."""


class HiddenRows:
    """For one context of one model on the CPU; pass it as `cb_eval` and keep it as long as the context."""

    def __init__(self, library: Library) -> None:
        self._name = library.ggml.get_name
        self._data = library.ggml.get_data
        self._num_elements = library.ggml.nelements
        self.is_on = False
        """False: graphs are computed to their end, in one piece."""
        self._taken: npt.NDArray[np.float32] | None = None
        self.callback: Any = library.api.ggml_backend_sched_eval_callback(self._on_node)

    def take(self, dimensions: int) -> npt.NDArray[np.float32] | None:
        """The rows of the last graph, in the order of the batch; None if it had no such node."""
        taken, self._taken = self._taken, None
        return None if taken is None else taken.reshape(-1, dimensions)

    def _on_node(self, tensor: int, is_question: bool, _: Any) -> bool:
        """Called some thousand times per graph, with nothing else between the calls: it must cost nothing."""
        if is_question:
            return self.is_on and self._name(tensor) == NODE
        size = self._num_elements(tensor)
        numbers = np.empty(size, np.float32)
        if size:  # a batch in which no row is wanted has no data
            ctypes.memmove(numbers.ctypes.data, self._data(tensor), numbers.nbytes)
        self._taken = numbers
        return False
