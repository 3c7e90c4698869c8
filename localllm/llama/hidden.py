"""What a causal model has computed before its output head, without the head: a vector for each row that is wanted.

llama.cpp gives a causal model's vectors together with logits of every token, and with a vocabulary of 152,000 these
take half of a small model's time. Its scheduler shows each node of a graph to a callback before it computes it. Ours
asks for the vectors, copies them, and ends the graph there. Knows nothing of texts or pooling.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt

from localllm.llama.library import Library

NODE = b"result_norm"
"""What llama.cpp's models call their last layer's output, after its norm; `embedding.py` tries whether it is that."""


class HiddenRows:
    """Belongs to one context of one model on the CPU; give it as `cb_eval` and keep it as long as the context."""

    def __init__(self, library: Library) -> None:
        self._name = library.ggml.get_name
        self._data = library.ggml.get_data
        self._num_elements = library.ggml.nelements
        self.is_on = False
        """Off: graphs are computed to their end, in one piece."""
        self._taken: npt.NDArray[np.float32] | None = None
        self.callback: Any = library.api.ggml_backend_sched_eval_callback(self._on_node)

    def take(self, dimensions: int) -> npt.NDArray[np.float32] | None:
        """The rows of the last graph, in the order of the batch; None if it had no such node."""
        taken, self._taken = self._taken, None
        return None if taken is None else taken.reshape(-1, dimensions)

    def _on_node(self, tensor: int, is_question: bool, _: Any) -> bool:
        """Called some thousand times a graph, with nothing but this between the calls: it must cost nothing."""
        if is_question:
            return self.is_on and self._name(tensor) == NODE
        size = self._num_elements(tensor)
        numbers = np.empty(size, np.float32)
        if size:  # of a batch in which no row is wanted there is no data either
            ctypes.memmove(numbers.ctypes.data, self._data(tensor), numbers.nbytes)
        self._taken = numbers
        return False
