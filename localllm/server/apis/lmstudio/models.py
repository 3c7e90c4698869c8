"""A model in the formats of LM Studio's two APIs."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from localllm.server.answers.catalog import Entry


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """One element of `/api/v0/models`."""

    id: str
    object: Literal["model"] = "model"
    type: Literal["llm", "vlm", "embeddings"]
    """Rerankers count as `embeddings`, since LM Studio has no type for them. `vlm`: reads pictures."""
    publisher: str
    arch: str | None
    compatibility_type: Literal["gguf"] = "gguf"
    quantization: str | None
    state: Literal["loaded", "not-loaded"]
    max_context_length: int | None
    """The context it was trained with."""
    loaded_context_length: int | UnsetType = UNSET
    """Maximum tokens of prompt and answer; only if loaded."""
    capabilities: list[Literal["tool_use"]] | UnsetType = UNSET


class ModelList(msgspec.Struct, frozen=True):
    data: list[Model]
    object: Literal["list"] = "list"


class Quantization(msgspec.Struct, frozen=True):
    name: str | None
    bits_per_weight: float | None


class InstanceConfig(msgspec.Struct, frozen=True, kw_only=True):
    context_length: int
    parallel: int
    """Number of slots."""
    flash_attention: bool


class Instance(msgspec.Struct, frozen=True):
    id: str
    config: InstanceConfig


class KeyCapabilities(msgspec.Struct, frozen=True, kw_only=True):
    vision: bool
    trained_for_tool_use: bool
    """Whether its template renders tools; any chat model can be given some."""


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """One element of `/api/v1/models`."""

    type: Literal["llm", "embedding"]
    publisher: str
    key: str
    display_name: str
    architecture: str | None
    quantization: Quantization | None
    size_bytes: int
    params_string: str | None
    loaded_instances: list[Instance]
    max_context_length: int | None
    format: Literal["gguf"] = "gguf"
    capabilities: KeyCapabilities | UnsetType = UNSET
    """Absent for embedding models."""
    description: None = None


class KeyList(msgspec.Struct, frozen=True):
    models: list[Key]


def model(entry: Entry) -> Model:
    """A model in the format of the first API."""
    info, known = entry.info, entry.capabilities or ["completion"]
    return Model(
        id=entry.id,
        type="vlm" if "vision" in known else "llm" if "completion" in known else "embeddings",
        publisher=_publisher(entry.id),
        arch=None if info is None else info.architecture,
        quantization=entry.quant,
        state="not-loaded" if entry.loaded is None else "loaded",
        max_context_length=None if info is None else info.context_length,
        loaded_context_length=UNSET if entry.ctx is None else entry.ctx,
        capabilities=["tool_use"] if "tools" in known else UNSET,
    )


def key(entry: Entry) -> Key:
    """A model in the format of the second API."""
    info, known = entry.info, entry.capabilities or ["completion"]
    generates = "completion" in known
    return Key(
        type="llm" if generates else "embedding",
        publisher=_publisher(entry.id),
        key=entry.id,
        display_name=entry.id if info is None or info.name is None else info.name,
        architecture=None if info is None else info.architecture,
        quantization=None if entry.quant is None else Quantization(entry.quant, _bits_per_weight(entry)),
        size_bytes=entry.size_bytes,
        params_string=None if info is None else _params(info.num_parameters),
        loaded_instances=_instances(entry),
        max_context_length=None if info is None else info.context_length,
        capabilities=KeyCapabilities(vision="vision" in known, trained_for_tool_use=_shows_tools(entry))
        if generates
        else UNSET,
    )


def _publisher(id: str) -> str:
    """The publisher, if the name has one: `hf.co/PUBLISHER/MODEL`."""
    parts = id.split("/")
    return parts[-2] if len(parts) > 1 else ""


def _instances(entry: Entry) -> list[Instance]:
    model, ctx = entry.loaded, entry.ctx
    if model is None or ctx is None:
        return []
    config = InstanceConfig(
        context_length=ctx, parallel=max(1, model.slots), flash_attention=bool(model.slots) and model.flash_attn == "on"
    )
    return [Instance(model.id, config)]


def _shows_tools(entry: Entry) -> bool:
    if entry.loaded is not None:
        return entry.loaded.format.shows_tools
    return entry.info is not None and "tools" in entry.info.chat_templates.get("default", "")


def _bits_per_weight(entry: Entry) -> float | None:
    info = entry.info
    return round(8 * info.size_bytes / info.num_parameters, 2) if info is not None and info.num_parameters else None


def _params(count: int) -> str:
    """A parameter count such as `270M` or `7.6B`."""
    for unit, letter in ((10**9, "B"), (10**6, "M")):
        if count >= unit:
            return f"{count / unit:.3g}{letter}"
    return f"{count / 1000:.3g}K"
