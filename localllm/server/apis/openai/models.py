"""The entries of /v1/models: beyond id and owner, extensions, named as in other servers where possible."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from localllm.chat.template_note import template_note
from localllm.server.answers.catalog import Entry, can_chat
from localllm.types import Capability, ChatFormat, KvLayout, MemoryKind, ModelInfo, Pooling, SourceName
from localllm.types.states import ModelPhase, RunningModel


class Architecture(msgspec.Struct, frozen=True, kw_only=True):
    """The modalities, as in llama-server and OpenRouter."""

    name: str
    """GGUF's architecture, e.g. `qwen3`."""
    input_modalities: tuple[Literal["text", "image", "video", "audio"], ...]
    output_modalities: tuple[Literal["text", "embeddings", "scores"], ...]


class FormatEntry(msgspec.Struct, frozen=True, kw_only=True):
    """How a model's thoughts and calls are parsed."""

    name: str
    origin: Literal["known", "found", "generic"]
    """Described by hand, derived from the template, or the generic format."""
    note: str | msgspec.UnsetType = msgspec.UNSET
    """Why the generic format is used."""
    thinking: Literal["never", "always", "switchable"]
    reasoning_effort: bool
    """Whether the template uses it."""
    tools: Literal["template", "system_message"]
    """Whether the template or a system message describes tools."""


class Status(msgspec.Struct, frozen=True):
    """As in llama-server's router; clients poll it after loading or unloading a model."""

    value: Literal["loaded", "loading", "unloaded"]
    args: tuple[str, ...] = ()
    """Its command line, in llama-server."""


class Meta(msgspec.Struct, frozen=True, kw_only=True):
    """As in llama-server. `n_ctx` is present once the model is loaded."""

    n_vocab: int
    n_ctx: int | msgspec.UnsetType = msgspec.UNSET
    n_ctx_train: int | None
    n_embd: int | None
    n_params: int
    size: int
    """Bytes of tensor data."""
    ftype: str | None


class ModelEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One model; everything after `owned_by` is an extension, some of it only present once the model is loaded.

    The file's path is not included.
    """

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "localllm"
    loaded: bool
    """Others are loaded on demand."""
    status: Status = Status("unloaded")
    aliases: tuple[str, ...] = ()
    """llama-server's, like `tags`; always empty, since our aliases are patterns."""
    tags: tuple[str, ...] = ()
    file_type: str | None
    size_bytes: int
    ctx: int | msgspec.UnsetType = msgspec.UNSET
    slots: int | msgspec.UnsetType = msgspec.UNSET
    threads: int | msgspec.UnsetType = msgspec.UNSET
    chat_template: bool | msgspec.UnsetType = msgspec.UNSET
    chat_template_source: str | msgspec.UnsetType = msgspec.UNSET
    """Its origin: `file`, `manifest`, `option`, or `architecture` if the file has none."""
    chat_template_note: str | msgspec.UnsetType = msgspec.UNSET
    """That it has none of its own, or one that leaves out messages."""
    capabilities: list[Capability] | msgspec.UnsetType = msgspec.UNSET
    text_only_reason: str | msgspec.UnsetType = msgspec.UNSET
    """Why a model reads neither pictures nor sound, and the remedy."""
    architecture: Architecture | msgspec.UnsetType = msgspec.UNSET
    chat_format: FormatEntry | msgspec.UnsetType = msgspec.UNSET
    parent: str | msgspec.UnsetType = msgspec.UNSET
    """The model that this is under adapters; `root`: the same, as vLLM has it."""
    root: str | msgspec.UnsetType = msgspec.UNSET
    route: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    """Of a route: the models that it asks, in this order; the other fields are those of the first that is here."""
    num_parameters: int | msgspec.UnsetType = msgspec.UNSET
    context_length: int | msgspec.UnsetType = msgspec.UNSET
    """The same as `ctx`: maximum tokens of prompt and answer together."""
    max_model_len: int | msgspec.UnsetType = msgspec.UNSET
    """The same under vLLM's name."""
    max_context_length: int | msgspec.UnsetType | None = msgspec.UNSET
    """The context the model was trained with."""
    layers_per_device: dict[str, int] | msgspec.UnsetType = msgspec.UNSET
    cpu_experts: int | msgspec.UnsetType = msgspec.UNSET
    """Number of layers on devices whose experts are in main memory, if any."""
    backend: str | msgspec.UnsetType = msgspec.UNSET
    memory: MemoryKind | msgspec.UnsetType = msgspec.UNSET
    kv: KvLayout | msgspec.UnsetType = msgspec.UNSET
    """How the slots share the KV cache; `kv_reason`: why."""
    kv_reason: str | msgspec.UnsetType = msgspec.UNSET
    flash_attn: Literal["on", "off"] | msgspec.UnsetType = msgspec.UNSET
    flash_attn_reason: str | msgspec.UnsetType = msgspec.UNSET
    speculation: Literal["auto", "off"] | msgspec.UnsetType = msgspec.UNSET
    """`auto`: tokens are guessed if that pays; `speculation_reason`: why not."""
    speculation_reason: str | msgspec.UnsetType = msgspec.UNSET
    speculation_sources: tuple[SourceName, ...] | msgspec.UnsetType = msgspec.UNSET
    """The sources of guessed tokens; `mtp_reason`: why the model's own NextN layers, if any, are not among them."""
    mtp_reason: str | msgspec.UnsetType = msgspec.UNSET
    tuned: str | msgspec.UnsetType = msgspec.UNSET
    """The results of `localllm tune` in use, or why they are not used."""
    draft: str | msgspec.UnsetType = msgspec.UNSET
    """The id of its draft model; `draft_reason`: why `auto` found none."""
    draft_reason: str | msgspec.UnsetType = msgspec.UNSET
    pooling: Pooling | msgspec.UnsetType = msgspec.UNSET
    """`rank` for rerankers; otherwise the pooling of embeddings."""
    dimensions: int | msgspec.UnsetType = msgspec.UNSET
    embedding_ctx: int | msgspec.UnsetType = msgspec.UNSET
    """Maximum tokens of a text to embed or rank."""
    meta: Meta | msgspec.UnsetType = msgspec.UNSET
    settings: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    """The model's own settings: loading, aliases, sampling."""


