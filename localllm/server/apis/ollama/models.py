"""A model in Ollama's format: names, sizes, families, capabilities."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from localllm.errors import InvalidParameter, LocalLLMError
from localllm.planning.projector_plan import Companion
from localllm.registry.making.modelfile import quoted
from localllm.runtime.runtime import ModelDescription
from localllm.server.answers.catalog import seems_to_think
from localllm.server.apis.ollama.names import shown
from localllm.server.apis.ollama.replies import FOREVER, ReplyMessage, moment
from localllm.server.state import ServerState
from localllm.types import LoadedModel, MediaKind, ModelDefaults, ModelInfo
from localllm.types.states import AvailableModel, RunningModel

_OURS: tuple[tuple[str, str], ...] = (
    ("temperature", "temperature"), ("top_k", "top_k"), ("top_p", "top_p"), ("min_p", "min_p"),
    ("typical_p", "typical_p"), ("repeat_penalty", "repeat_penalty"), ("repeat_last_n", "repeat_last_n"),
    ("presence_penalty", "presence_penalty"), ("frequency_penalty", "frequency_penalty"), ("seed", "seed"),
    ("max_tokens", "num_predict"),
)  # fmt: skip
"""Field of `SamplingParams` -> Ollama's name for it."""


_INSERTS = "{#- .Suffix: this model fills in between a prompt and a suffix #}"
"""Appended to the template: Continue searches it for `.Suffix` before it requests code completion."""


