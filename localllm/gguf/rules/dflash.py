"""DFlash drafts, with DSpark's Markov head or DFlash2's selector too: what one takes from its target, and what of its
file would end llama.cpp's process.

The rules are those of llama.cpp's src/models/dflash.cpp, which asserts them only while it computes. Knows nothing of
the target.
"""

from __future__ import annotations

from collections.abc import Mapping

from localllm.gguf.header import TensorInfo
from localllm.gguf.rules.target_states import DraftKeys, wrong_map
from localllm.types import DraftBlock, DraftHead

BLOCK_SIZE = 16
"""Tokens of a block if the header does not say (common/speculative.cpp)."""
LARGEST_BLOCK = 64
"""No model has more."""
_MASK = "tokenizer.ggml.mask_token_id"
_MARKOV, _SELECTOR = "markov_w1.weight", "selector_hidden.weight"
"""Tensors of a DSpark and of a DFlash2 draft."""


def dflash(keys: DraftKeys, tensors: Mapping[str, TensorInfo], *, num_layers: int, vocabulary_size: int) -> DraftHead:
    """Raises `InvalidModelFile`."""
    layers, width = keys.listed("target_layers"), keys.size("embedding_length") or 0
    mask = keys.count(_MASK)
    size = keys.size("block_size") or (0 if _MARKOV in tensors else BLOCK_SIZE)
    is_anchor_first = _MARKOV in tensors and keys.flag("sample_from_anchor") is not False
    block = DraftBlock(
        num_guesses=size if is_anchor_first else size - 1,
        mask=-1 if mask is None else mask,
        is_anchor_first=is_anchor_first,
        is_causal=keys.flag("attention.causal") or False,
        num_candidates=keys.size("selector_top_k") or 0,
    )
    return DraftHead(
        kind="dflash",
        layers=layers,
        width=width,
        has_embeddings="token_embd.weight" in tensors,
        has_output="output.weight" in tensors or "token_embd.weight" in tensors,
        block=block,
        problem=_wrong_block(block, size, vocabulary_size)
        or _wrong_layers(keys, layers, num_layers)
        or _wrong_joint(tensors, len(layers) * width, width)
        or _wrong_heads(keys, tensors)
        or wrong_map(tensors, vocabulary_size),
    )


def _wrong_block(block: DraftBlock, size: int, vocabulary_size: int) -> str:
    if not 0 <= block.mask < vocabulary_size:
        return f"its header names no token of its vocabulary as the mask ({_MASK})"
    if not 1 <= block.num_guesses < LARGEST_BLOCK:
        return f"its header names a block of {size} tokens"
    if block.num_candidates > vocabulary_size:
        return f"its selector chooses among {block.num_candidates:,} tokens, and it knows {vocabulary_size:,}"
    return ""


def _wrong_layers(keys: DraftKeys, layers: tuple[int, ...], num_layers: int) -> str:
    if not layers:
        return "its header names no layers of the target"
    if not num_layers:
        return "it has no layers"
    if keys.size("hyper_connection_count"):
        return "it has hyper-connections, as drafts for DeepSeek V4 have, which are not served"
    windowed = keys.sizes("attention.sliding_window_pattern", num_layers) or ()
    if keys.size("attention.sliding_window") and not any(windowed):
        return "its header names a sliding window and no layer that has one"
    if keys.size("attention.key_length") != keys.size("attention.value_length"):
        return "its keys and values differ in length"
    return ""


def _wrong_joint(tensors: Mapping[str, TensorInfo], joined: int, width: int) -> str:
    joint = tensors.get("fc.weight")
    return "" if joint and joint.dims == (joined, width) else f"it has no fc.weight of {joined} by {width} numbers"


def _wrong_heads(keys: DraftKeys, tensors: Mapping[str, TensorInfo]) -> str:
    if (_SELECTOR in tensors) != bool(keys.size("selector_top_k")):
        return "its header and its tensors disagree on whether it has a selector"
    return "it has both a selector and a Markov head" if _SELECTOR in tensors and _MARKOV in tensors else ""
