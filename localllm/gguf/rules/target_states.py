"""Hidden states of a target that drafts guess from: which architectures give them out, and what such drafts' files have
in common. Knows nothing of how any of them guesses.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from localllm.gguf.header import TensorInfo, read_header
from localllm.gguf.shards import read_all_shards

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
MAP = "d2t"
"""The tensor that maps the draft's tokens to the target's."""


class DraftKeys(Protocol):
    """Access to the header's values under the architecture's name."""

    @property
    def architecture(self) -> str: ...

    def size(self, key: str) -> int | None: ...

    def listed(self, key: str) -> tuple[int, ...]:
        """All numbers of a list; empty if it is missing. Raises `InvalidModelFile`."""
        ...

    def listed_flags(self, key: str) -> tuple[bool, ...]:
        """The same of truth values, which may be numbers."""
        ...

    def flag(self, key: str) -> bool | None:
        """Raises `InvalidModelFile`."""
        ...

    def sizes(self, key: str, num_layers: int) -> tuple[int, ...] | None:
        """One number for each layer. Raises `InvalidModelFile`."""
        ...

    def count(self, key: str) -> int | None:
        """Of a key by its full name. Raises `InvalidModelFile`."""
        ...


def target_tokens(path: Path) -> array[int]:
    """Ids of the target's tokens that a draft with this file guesses, in its order; empty: all.

    Raises `LoadFailed`, `InvalidModelFile`.
    """
    ids = array("q")
    for header in read_all_shards(read_header(path)):
        for tensor in header.tensors:
            if tensor.name == MAP:
                with header.path.open("rb") as file:
                    file.seek(header.data_start + tensor.offset)
                    ids.frombytes(file.read(tensor.n_bytes))
    return ids


def wrong_map(tensors: Mapping[str, TensorInfo], vocabulary_size: int) -> str:
    """What would end llama.cpp's process of the tensor that maps tokens; empty: nothing."""
    tokens = tensors.get(MAP)
    if tokens is None:
        return ""
    if tokens.type != "I64" or len(tokens.dims) != 1:
        return f"its {MAP} is not a list of 64-bit integers"
    if "output.weight" not in tensors and tokens.dims[0] != vocabulary_size:
        return f"its {MAP} has {tokens.dims[0]:,} tokens, and it has no output head of its own for them"
    return ""
