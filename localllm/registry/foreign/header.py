"""What a GGUF file's header says that matters before it is taken: is it a model, whose, and can llama.cpp read it.

Reads the header only, with every check of `localllm.gguf`. Whether llama.cpp has the architecture it does not know.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from localllm.errors import LocalLLMError
from localllm.gguf import Header, read_header
from localllm.gguf.tables import FILE_TYPES
from localllm.registry.manifest import Role
from localllm.registry.sources.ollama_only import refused_header

MAX_TEXT_CHARS = 200
"""Of an architecture's or a licence's name."""

_GUESSED_FILE_TYPE = 1024


class Facts(NamedTuple):
    """Of one file; where there is a problem the rest may be missing."""

    header: Header | None
    architecture: str | None = None
    quant: str | None = None
    num_parameters: int = 0
    license: str | None = None
    problem: str | None = None
    """Why it is not usable in that role: a phrase that follows its name."""


def examine(path: Path, role: Role) -> Facts:
    """The facts about a file that shall be a model's (any shard's), or its projector's. Does not raise."""
    try:
        header = read_header(path)
    except LocalLLMError as error:
        reason = error.details.get("reason")
        return Facts(None, problem=f"cannot be read as GGUF: {reason or error.message}")
    return facts_of(header, role)


def facts_of(header: Header, role: Role) -> Facts:
    """The same of a header that has been read."""
    architecture = _text(header, "general.architecture")
    return Facts(
        header=header,
        architecture=architecture,
        quant=_file_type(header),
        num_parameters=sum(tensor.num_elements for tensor in header.tensors),
        license=_text(header, "general.license"),
        problem=_not_a_model(header, architecture) if role == "model" else _not_a_projector(header, architecture),
    )


def _not_a_model(header: Header, architecture: str | None) -> str | None:
    kind = _text(header, "general.type")
    if kind == "adapter" or "adapter.type" in header.metadata:
        return "is a LoRA adapter, and adapters cannot be applied yet"
    if kind == "imatrix":
        return "is an importance matrix for quantizing, not a model"
    if _is_projector(kind, architecture):
        return "is a projector (mmproj) without its model"
    if _value(header, "split.no") not in (None, 0):
        return None  # a later shard says less of itself
    if architecture is None:
        return "does not name its architecture"
    if not header.tensors and "split.count" not in header.metadata:
        return "is a vocabulary without a model"
    refused = refused_header(architecture, (tensor.name for tensor in header.tensors))
    return None if refused is None else f"cannot be read by llama.cpp: {refused}"


def _not_a_projector(header: Header, architecture: str | None) -> str | None:
    return None if _is_projector(_text(header, "general.type"), architecture) else "is not a projector (mmproj)"


def _is_projector(kind: str | None, architecture: str | None) -> bool:
    return architecture == "clip" or kind == "mmproj"


def _file_type(header: Header) -> str | None:
    number = _value(header, "general.file_type")
    return FILE_TYPES.get(number & ~_GUESSED_FILE_TYPE) if isinstance(number, int) else None


def _text(header: Header, key: str) -> str | None:
    value = _value(header, key)
    return value[:MAX_TEXT_CHARS] if isinstance(value, str) and value else None


def _value(header: Header, key: str) -> object:
    entry = header.metadata.get(key)
    return None if entry is None else entry.value
