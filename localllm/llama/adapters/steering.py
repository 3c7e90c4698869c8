"""Control vectors from pairs of texts: per layer, the difference of the means of what comes out of it.

llama.cpp's scheduler offers each node of a graph to a callback; ours copies the last token's row of each layer's
output. On the CPU, since data on a device cannot be read like this. Knows nothing of files of pairs.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from localllm.errors import InvalidParameter, LoadFailed
from localllm.llama.library import Library
from localllm.llama.model import LlamaModel
from localllm.llama.tokens.vocab import Vocab

NODE = b"l_out-"
"""Beginning of the name that llama.cpp's models give a layer's output."""
MAX_TEXT_TOKENS = 2048

Floats = npt.NDArray[np.float32]


class LayerOutputs:
    """Reads what comes out of each layer for the last token of a text. A context manager."""

    def __init__(self, library: Library, model: LlamaModel, *, threads: int) -> None:
        """Raises `LoadFailed`."""
        self._api: Any = library.api
        self._name, self._data = library.ggml.get_name, library.ggml.get_data
        self._num_elements = library.ggml.nelements
        self._vocab = Vocab(self._api, model.vocab)
        self.width = int(self._api.llama_model_n_embd(model.handle))
        self.num_layers = int(self._api.llama_model_n_layer(model.handle))
        self._rows: dict[int, Floats] = {}
        self._callback: Any = self._api.ggml_backend_sched_eval_callback(self._on_node)
        params = self._api.llama_context_default_params()
        params.n_ctx = params.n_batch = params.n_ubatch = MAX_TEXT_TOKENS
        params.n_seq_max, params.n_threads, params.n_threads_batch = 1, threads, threads
        params.cb_eval, params.no_perf = self._callback, True
        mark = library.log.mark()
        self._context: Any = self._api.llama_init_from_model(model.handle, params)
        if not self._context:
            raise LoadFailed(f"no memory for texts of {MAX_TEXT_TOKENS} tokens ({library.log.errors_since(mark)})")

    def __enter__(self) -> LayerOutputs:
        return self

    def __exit__(self, *_: object) -> None:
        self._api.llama_free(self._context)

    def of(self, text: str) -> Floats:
        """Shape (layers - 1, width): of the layers from 1 on. Raises `InvalidParameter`, `LoadFailed`."""
        tokens = self._vocab.tokenize(text)
        if not 1 <= len(tokens) <= MAX_TEXT_TOKENS:
            raise InvalidParameter(
                f"a text has {len(tokens)} tokens; 1 to {MAX_TEXT_TOKENS} are possible", param="pairs"
            )
        self._rows.clear()
        memory = self._api.llama_get_memory(self._context)
        if memory:
            self._api.llama_memory_clear(memory, True)
        array = (self._api.llama_token * len(tokens))(*tokens)
        status = self._api.llama_decode(self._context, self._api.llama_batch_get_one(array, len(tokens)))
        if status or not all(layer in self._rows for layer in range(1, self.num_layers)):
            raise LoadFailed("this llama.cpp does not say what comes out of the layers of such models")
        return np.stack([self._rows[layer] for layer in range(1, self.num_layers)])

    def _on_node(self, tensor: int, is_question: bool, _: Any) -> bool:
        name = self._name(tensor)
        if not name.startswith(NODE) or not name[len(NODE) :].isdigit():
            return not is_question
        if not is_question:
            address = self._data(tensor) + 4 * (self._num_elements(tensor) - self.width)
            row = np.ctypeslib.as_array((ctypes.c_float * self.width).from_address(address)).copy()
            self._rows[int(name[len(NODE) :])] = row
        return True


def directions(outputs: LayerOutputs, pairs: Sequence[tuple[str, str]]) -> tuple[Floats, list[float]]:
    """Mean of the positive texts' vectors minus that of the negative ones', and for each layer its length as a share of
    the mean length of these vectors. Raises as `LayerOutputs.of`."""
    positive = np.stack([outputs.of(text) for text, _ in pairs])
    negative = np.stack([outputs.of(text) for _, text in pairs])
    found = positive.mean(axis=0) - negative.mean(axis=0)
    lengths = np.linalg.norm(np.concatenate([positive, negative]), axis=-1).mean(axis=0)
    return found, [float(each) for each in np.linalg.norm(found, axis=-1) / np.maximum(lengths, 1e-12)]


def increments(found: Floats) -> Floats:
    """What each layer adds to the difference behind the one before it: what is added to one layer reaches all later
    ones, so that together they make the difference of the pairs (benchmarks/log/adapters.md#control-vectors)."""
    return np.diff(found, axis=0, prepend=np.zeros_like(found[:1]))
