"""Checks a GGUF file's header before the file is added: is it a model, and can llama.cpp read this kind of file.

Reads only the header, with all checks of `localllm.gguf`.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from localllm.errors import InvalidModelFile, LocalLLMError
from localllm.gguf import Header, read_header
from localllm.gguf.architectures import needs
from localllm.gguf.kinds import is_projector, not_a_model, text_of
from localllm.registry.manifest import Role
from localllm.registry.sources.ollama_only import refused_header
from localllm.system.printable import one_line
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
        problem=_not_usable(header) if role == "model" else _not_a_projector(header),
    )


def check_is_model(header: Header) -> None:
    """Raises `InvalidModelFile` for an adapter, a projector, a matrix, a vocabulary alone, or a file of Ollama's."""
    problem = _not_usable(header)
    if problem is not None:
        raise InvalidModelFile(f"{header.path.name} {problem}", path=str(header.path))


def check_is_known(header: Header) -> None:
    """Raises `InvalidModelFile`, with the detail `architecture`, if no llama.cpp that can be used knows that one."""
    architecture = text_of(header, "general.architecture")
    if architecture is not None and (unknown := needs(one_line(architecture[:MAX_TEXT_CHARS]))):
        raise InvalidModelFile(f"{header.path.name}: {unknown}", path=str(header.path), architecture=architecture)


def _not_usable(header: Header) -> str | None:
    problem, architecture = not_a_model(header), text_of(header, "general.architecture")
    if problem is not None or architecture is None:
        return problem
    refused = refused_header(architecture, (tensor.name for tensor in header.tensors))
    return None if refused is None else f"cannot be read by llama.cpp: {refused}"


def _not_a_projector(header: Header) -> str | None:
    return None if is_projector(header) else "is not a projector (mmproj)"


def _file_type(header: Header) -> str | None:
    entry = header.metadata.get("general.file_type")
    number = None if entry is None else entry.value
    return FILE_TYPES.get(number & ~GUESSED_FILE_TYPE) if isinstance(number, int) else None


def _text(header: Header, key: str) -> str | None:
    value = text_of(header, key)
    return None if value is None else value[:MAX_TEXT_CHARS]
