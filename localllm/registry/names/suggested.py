"""Derives names for models from file names. Knows which names are valid, not which are taken."""

from __future__ import annotations

import re

from localllm.errors import InvalidParameter
from localllm.registry import catalog
from localllm.registry.names import model_names
from localllm.registry.names.model_names import DEFAULT_TAG, MAX_PART_CHARS, CatalogName, Demo, PathName
from localllm.registry.sources.quants import split_shard

_NOT_SHORT = re.compile(r"[^a-z0-9._-]+", re.ASCII)
_DOTS = re.compile(r"\.\.+")
_SUFFIX = "-local"
"""Appended where the plain name would mean something else."""


def storable(text: str) -> str:
    """The canonical form of a name under which the store may keep a model. Raises `InvalidParameter`."""
    name = model_names.parse(text)
    if isinstance(name, Demo):
        raise InvalidParameter("demo is the model that comes with localllm; choose another name", param="name")
    if isinstance(name, PathName):
        raise InvalidParameter(f"{text[:80]!r} is a path; choose a name such as my-model or my-model:8b", param="name")
    if isinstance(name, CatalogName) and name.tag == DEFAULT_TAG:
        return name.name  # else `x` and `x:latest` could be two models
    return str(name)


def short_name(file_name: str) -> str:
    """A short name derived from a file name; never that of the bundled model or a model of the catalog."""
    stem = split_shard(file_name.replace("\\", "/").rpartition("/")[2])[0]
    name = _DOTS.sub(".", _NOT_SHORT.sub("-", stem.lower())).strip("._-")
    name = name[: MAX_PART_CHARS - len(_SUFFIX)].strip("._-") or "model"
    while name.endswith(".gguf"):  # else it would be a path
        name = name[: -len(".gguf")].strip("._-") or "model"
    try:
        model_names.parse(f"hf.co/a/{name}")  # rejects names reserved by Windows
    except InvalidParameter:
        return f"model-{name}"
    return name + _SUFFIX if name == model_names.DEMO or catalog.load().find(name) is not None else name


def canonical(text: str) -> str | None:
    """The canonical form of a name; None if it is invalid or a path."""
    try:
        return storable(text)
    except InvalidParameter:
        return None
