"""Whether quantized keys can be rotated to other positions: llama.cpp's code for that needs a Hadamard rotation.

Keys of q8_0 or q4_0 are mixed by a Hadamard matrix before they are stored if heads have a multiple of 64 numbers. A
shift undoes that without checking whether it was done (if not, the process aborts), and assumes that positions
rotate whole heads (llama-kv-cache.cpp, `build_rope_shift`). Knows nothing of caches.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from localllm.llama.log_text import rotated_head


def can_turn_quantized(api: Any, model: Any, lines: Sequence[str]) -> bool:
    """`lines`: what llama.cpp logged when it created the cache; False if that does not say."""
    head = rotated_head(lines)
    if head is None:
        return False
    turned = _number(api, model, f"{_text(api, model, 'general.architecture')}.rope.dimension_count")
    return turned is None or turned == head


def _number(api: Any, model: Any, key: str) -> int | None:
    text = _text(api, model, key)
    return int(text) if text.isdigit() else None


def _text(api: Any, model: Any, key: str) -> str:
    buffer = ctypes.create_string_buffer(256)
    length = api.llama_model_meta_val_str(model, key.encode(), buffer, len(buffer))
    return buffer.value.decode("utf-8", "replace") if length >= 0 else ""
