"""BERT in NumPy: what llama.cpp's vectors are compared with. Follows arXiv:1810.04805, not llama.cpp's code."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from gguf import GGUFReader

Array = npt.NDArray[np.float32]


class NumpyBert:
    """The encoders that `families` writes, in F32."""

    def __init__(self, path: Path, *, num_heads: int, num_layers: int = 2, epsilon: float = 1e-12) -> None:
        self._weights: dict[str, Array] = {
            tensor.name: np.array(tensor.data, np.float32) for tensor in GGUFReader(path).tensors
        }
        self._num_heads = num_heads
        self._num_layers = num_layers
        self._epsilon = epsilon

    def tokens(self, tokens: Sequence[int]) -> Array:
        """A vector for each token, shape (tokens, dimensions)."""
        weights = self._weights
        hidden = weights["token_embd.weight"][list(tokens)] + weights["token_types.weight"][0]
        hidden = self._norm("token_embd_norm", hidden + weights["position_embd.weight"][: len(tokens)])
        for layer in range(self._num_layers):
            prefix = f"blk.{layer}."
            hidden = self._norm(f"{prefix}attn_output_norm", hidden + self._attention(prefix, hidden))
            inner = gelu(self._linear(f"{prefix}ffn_up", hidden))
            hidden = self._norm(f"{prefix}layer_output_norm", hidden + self._linear(f"{prefix}ffn_down", inner))
        return hidden

    def score(self, tokens: Sequence[int]) -> float:
        """By the head of `write_reranker`."""
        first = np.tanh(self._linear("cls", self.tokens(tokens)[:1]))
        return float(self._linear("cls.output", first).ravel()[0])

    def _attention(self, prefix: str, hidden: Array) -> Array:
        query, key, value = (self._heads(self._linear(f"{prefix}attn_{name}", hidden)) for name in "qkv")
        scores = query @ key.transpose(0, 2, 1) / np.sqrt(query.shape[-1])
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        mixed = (shares / shares.sum(axis=-1, keepdims=True)) @ value
        return self._linear(f"{prefix}attn_output", mixed.transpose(1, 0, 2).reshape(hidden.shape))

    def _heads(self, rows: Array) -> Array:
        return rows.reshape(len(rows), self._num_heads, -1).transpose(1, 0, 2)

    def _linear(self, name: str, rows: Array) -> Array:
        return rows @ np.atleast_2d(self._weights[f"{name}.weight"]).T + self._weights[f"{name}.bias"]

    def _norm(self, name: str, rows: Array) -> Array:
        centred = rows - rows.mean(axis=-1, keepdims=True)
        deviation = np.sqrt(np.square(centred).mean(axis=-1, keepdims=True) + self._epsilon)
        result: Array = centred / deviation * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]
        return result


def gelu(values: Any) -> Any:
    """Its usual approximation by tanh."""
    return 0.5 * values * (1 + np.tanh(np.sqrt(2 / np.pi) * (values + 0.044715 * values**3)))
