"""The adapters under which a program's model answers. Knows nothing of requests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from localllm.errors import InvalidParameter
from localllm.registry.adapters.names import parse_given, parse_named, spelled
from localllm.registry.names.model_names import looks_like_path
from localllm.runtime.adapters import AdapterNames
from localllm.types import LoadedModel


def adapter_texts(given: Sequence[str] | str | None) -> tuple[str, ...]:
    """Each as NAME[:SCALE][:FIRST-LAST] or [NAME=]FILE[:SCALE][:FIRST-LAST]. Raises `InvalidParameter`."""
    texts = (given,) if isinstance(given, str) else tuple(given or ())
    for text in texts:
        if not isinstance(text, str):
            raise InvalidParameter(
                f"adapters takes names and files as text, got {type(text).__name__}", param="adapters"
            )
        if not _is_file(text):
            parse_named(text)
    return texts


async def named(names: AdapterNames, model: str, loaded: LoadedModel, texts: Sequence[str]) -> str:
    """The name of a loaded model under these adapters, and those of the name by which it was loaded.

    Raises `InvalidParameter`, `ModelNotFound`, `LoadFailed`s.
    """
    name = names.shown(model, loaded.id)
    for text in texts:
        if _is_file(text):
            given = parse_given(text)
            # Its layers are a part of the name, as its strength is: calls at the same time may ask for others.
            await names.give(loaded.id, Path(loaded.path), [given._replace(layers=None)])
            text = spelled(given.name, given.scale, given.layers)
        name = f"{name}+{text}"
    names.variant(name)
    return name


def _is_file(text: str) -> bool:
    file = text.partition("=")[2] or text
    return "=" in text or any(looks_like_path(file.rsplit(":", count)[0]) for count in range(3))
