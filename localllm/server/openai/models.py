"""What /v1/models says of a model: beyond id and owner it is ours, in the words of other servers where they have some.

Knows of no endpoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from localllm.states import AvailableModel, ModelPhase, RunningModel
from localllm.types import Capability, ChatFormat, KvLayout, LoadedModel, MemoryKind, Pooling, capabilities


class Architecture(msgspec.Struct, frozen=True, kw_only=True):
    """The modalities as llama-server and OpenRouter have them."""

    name: str
    """Of GGUF, e.g. `qwen3`."""
    input_modalities: tuple[Literal["text"], ...] = ("text",)
    output_modalities: tuple[Literal["text", "embeddings", "scores"], ...]


class FormatEntry(msgspec.Struct, frozen=True, kw_only=True):
    """How a model's thoughts and calls are read."""

    name: str
    origin: Literal["known", "found", "generic"]
    """Described by hand, read off the template, or what models do that nobody told otherwise."""
    note: str | msgspec.UnsetType = msgspec.UNSET
    """Why it is the generic one."""
    thinking: Literal["never", "always", "switchable"]
    reasoning_effort: bool
    """Whether the template reads it."""
    tools: Literal["template", "system_message"]
    """What tells the model of tools."""


class Status(msgspec.Struct, frozen=True):
    """As llama-server's router has it: watched by who loads or unloads a model."""

    value: Literal["loaded", "loading", "unloaded"]
    args: tuple[str, ...] = ()
    """Of its command line, where models have one."""


class ModelEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One model; everything after `owned_by` is ours, and most of it there once it is loaded.

    Where its file lies is nobody's business.
    """

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "localllm"
    loaded: bool
    """Others are loaded when they are asked for."""
    status: Status = Status("unloaded")
    aliases: tuple[str, ...] = ()
    """llama-server's, as `tags`: other names are patterns here, and no model's own."""
    tags: tuple[str, ...] = ()
    file_type: str | None
    size_bytes: int
    ctx: int | msgspec.UnsetType = msgspec.UNSET
    slots: int | msgspec.UnsetType = msgspec.UNSET
    threads: int | msgspec.UnsetType = msgspec.UNSET
    chat_template: bool | msgspec.UnsetType = msgspec.UNSET
    chat_template_source: str | msgspec.UnsetType = msgspec.UNSET
    """Where it is from: `file`, `manifest`, `option`, or `architecture` where the file has none."""
    capabilities: list[Capability] | msgspec.UnsetType = msgspec.UNSET
    architecture: Architecture | msgspec.UnsetType = msgspec.UNSET
    chat_format: FormatEntry | msgspec.UnsetType = msgspec.UNSET
    num_parameters: int | msgspec.UnsetType = msgspec.UNSET
    context_length: int | msgspec.UnsetType = msgspec.UNSET
    """As `ctx`: what prompt and answer together can have here."""
    max_model_len: int | msgspec.UnsetType = msgspec.UNSET
    """The same, as vLLM calls it."""
    max_context_length: int | msgspec.UnsetType | None = msgspec.UNSET
    """What the model was trained for."""
    layers_per_device: dict[str, int] | msgspec.UnsetType = msgspec.UNSET
    backend: str | msgspec.UnsetType = msgspec.UNSET
    memory: MemoryKind | msgspec.UnsetType = msgspec.UNSET
    kv: KvLayout | msgspec.UnsetType = msgspec.UNSET
    """How the slots share the KV cache; `kv_reason`: why."""
    kv_reason: str | msgspec.UnsetType = msgspec.UNSET
    flash_attn: Literal["on", "off"] | msgspec.UnsetType = msgspec.UNSET
    flash_attn_reason: str | msgspec.UnsetType = msgspec.UNSET
    pooling: Pooling | msgspec.UnsetType = msgspec.UNSET
    """`rank`: it ranks; otherwise it embeds."""
    dimensions: int | msgspec.UnsetType = msgspec.UNSET
    embedding_ctx: int | msgspec.UnsetType = msgspec.UNSET
    """Tokens of the longest text that it embeds or ranks."""


class NamedModel(msgspec.Struct, frozen=True):
    """A model for clients of llama-server that look for Ollama's list in its own."""

    name: str
    model: str
    capabilities: list[Capability] | msgspec.UnsetType = msgspec.UNSET
    type: Literal["model"] = "model"


