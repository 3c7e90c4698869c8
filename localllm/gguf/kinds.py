"""What a GGUF file is instead of a model: an adapter, a projector, a matrix or a vocabulary.

Judges by the header alone. Knows nothing of which architectures llama.cpp can compute.
"""

from __future__ import annotations

from localllm.gguf.header import Header


def text_of(header: Header, key: str) -> str | None:
    """The value of a key, if it is a text that is not empty."""
    value = _value(header, key)
    return value if isinstance(value, str) and value else None


def is_projector(header: Header) -> bool:
    return text_of(header, "general.architecture") == "clip" or text_of(header, "general.type") == "mmproj"


def not_a_model(header: Header) -> str | None:
    """Why the file is no model by itself: a phrase that follows its name; None: it is one, or a later shard of one."""
    kind = text_of(header, "general.type")
    if kind == "adapter" or "adapter.type" in header.metadata:
        return "is a LoRA adapter, not a model by itself; add it to its base: localllm lora add MODEL NAME FILE"
    if text_of(header, "general.architecture") == "controlvector":
        return "is a control vector, not a model by itself; add it to its base: localllm lora add MODEL NAME FILE"
    if kind == "imatrix":
        return "is an importance matrix for quantization, not a model"
    if is_projector(header):
        return "is a projector (mmproj), not a model by itself"
    if _value(header, "split.no") not in (None, 0):
        return None  # later shards have less metadata
    if text_of(header, "general.architecture") is None:
        return "does not state its architecture"
    if not header.tensors and "split.count" not in header.metadata:
        return "has a vocabulary but no weights"
    return None


def _value(header: Header, key: str) -> object:
    entry = header.metadata.get(key)
    return None if entry is None else entry.value
