"""Gemma 4's assistants, which read the keys and values of their target's last two layers: what one needs of these, what
a target has of them, and what of an assistant's file would end llama.cpp's process.

The rules are those of llama.cpp's src/models/gemma4-assistant.cpp and `llama_model::create_memory`, which check some of
them only while they compute, and others never.
"""

from __future__ import annotations

from collections.abc import Mapping

from localllm.gguf.header import TensorInfo
from localllm.gguf.rules.target_states import DraftKeys
from localllm.types import DraftHead, ReadKeys, SharedKeys

TARGET = "gemma4"


def assistant(
    keys: DraftKeys,
    tensors: Mapping[str, TensorInfo],  # noqa: ARG001  llama.cpp checks them when it loads the file
    *,
    num_layers: int,
    vocabulary_size: int,  # noqa: ARG001
) -> DraftHead:
    """Raises `InvalidModelFile`."""
    width = keys.size("embedding_length_out") or 0
    windowed = _windowed(keys, num_layers)
    return DraftHead(
        kind="gemma4-assistant",
        layers=(),
        width=width,
        has_embeddings=False,
        has_output=True,
        reads=_read(keys, windowed),
        problem=_wrong_layers(keys, windowed)
        or _wrong_width(keys, width)
        or next((wrong for layer in range(num_layers) if (wrong := _wrong_heads(keys, windowed, layer))), ""),
    )


def shared_keys(keys: DraftKeys, num_layers: int) -> SharedKeys | None:
    """What an assistant of this model would read; None: it is no model that has one. Raises `InvalidModelFile`."""
    num_own = num_layers - (keys.size("attention.shared_kv_layers") or 0)
    if keys.architecture != TARGET or num_own < 2:
        return None
    windowed = _windowed(keys, num_layers)

    def read(layer: int) -> ReadKeys:
        # Or the layer whose keys and values it uses (`reuse`).
        return _read_of(keys, windowed, layer if layer < num_own else num_own - (2 if windowed[layer] else 1))

    return SharedKeys(
        windowed=read(num_layers - 2) if windowed[num_layers - 2] else None,
        full=None if windowed[num_layers - 1] else read(num_layers - 1),
    )


def _windowed(keys: DraftKeys, num_layers: int) -> tuple[bool, ...]:
    """Whether each layer has a window: those that the header lists."""
    listed = keys.listed_flags("attention.sliding_window_pattern")[:num_layers]
    return listed + (False,) * (num_layers - len(listed))


def _read(keys: DraftKeys, windowed: tuple[bool, ...]) -> SharedKeys:
    of = {is_windowed: _read_of(keys, windowed, layer) for layer, is_windowed in enumerate(windowed)}
    return SharedKeys(windowed=of.get(True), full=of.get(False))


def _read_of(keys: DraftKeys, windowed: tuple[bool, ...], layer: int) -> ReadKeys:
    return ReadKeys(heads=_kv_heads(keys, len(windowed))[layer], size=_size(keys, "key", is_windowed=windowed[layer]))


def _heads(keys: DraftKeys, num_layers: int) -> tuple[int, ...]:
    return keys.sizes("attention.head_count", num_layers) or (0,) * num_layers


def _kv_heads(keys: DraftKeys, num_layers: int) -> tuple[int, ...]:
    return keys.sizes("attention.head_count_kv", num_layers) or _heads(keys, num_layers)


def _size(keys: DraftKeys, name: str, *, is_windowed: bool) -> int:
    """Length of a head's keys or values."""
    size = keys.size(f"attention.{name}_length{'_swa' if is_windowed else ''}")
    if size is None and not is_windowed and (heads := (keys.sizes("attention.head_count", 1) or (0,))[0]):
        return (keys.size("embedding_length") or 0) // heads
    return size or 0


def _turned(keys: DraftKeys, *, is_windowed: bool) -> int:
    """How many numbers of a head RoPE turns."""
    full = keys.size("rope.dimension_count")
    full = _size(keys, "key", is_windowed=False) if full is None else full
    own = keys.size("rope.dimension_count_swa") if is_windowed else None
    return full if own is None else own


def _wrong_layers(keys: DraftKeys, windowed: tuple[bool, ...]) -> str:
    num_guessing = keys.size("nextn_predict_layers") or 0
    if not windowed or num_guessing != len(windowed):
        return f"its header says that {num_guessing} of its {len(windowed)} layers guess, and all must"
    if not any(windowed) or not keys.size("attention.sliding_window"):
        return "its header names no layer with a sliding window"
    kv_heads = _kv_heads(keys, len(windowed))
    if len({(is_windowed, kv_heads[layer]) for layer, is_windowed in enumerate(windowed)}) > len(set(windowed)):
        return "its layers of one kind read different numbers of heads"
    return ""


def _wrong_width(keys: DraftKeys, width: int) -> str:
    if not width:
        return "its header does not say how long the target's vectors are"
    if width == keys.size("embedding_length"):
        return f"its own vectors are as long as the target's ({width} numbers), which llama.cpp does not take"
    return ""


def _wrong_heads(keys: DraftKeys, windowed: tuple[bool, ...], layer: int) -> str:
    is_windowed = windowed[layer]
    heads, kv_heads = _heads(keys, len(windowed))[layer], _kv_heads(keys, len(windowed))[layer]
    size, turned = _size(keys, "key", is_windowed=is_windowed), _turned(keys, is_windowed=is_windowed)
    if not heads or not kv_heads or heads % kv_heads:
        return f"its {heads} heads do not share {kv_heads} heads of keys equally"
    if not size or size != _size(keys, "value", is_windowed=is_windowed):
        return "its keys and values differ in length"
    if turned % 2 or turned > size:
        return f"it rotates {turned} of {size} numbers of a head"
    return ""
