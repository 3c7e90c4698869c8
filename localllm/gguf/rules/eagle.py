"""EAGLE-3 drafts: what one takes from its target, and what of its file would end llama.cpp's process.

The rules are those of llama.cpp's src/models/eagle3.cpp, which asserts them only while it computes. Knows nothing of
the target.
"""

from __future__ import annotations

from collections.abc import Mapping

from localllm.gguf.header import TensorInfo
from localllm.gguf.rules.target_states import DraftKeys, wrong_map
from localllm.types import DraftHead

NUM_LAYERS = 3
"""Layers of the target whose inputs are joined."""


def eagle(keys: DraftKeys, tensors: Mapping[str, TensorInfo], *, num_layers: int, vocabulary_size: int) -> DraftHead:
    """Raises `InvalidModelFile`."""
    layers, width = keys.listed("target_layers"), keys.size("target_hidden_size") or 0
    problem = _wrong_numbers(layers, width, num_layers) or _wrong_tensors(keys, tensors, width, vocabulary_size)
    return DraftHead(
        kind="eagle3",
        layers=layers,
        width=width,
        has_embeddings="token_embd.weight" in tensors,
        has_output="output.weight" in tensors,
        problem=problem,
    )


def _wrong_numbers(layers: tuple[int, ...], width: int, num_layers: int) -> str:
    if len(layers) != NUM_LAYERS:
        return f"its header names {len(layers)} layers of the target, not {NUM_LAYERS}"
    if not width:
        return "its header does not say how long the target's vectors are"
    return "" if num_layers == 1 else f"it has {num_layers} layers, and llama.cpp computes one"


def _wrong_tensors(keys: DraftKeys, tensors: Mapping[str, TensorInfo], width: int, vocabulary_size: int) -> str:
    size = keys.size("embedding_length") or 0
    joint, embeddings = tensors.get("fc.weight"), tensors.get("token_embd.weight")
    if joint is None or joint.dims != (NUM_LAYERS * width, size):
        return f"it has no fc.weight of {NUM_LAYERS * width} by {size} numbers"
    if embeddings is not None and embeddings.dims[-1] < vocabulary_size:
        return f"it has vectors of {embeddings.dims[-1]:,} tokens, not {vocabulary_size:,}"
    if keys.size("attention.key_length") != keys.size("attention.value_length"):
        return "its keys and values differ in length"
    return wrong_map(tensors, vocabulary_size)
