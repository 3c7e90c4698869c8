"""Finds the draft model: the one that the user named, or the catalog's draft for a model; reads its header.

Knows nothing of what is loaded, nor whether the vocabularies match: that is checked once both are loaded.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from localllm.errors import LocalLLMError, ModelNotFound
from localllm.registry import catalog
from localllm.registry.header_reading import read_info
from localllm.registry.names.model_names import CatalogName, parse
from localllm.registry.resolve import ModelFile, carried, resolve
from localllm.system.shell_words import shell_word
from localllm.types import ModelInfo

AUTO = "auto"
DEMO, DEMO_DRAFT = "demo", "demo-draft"


class DraftFile(NamedTuple):
    """A draft model on this machine."""

    file: ModelFile
    info: ModelInfo


class DraftChoice(NamedTuple):
    """A draft model, or why there is none."""

    draft: DraftFile | None
    reason: str = ""


def pair_of(id: str) -> str | None:
    """The name of the catalog's draft for the model with this id; None if it has none."""
    if id == DEMO:
        return DEMO_DRAFT
    try:
        name = parse(id)
    except LocalLLMError:
        return None
    entry = catalog.load().find(name.name, name.tag) if isinstance(name, CatalogName) else None
    return None if entry is None else entry.draft


def find_draft(wanted: str, target: str, data_dir: Path) -> DraftChoice:
    """The draft `wanted` for the model with the id `target`; `auto` may find none, and never raises.

    For a draft given by name, raises `ModelNotFound`, `InvalidParameter`, `LoadFailed` as `resolve` and `read_info` do.
    """
    if wanted != AUTO:
        return DraftChoice(_read(_resolved(wanted, data_dir)))
    pair = pair_of(target)
    if pair is None:
        return DraftChoice(None, f"the catalog has no draft for {target}; give one by name")
    try:
        return DraftChoice(_read(_resolved(pair, data_dir)))
    except ModelNotFound:
        return DraftChoice(None, f"localllm pull {shell_word(pair)} downloads the draft for {target}")
    except LocalLLMError as error:
        return DraftChoice(None, error.message)


def _read(file: ModelFile) -> DraftFile:
    try:
        return DraftFile(file, read_info(file))
    except BaseException:
        file.release()
        raise


def _resolved(name: str, data_dir: Path) -> ModelFile:
    if name == DEMO_DRAFT and not Path(name).exists():
        return ModelFile(DEMO_DRAFT, carried("demo-draft.gguf"))
    try:
        return resolve(name, data_dir)
    except ModelNotFound as error:
        raise ModelNotFound(f"draft: {error.message}", param="draft") from error