class Details(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    parent_model: str = msgspec.field(default_factory=str)
    format: str
    family: str
    families: list[str]
    parameter_size: str
    quantization_level: str
    context_length: int | None = None
    embedding_length: int | None = None


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """A model on this machine."""

    name: str
    model: str
    modified_at: str
    size: int
    digest: str
    """Distinguishes versions of a model; derived from its name, size and time, since there is no Ollama manifest."""
    details: Details
    capabilities: list[str]


class Tags(msgspec.Struct, frozen=True):
    models: list[Listed]


class Running(msgspec.Struct, frozen=True, kw_only=True):
    """A loaded model."""

    name: str
    model: str
    size: int
    digest: str
    details: Details
    expires_at: str
    size_vram: int
    """Estimated from the share of layers on GPUs."""
    context_length: int


class Processes(msgspec.Struct, frozen=True):
    models: list[Running]


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /api/show`."""

    license: str | msgspec.UnsetType = msgspec.UNSET
    modelfile: str
    parameters: str | msgspec.UnsetType = msgspec.UNSET
    template: str
    """The model file's Jinja template."""
    system: str | msgspec.UnsetType = msgspec.UNSET
    details: Details
    messages: list[ReplyMessage] | msgspec.UnsetType = msgspec.UNSET
    """The messages that begin every chat."""
    model_info: dict[str, Any]
    projector_info: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    """The same of the projector, if it has one."""
    capabilities: list[str]
    modified_at: str


async def listed(state: ServerState, model: AvailableModel) -> Listed | None:
    """A model for the list; None if its file cannot be read."""
    try:
        described = await state.runtime.described(model)
    except LocalLLMError:
        return None
    return Listed(
        name=shown(model.id),
        model=shown(model.id),
        modified_at=moment(model.created_unix_s * 10**9),
        size=model.size_bytes,
        digest=digest(model),
        details=details(described.info, described.reads),
        capabilities=_capabilities(described.info, state.loaded(model.id), described.reads),
    )


def running(model: RunningModel, available: Mapping[str, AvailableModel]) -> Running | None:
    """A model for the list of loaded ones; None if it is not loaded."""
    loaded = model.loaded
    if loaded is None or model.phase == "unloading":
        return None
    listed = available.get(model.id) or AvailableModel(
        id=model.id, size_bytes=loaded.info.size_bytes, created_unix_s=loaded.created_unix_s
    )
    leaves_s = model.expires_in_s
    return Running(
        name=shown(model.id),
        model=shown(model.id),
        size=model.memory_bytes,
        digest=digest(listed),
        details=details(loaded.info, loaded.reads),
        expires_at=FOREVER if leaves_s is None else moment(time.time_ns() + int(leaves_s * 1e9)),
        size_vram=_on_gpus(loaded, model.memory_bytes),
        context_length=loaded.ctx,
    )


def described(model: AvailableModel, found: ModelDescription, loaded: LoadedModel | None) -> Shown:
    """Details of a model."""
    info, defaults = found.info, found.defaults
    parameters = _parameters(found)
    template = info.chat_templates.get("default", "") + (_INSERTS if info.fills_in_middle else "")
    return Shown(
        license=model.license or msgspec.UNSET,
        modelfile=_modelfile(model.id, parameters, defaults),
        parameters="\n".join(f"{name:<30} {value}" for name, value in parameters + _stops(defaults)) or msgspec.UNSET,
        template=template,
        system=defaults.system or msgspec.UNSET,
        details=details(info, found.reads),
        messages=[ReplyMessage(role=one.role, content=one.content) for one in defaults.messages] or msgspec.UNSET,
        model_info=_model_info(info),
        projector_info=_projector_info(found.companion),
        capabilities=_capabilities(info, loaded, found.reads),
        modified_at=moment(model.created_unix_s * 10**9),
    )


def details(info: ModelInfo, reads: Collection[MediaKind]) -> Details:
    """The summary of a model that all replies include. Older clients look for `clip` among the families."""
    return Details(
        format="gguf",
        family=info.architecture,
        families=[info.architecture, *["clip"] * ("image" in reads)],
        parameter_size=human(info.num_parameters),
        quantization_level=info.file_type or "unknown",
        context_length=info.context_length,
        embedding_length=info.embedding_length,
    )


def digest(model: AvailableModel) -> str:
    """A made-up digest of 64 hexadecimal digits; see `Listed.digest`."""
    return hashlib.sha256(msgspec.json.encode(model, order="deterministic")).hexdigest()


def human(count: int) -> str:
    """A parameter count as Ollama writes it: `3.2B`, `751.63M`."""
    for unit, letter, digits in ((10**9, "B", 1), (10**6, "M", 2)):
        if count >= unit:
            return f"{count // unit}{letter}" if count % unit == 0 else f"{count / unit:.{digits}f}{letter}"
    return f"{count / 1000:.0f}K" if count >= 1000 else str(count)


def _capabilities(info: ModelInfo, loaded: LoadedModel | None, reads: Collection[MediaKind] = ()) -> list[str]:
    """In Ollama's order. Tools can be offered to any chat model here."""
    if info.draft_head is not None:
        return []
    if not info.causal or info.has_ranking_head:
        return ["embedding"]
    thinks = seems_to_think(info) if loaded is None else loaded.format.thinking != "never"
    chats, reads = "default" in info.chat_templates, reads if loaded is None else loaded.reads
    return [
        "completion",
        *["tools"] * chats,
        *["insert"] * info.fills_in_middle,
        *["vision"] * ("image" in reads),
        *["audio"] * ("audio" in reads),
        *["thinking"] * (chats and thinks),
    ]


def _on_gpus(loaded: LoadedModel, size_bytes: int) -> int:
    layers = sum(loaded.layers_per_device.values())
    on_gpus = sum(count for name, count in loaded.layers_per_device.items() if name.upper() != "CPU")
    return size_bytes * on_gpus // layers if layers else 0


def _parameters(found: ModelDescription) -> list[tuple[str, str]]:
    params = found.defaults.params
    given = [(theirs, getattr(params, name)) for name, theirs in _OURS]
    said = [(name, str(value).removesuffix(".0")) for name, value in given if value is not None]
    return said + ([("num_ctx", str(found.ctx))] if found.ctx else [])


def _stops(defaults: ModelDefaults) -> list[tuple[str, str]]:
    return [("stop", json.dumps(stop, ensure_ascii=False)) for stop in defaults.params.stop]


def _modelfile(name: str, parameters: list[tuple[str, str]], defaults: ModelDefaults) -> str:
    """A Modelfile for `localllm create`, without the file's own template. It can always be read; a comment stands for a
    text that a Modelfile cannot hold."""
    lines = ['# Modelfile generated by "ollama show"', f"FROM {name}"]
    lines += [f"PARAMETER {parameter} {value}" for parameter, value in parameters]
    lines += [_line("PARAMETER stop", stop) for stop in defaults.params.stop]
    lines += [_line("SYSTEM", defaults.system)] if defaults.system else []
    return "\n".join(lines) + "\n"


def _line(instruction: str, text: str) -> str:
    try:
        return f"{instruction} {quoted(text, instruction)}"
    except InvalidParameter as error:
        return f"# {error.message}"


def _model_info(info: ModelInfo) -> dict[str, Any]:
    """The GGUF keys known here."""
    name = info.architecture
    found = {
        "general.architecture": name,
        "general.basename": info.name,
        "general.parameter_count": info.num_parameters,
        f"{name}.block_count": info.num_layers,
        f"{name}.context_length": info.context_length,
        f"{name}.embedding_length": info.embedding_length,
        f"{name}.feed_forward_length": info.feed_forward_length,
        f"{name}.attention.head_count": info.num_heads,
        f"{name}.attention.head_count_kv": info.num_kv_heads,
        f"{name}.vocab_size": info.vocabulary_size,
        "tokenizer.ggml.model": info.tokenizer,
    }
    return {key: value for key, value in found.items() if value is not None}


def _projector_info(companion: Companion) -> dict[str, Any] | msgspec.UnsetType:
    """The projector's GGUF keys known here."""
    if companion.projector is None:
        return msgspec.UNSET
    info, found = companion.projector.info, dict[str, Any]()
    if info.vision is not None:
        found["clip.vision.projector_type"] = info.vision.type
        found["clip.vision.image_size"] = info.vision.image_size
        found["clip.vision.patch_size"] = info.vision.patch_size
    if info.audio is not None:
        found["clip.audio.projector_type"] = info.audio.type
    return {
        "general.architecture": "clip",
        "general.parameter_count": info.num_parameters,
        "clip.has_vision_encoder": info.vision is not None,
        "clip.has_audio_encoder": info.audio is not None,
        **found,
    }
