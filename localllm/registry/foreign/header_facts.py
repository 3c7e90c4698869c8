"""Checks a GGUF file's header before the file is added: is it a model, and can llama.cpp read this kind of file.

Reads only the header, with all checks of `localllm.gguf`. Does not know whether llama.cpp supports the architecture.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from localllm.errors import InvalidModelFile, LocalLLMError
from localllm.gguf import Header, read_header
from localllm.registry.manifest import Role
from localllm.registry.sources.ollama_only import refused_header
from localllm.types.upstream import FILE_TYPES, GUESSED_FILE_TYPE

MAX_TEXT_CHARS = 200
"""Limit on the name of an architecture or licence."""


class Facts(NamedTuple):
    """Facts about one file; if there is a problem, the rest may be missing."""

    header: Header | None
    architecture: str | None = None
    quant: str | None = None
    num_parameters: int = 0
    license: str | None = None
    problem: str | None = None
    """Why it cannot be used in that role: a phrase that follows the file name."""


def examine(path: Path, role: Role) -> Facts:
    """Facts about a file meant as a model (or any of its shards) or as a projector. Does not raise."""
    try:
        header = read_header(path)
    except LocalLLMError as error:
        reason = error.details.get("reason")
        return Facts(None, problem=f"cannot be read as GGUF: {reason or error.message}")
    return facts_of(header, role)


def facts_of(header: Header, role: Role) -> Facts:
    """As `examine`, for a header that has already been read."""
    architecture = _text(header, "general.architecture")
    return Facts(
        header=header,
        architecture=architecture,
        quant=_file_type(header),
        num_parameters=sum(tensor.num_elements for tensor in header.tensors),
        license=_text(header, "general.license"),
        problem=_not_a_model(header, architecture) if role == "model" else _not_a_projector(header, architecture),
    )


def check_is_model(header: Header) -> None:
    """Raises `InvalidModelFile` for an adapter, a projector, a matrix or a vocabulary alone."""
    problem = _not_a_model(header, _text(header, "general.architecture"))
    if problem is not None:
        raise InvalidModelFile(f"{header.path.name} {problem}", path=str(header.path))


def _not_a_model(header: Header, architecture: str | None) -> str | None:
    kind = _text(header, "general.type")
    if kind == "adapter" or "adapter.type" in header.metadata:
        return "is a LoRA adapter, and adapters are not supported yet"
    if kind == "imatrix":
        return "is an importance matrix for quantization, not a model"
    if _is_projector(kind, architecture):
        return "is a projector (mmproj), not a model by itself"
    if _value(header, "split.no") not in (None, 0):
        return None  # later shards have less metadata
    if architecture is None:
        return "does not state its architecture"
    if not header.tensors and "split.count" not in header.metadata:
        return "has a vocabulary but no weights"
    refused = refused_header(architecture, (tensor.name for tensor in header.tensors))
    return None if refused is None else f"cannot be read by llama.cpp: {refused}"


def _not_a_projector(header: Header, architecture: str | None) -> str | None:
    return None if _is_projector(_text(header, "general.type"), architecture) else "is not a projector (mmproj)"


def _is_projector(kind: str | None, architecture: str | None) -> bool:
    return architecture == "clip" or kind == "mmproj"


def _file_type(header: Header) -> str | None:
    number = _value(header, "general.file_type")
    return FILE_TYPES.get(number & ~GUESSED_FILE_TYPE) if isinstance(number, int) else None


def _text(header: Header, key: str) -> str | None:
    value = _value(header, key)
    return value[:MAX_TEXT_CHARS] if isinstance(value, str) and value else None


def _value(header: Header, key: str) -> object:
    entry = header.metadata.get(key)
    return None if entry is None else entry.value
