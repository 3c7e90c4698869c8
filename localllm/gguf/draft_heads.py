"""EAGLE-3 drafts: what one takes from its target, and what of its file would end llama.cpp's process.

The rules are those of llama.cpp's src/models/eagle3.cpp, which asserts them only while it computes. Knows nothing of
the target.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from localllm.gguf.header import TensorInfo, read_header
from localllm.gguf.shards import read_all_shards
from localllm.types import DraftHead, DraftHeadKind

ARCHITECTURE: DraftHeadKind = "eagle3"
NUM_LAYERS = 3
"""Layers of the target whose inputs are joined."""
GIVES_STATES = frozenset({
    "bailingmoe3", "gemma4", "gpt-oss", "hunyuan-dense", "hunyuan_vl", "lfm2", "lfm2moe", "llama", "mimo2",
    "minimax-01", "minimax-m2", "muse-glimmer", "nanbeige", "nemotron_h", "nemotron_h_moe", "qwen3", "qwen35",
    "qwen35moe", "qwen3moe", "qwen3next",
})  # fmt: skip
"""Architectures whose hidden states llama.cpp gives out (`t_layer_inp` in its src/models/*.cpp); for others it ends the
process."""
GIVES_LAST = GIVES_STATES & {
    "bailingmoe3", "gemma4", "gpt-oss", "mimo2", "nemotron_h", "nemotron_h_moe", "qwen35", "qwen35moe", "qwen3next",
}  # fmt: skip
"""Those of which it also gives out what the last layer makes of all tokens (`t_h_nextn`)."""
_MAP = "d2t"
"""The tensor that maps the draft's tokens to the target's."""


class EagleKeys(Protocol):
    """Access to the header's numbers under the architecture's name."""

    @property
    def architecture(self) -> str: ...

    def size(self, key: str) -> int | None: ...

    def listed(self, key: str) -> tuple[int, ...]:
        """All numbers of a list; empty if it is missing. Raises `InvalidModelFile`."""
        ...


def draft_head(
    keys: EagleKeys, tensors: Sequence[TensorInfo], *, num_layers: int, vocabulary_size: int
) -> DraftHead | None:
    """None if the file is another kind of model. Raises `InvalidModelFile`."""
    if keys.architecture != ARCHITECTURE:
        return None
    shapes = {tensor.name: tensor for tensor in tensors}
    layers, width = keys.listed("target_layers"), keys.size("target_hidden_size") or 0
    problem = _wrong_numbers(layers, width, num_layers) or _wrong_tensors(keys, shapes, width, vocabulary_size)
    return DraftHead(
        kind=ARCHITECTURE,
        layers=layers,
        width=width,
        has_embeddings="token_embd.weight" in shapes,
        has_output="output.weight" in shapes,
        problem=problem,
    )


def target_tokens(path: Path) -> array[int]:
    """Ids of the target's tokens that an EAGLE-3 draft with this file guesses, in its order; empty: all.

    Raises `LoadFailed`, `InvalidModelFile`.
    """
    ids = array("q")
    for header in read_all_shards(read_header(path)):
        for tensor in header.tensors:
            if tensor.name == _MAP:
                with header.path.open("rb") as file:
                    file.seek(header.data_start + tensor.offset)
                    ids.frombytes(file.read(tensor.n_bytes))
    return ids


def _wrong_numbers(layers: tuple[int, ...], width: int, num_layers: int) -> str:
    if len(layers) != NUM_LAYERS:
        return f"its header names {len(layers)} layers of the target, not {NUM_LAYERS}"
    if not width:
        return "its header does not say how long the target's vectors are"
    return "" if num_layers == 1 else f"it has {num_layers} layers, and llama.cpp computes one"


def _wrong_tensors(keys: EagleKeys, tensors: dict[str, TensorInfo], width: int, vocabulary_size: int) -> str:
    size = keys.size("embedding_length") or 0
    joint, tokens, embeddings = (tensors.get(name) for name in ("fc.weight", _MAP, "token_embd.weight"))
    if joint is None or joint.dims != (NUM_LAYERS * width, size):
        return f"it has no fc.weight of {NUM_LAYERS * width} by {size} numbers"
    if embeddings is not None and embeddings.dims[-1] < vocabulary_size:
        return f"it has vectors of {embeddings.dims[-1]:,} tokens, not {vocabulary_size:,}"
    if keys.size("attention.key_length") != keys.size("attention.value_length"):
        return "its keys and values differ in length"
    if tokens is None:
        return ""
    if tokens.type != "I64" or len(tokens.dims) != 1:
        return f"its {_MAP} is not a list of 64-bit integers"
    if "output.weight" not in tensors and tokens.dims[0] != vocabulary_size:
        return f"its {_MAP} has {tokens.dims[0]:,} tokens, and it has no output head of its own for them"
    return ""
