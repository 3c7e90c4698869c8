"""What /v1/models says of a model: beyond id and owner it is ours, in the words of other servers where they have some.

Knows of no endpoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from localllm.server.catalog import Entry, can_chat
from localllm.types import Capability, ChatFormat, KvLayout, MemoryKind, ModelInfo, Pooling
from localllm.types.states import ModelPhase, RunningModel


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


class Meta(msgspec.Struct, frozen=True, kw_only=True):
    """As llama-server has it. `n_ctx` is there once the model is loaded."""

    n_vocab: int
    n_ctx: int | msgspec.UnsetType = msgspec.UNSET
    n_ctx_train: int | None
    n_embd: int | None
    n_params: int
    size: int
    """Bytes of tensor data."""
    ftype: str | None


class ModelEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One model; everything after `owned_by` is an extension, and half of it there once it is loaded.

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
    speculation: Literal["auto", "off"] | msgspec.UnsetType = msgspec.UNSET
    """`auto`: tokens are guessed where that pays; `speculation_reason`: why not."""
    speculation_reason: str | msgspec.UnsetType = msgspec.UNSET
    tuned: str | msgspec.UnsetType = msgspec.UNSET
    """What `localllm tune` found for it here that is used, or why that is not."""
    draft: str | msgspec.UnsetType = msgspec.UNSET
    """The id of the model that guesses for it; `draft_reason`: why none does, where `auto` found none."""
    draft_reason: str | msgspec.UnsetType = msgspec.UNSET
    pooling: Pooling | msgspec.UnsetType = msgspec.UNSET
    """`rank`: it ranks; otherwise it embeds."""
    dimensions: int | msgspec.UnsetType = msgspec.UNSET
    embedding_ctx: int | msgspec.UnsetType = msgspec.UNSET
    """Tokens of the longest text that it embeds or ranks."""
    meta: Meta | msgspec.UnsetType = msgspec.UNSET
    settings: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    """What is set for this model alone: how it is loaded, its aliases, its sampling."""


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


def model_list(entries: Sequence[Entry], running: Sequence[RunningModel]) -> ModelList:
    """What /v1/models says of all; `running`: how far each is that has a process."""
    phases = {model.id: model.phase for model in running}
    made = [model_entry(entry) for entry in entries]
    told = [msgspec.structs.replace(entry, status=_status(entry, phases.get(entry.id))) for entry in made]
    return ModelList(told, [NamedModel(entry.id, entry.id, entry.capabilities) for entry in told])


def _status(entry: ModelEntry, phase: ModelPhase | None) -> Status:
    if phase in ("loading", "restarting"):
        return Status("loading")
    return Status("loaded" if entry.loaded and phase != "unloading" else "unloaded")


def model_entry(entry: Entry) -> ModelEntry:
    """What /v1/models says of a model: of one that is not loaded what its file says."""
    found = ModelEntry(
        id=entry.id,
        created=entry.created_unix_s,
        loaded=entry.loaded is not None,
        file_type=entry.quant,
        settings=dict(entry.settings) or msgspec.UNSET,
        size_bytes=entry.size_bytes if entry.loaded is None else entry.loaded.info.size_bytes,
    )
    known = entry.capabilities
    if entry.info is None or known is None:
        return found
    found = msgspec.structs.replace(
        found,
        capabilities=known,
        architecture=Architecture(name=entry.info.architecture, output_modalities=_outputs(known)),
        num_parameters=entry.info.num_parameters,
        chat_template="default" in entry.info.chat_templates,
        max_context_length=entry.info.context_length,
        meta=_meta(entry.info, entry.ctx),
    )
    return found if entry.loaded is None else _loaded(found, entry)


def _loaded(found: ModelEntry, entry: Entry) -> ModelEntry:
    """With how it was loaded."""
    model, ctx = entry.loaded, entry.ctx or 0
    assert model is not None
    return msgspec.structs.replace(
        found,
        ctx=ctx,
        slots=model.slots,
        threads=model.threads,
        chat_template=bool(model.info.chat_templates),
        chat_template_source=model.info.chat_template_source or msgspec.UNSET,
        chat_format=_format(model.format) if can_chat(model) else msgspec.UNSET,
        context_length=ctx,
        max_model_len=ctx,
        layers_per_device=model.layers_per_device,
        backend=model.backend,
        memory=model.memory if model.slots else msgspec.UNSET,
        kv=model.kv if model.slots else msgspec.UNSET,
        kv_reason=model.kv_reason if model.slots else msgspec.UNSET,
        flash_attn=model.flash_attn if model.slots else msgspec.UNSET,
        flash_attn_reason=model.flash_attn_reason if model.slots else msgspec.UNSET,
        speculation=model.speculation if model.slots else msgspec.UNSET,
        speculation_reason=model.speculation_reason or msgspec.UNSET,
        tuned=model.tuned or msgspec.UNSET,
        draft=model.draft or msgspec.UNSET,
        draft_reason=model.draft_reason or msgspec.UNSET,
        pooling=model.pooling,
        dimensions=model.dimensions,
        embedding_ctx=model.embedding_ctx,
    )


def _meta(info: ModelInfo, ctx: int | None) -> Meta:
    return Meta(
        n_vocab=info.vocabulary_size,
        n_ctx=msgspec.UNSET if ctx is None else ctx,
        n_ctx_train=info.context_length,
        n_embd=info.embedding_length,
        n_params=info.num_parameters,
        size=info.size_bytes,
        ftype=info.file_type,
    )


def _outputs(known: list[Capability]) -> tuple[Literal["text", "embeddings", "scores"], ...]:
    if "completion" in known:
        return ("text",)
    return ("scores",) if "rerank" in known else ("embeddings",)


def _format(described: ChatFormat) -> FormatEntry:
    return FormatEntry(
        name=described.name,
        origin=described.origin,
        note=described.note or msgspec.UNSET,
        thinking=described.thinking,
        reasoning_effort=described.efforts,
        tools="template" if described.shows_tools else "system_message",
    )