class NamedModel(msgspec.Struct, frozen=True):
    """A model in Ollama's format, which clients of llama-server expect in the same list."""

    name: str
    model: str
    capabilities: list[Capability | Literal["multimodal"]] | msgspec.UnsetType = msgspec.UNSET
    """With llama-server's `multimodal` for those that read more than text."""
    type: Literal["model"] = "model"


class ModelList(msgspec.Struct, frozen=True):
    data: list[ModelEntry]
    models: list[NamedModel]
    object: Literal["list"] = "list"


def model_list(entries: Sequence[Entry], running: Sequence[RunningModel]) -> ModelList:
    """The reply of /v1/models; `running`: the state of each model with a process."""
    phases = {model.id: model.phase for model in running}
    made = [model_entry(entry) for entry in entries]
    data = [
        msgspec.structs.replace(entry, status=_status(entry, phases.get(of.base or of.id)))
        for entry, of in zip(made, entries, strict=True)
    ]
    named = [NamedModel(each.id, each.id, _named(each, entry)) for each, entry in zip(data, entries, strict=True)]
    return ModelList(data, named)


def _named(made: ModelEntry, entry: Entry) -> list[Capability | Literal["multimodal"]] | msgspec.UnsetType:
    if isinstance(made.capabilities, msgspec.UnsetType):
        return msgspec.UNSET
    return [*made.capabilities, *(["multimodal"] if entry.reads else [])]  # type: ignore[list-item]


def _status(entry: ModelEntry, phase: ModelPhase | None) -> Status:
    if phase in ("loading", "restarting"):
        return Status("loading")
    return Status("loaded" if entry.loaded and phase != "unloading" else "unloaded")


def model_entry(entry: Entry) -> ModelEntry:
    """The entry of one model; if it is not loaded, from its file."""
    route = () if entry.available is None else entry.available.route
    found = ModelEntry(
        id=entry.id,
        created=entry.created_unix_s,
        loaded=entry.loaded is not None,
        file_type=entry.quant,
        settings=dict(entry.settings) or msgspec.UNSET,
        parent=(not route and entry.base) or msgspec.UNSET,
        root=(not route and entry.base) or msgspec.UNSET,
        route=route or msgspec.UNSET,
        size_bytes=entry.size_bytes if entry.loaded is None else entry.loaded.info.size_bytes,
    )
    known = entry.capabilities
    if entry.info is None or known is None:
        return found
    found = msgspec.structs.replace(
        found,
        capabilities=known,
        architecture=Architecture(
            name=entry.info.architecture,
            input_modalities=("text", *(kind for kind in entry.reads if kind != "document")),
            output_modalities=_outputs(known),
        ),
        num_parameters=entry.info.num_parameters,
        chat_template="default" in entry.info.chat_templates,
        max_context_length=entry.info.context_length,
        meta=_meta(entry.info, entry.ctx),
    )
    return found if entry.loaded is None else _loaded(found, entry)


_AS_LOADED = ("slots", "threads", "layers_per_device", "backend", "pooling", "dimensions", "embedding_ctx")
_WITH_SLOTS = ("memory", "kv", "kv_reason", "flash_attn", "flash_attn_reason", "speculation")
_IF_ANY = ("cpu_experts", "speculation_reason", "mtp_reason", "tuned", "draft", "draft_reason")
"""Fields of a loaded model: those that are always present, those of models that generate, and those with a value."""


def _loaded(found: ModelEntry, entry: Entry) -> ModelEntry:
    """The entry of a loaded model."""
    model, ctx = entry.loaded, entry.ctx or 0
    assert model is not None
    return msgspec.structs.replace(
        found,
        ctx=ctx,
        chat_template=bool(model.info.chat_templates),
        chat_template_source=model.info.chat_template_source or msgspec.UNSET,
        chat_template_note=template_note(model.info, model.format) or msgspec.UNSET,
        chat_format=_format(model.format) if can_chat(model) else msgspec.UNSET,
        context_length=ctx,
        max_model_len=ctx,
        speculation_sources=model.sources or msgspec.UNSET,
        text_only_reason=model.no_media or msgspec.UNSET,
        **{name: getattr(model, name) for name in (*_AS_LOADED, *(_WITH_SLOTS if model.slots else ()))},
        **{name: getattr(model, name) or msgspec.UNSET for name in _IF_ANY},
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