class ModelList(msgspec.Struct, frozen=True):
    data: list[ModelEntry]
    models: list[NamedModel]
    object: Literal["list"] = "list"


def model_list(entries: Sequence[ModelEntry], running: Sequence[RunningModel]) -> ModelList:
    """What /v1/models says of all; `running`: how far each is that has a process."""
    phases = {model.id: model.phase for model in running}
    told = [msgspec.structs.replace(entry, status=_status(entry, phases.get(entry.id))) for entry in entries]
    return ModelList(told, [NamedModel(entry.id, entry.id, entry.capabilities) for entry in told])


def _status(entry: ModelEntry, phase: ModelPhase | None) -> Status:
    if phase in ("loading", "restarting"):
        return Status("loading")
    return Status("loaded" if entry.loaded and phase != "unloading" else "unloaded")


def model_entry(model: LoadedModel) -> ModelEntry:
    """What /v1/models says of a model."""
    return ModelEntry(
        id=model.id,
        created=model.created_unix_s,
        loaded=True,
        ctx=model.ctx,
        slots=model.slots,
        threads=model.threads,
        chat_template=bool(model.info.chat_templates),
        chat_template_source=model.info.chat_template_source or msgspec.UNSET,
        capabilities=_capabilities(model),
        architecture=Architecture(name=model.info.architecture, output_modalities=_outputs(model)),
        chat_format=_format(model.format) if can_chat(model) else msgspec.UNSET,
        file_type=model.info.file_type,
        num_parameters=model.info.num_parameters,
        size_bytes=model.info.size_bytes,
        context_length=model.ctx,
        max_model_len=model.ctx,
        max_context_length=model.info.context_length,
        layers_per_device=model.layers_per_device,
        backend=model.backend,
        memory=model.memory if model.slots else msgspec.UNSET,
        kv=model.kv if model.slots else msgspec.UNSET,
        kv_reason=model.kv_reason if model.slots else msgspec.UNSET,
        flash_attn=model.flash_attn if model.slots else msgspec.UNSET,
        flash_attn_reason=model.flash_attn_reason if model.slots else msgspec.UNSET,
        pooling=model.pooling,
        dimensions=model.dimensions,
        embedding_ctx=model.embedding_ctx,
    )


def available_entry(model: AvailableModel) -> ModelEntry:
    """What it says of one that is not loaded."""
    return ModelEntry(
        id=model.id,
        created=model.created_unix_s,
        loaded=False,
        file_type=model.quant,
        size_bytes=model.size_bytes,
    )


def can_chat(model: LoadedModel) -> bool:
    """Whether it answers conversations."""
    return bool(model.slots) and "default" in model.info.chat_templates


def _capabilities(model: LoadedModel) -> list[Capability]:
    return capabilities(
        generates=bool(model.slots),
        chats=can_chat(model),
        thinks=model.format.thinking != "never",
        ranks=model.pooling == "rank",
    )


def _outputs(model: LoadedModel) -> tuple[Literal["text", "embeddings", "scores"], ...]:
    if model.slots:
        return ("text",)
    return ("scores",) if model.pooling == "rank" else ("embeddings",)


def _format(described: ChatFormat) -> FormatEntry:
    return FormatEntry(
        name=described.name,
        origin=described.origin,
        note=described.note or msgspec.UNSET,
        thinking=described.thinking,
        reasoning_effort=described.efforts,
        tools="template" if described.shows_tools else "system_message",
    )
