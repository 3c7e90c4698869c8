"""The bodies of our own endpoints, as the server writes and the client reads them: `/localllm/*`, `/ready`, errors.

Never contains file locations on the server.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from localllm.types.states import AvailableModel, ModelPhase, PullState


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request that only names a model."""

    model: str


class LoadRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /localllm/load`."""

    model: str
    ctx: int | None = None
    """Tokens each slot holds; null: the server's setting, else the model's."""
    slots: int | None = None
    keep_alive: float | str | None = None
    """How long it stays without requests: seconds, or `5m`; negative: forever; null: the server's setting, or unchanged
    if it is already loaded."""
    stream: bool | None = None
    """Send progress events, unless false."""


class RemoveRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /localllm/remove`."""

    model: str
    dry_run: bool = False
    """Only say what would go."""


class SearchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /localllm/search`."""

    query: str
    limit: int = 20
    """Of Hugging Face's repositories, at most 100."""


class SettingsRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /localllm/settings`."""

    model: str
    settings: dict[str, Any] = {}
    """Name -> value, or as it would be typed; null: what holds for all models. Nothing: they are only shown."""


class PullRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /localllm/pull`."""

    model: str
    stream: bool | None = None
    """Send progress events, unless false."""


class Process(msgspec.Struct, frozen=True, kw_only=True):
    """A model that has a process or waits for room."""

    model: str
    status: ModelPhase
    memory_bytes: int
    """Main memory reserved for it: an estimate."""
    requests: int
    """Running or waiting requests."""
    idle_s: float
    expires_in_s: float | None
    """Time until it is unloaded if it stays unused; null: it stays."""
    pid: int | None
    ctx: int | None
    slots: int | None
    layers_per_device: dict[str, int] | None
    device_bytes: dict[str, int] | msgspec.UnsetType = msgspec.UNSET
    """Memory of each GPU reserved for it, if any: an estimate."""
    placement_note: str | msgspec.UnsetType = msgspec.UNSET
    """Why it has fewer layers on GPUs than without other models, if so."""
    settings: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    """What is set for this model alone, if anything."""
    tuned: str | msgspec.UnsetType = msgspec.UNSET
    """The fastest settings found for it that are in use, or why they are not."""


class Processes(msgspec.Struct, frozen=True):
    """`GET /localllm/ps`."""

    models: list[Process]


class Models(msgspec.Struct, frozen=True):
    """`GET /localllm/models`."""

    models: list[AvailableModel]


class LoadEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of a load; the last event says `ready`."""

    status: Literal["loading", "ready"]
    model: str
    fraction: float
    """From 0 to 1."""


class PullEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of a pull; the last event says `success` and describes the model."""

    status: Literal["pulling", "success"]
    progress: PullState | msgspec.UnsetType = msgspec.UNSET
    model: AvailableModel | msgspec.UnsetType = msgspec.UNSET


class Unloaded(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /localllm/unload`."""

    model: str
    status: Literal["unloaded"] = "unloaded"


class KvSaved(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /localllm/kv/save`."""

    model: str
    conversations: int
    """Conversations that were not on the disk yet."""


class Removed(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /localllm/remove`."""

    model: str
    freed_bytes: int | None = None
    """What the disk has for this model alone; null: not known, as its manifest is damaged."""
    status: Literal["removed", "would be removed"] = "removed"


class CatalogModel(msgspec.Struct, frozen=True, kw_only=True):
    """A well-known model that can be pulled by its name."""

    id: str
    kind: str
    repo: str
    quant: str
    size_bytes: int
    """Approximate size of the file in `quant`."""
    num_parameters: int
    context_length: int
    license: str
    description: str
    fits: bool | None
    """Whether it fits into this machine's memory, approximately; null: unknown."""


class CatalogModels(msgspec.Struct, frozen=True):
    """`GET /localllm/catalog`."""

    models: list[CatalogModel]


class HubModel(msgspec.Struct, frozen=True, kw_only=True):
    """A repository with GGUF files."""

    id: str
    """That names it to a pull."""
    downloads: int
    """In the last 30 days."""
    likes: int
    license: str | None
    updated: str | None
    """RFC 3339."""
    gated: bool
    """It wants an account that has accepted its terms."""


class SearchResult(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /localllm/search`."""

    catalog: list[CatalogModel]
    hub: list[HubModel]
    """The most downloaded first."""
    hub_problem: str | None
    """Why Hugging Face was not searched; null: it was, or there were no words."""


class PredictedSpeed(msgspec.Struct, frozen=True, kw_only=True):
    """Of one answer at a time."""

    answer_tokens_per_s: float
    prompt_tokens_per_s: float
    error: float
    """How far off either may be: a share of it."""


class FittingOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a model fits that does not as it would be loaded."""

    ctx: int
    slots: int
    kv_type: str
    need_bytes: int


class ModelFit(msgspec.Struct, frozen=True, kw_only=True):
    """What a model needs here, as it would be loaded."""

    fits: bool
    need_bytes: int
    layers: int
    """The output head counts as one."""
    gpu_layers: int
    """Of them on GPUs."""
    ctx: int
    """Tokens that each slot holds."""
    slots: int
    kv_type: str
    largest_ctx: int | None
    """That fits with as many slots; null: none, or the model writes no text."""
    alternatives: list[FittingOptions]
    """Where it does not fit."""


class OfferedModel(msgspec.Struct, frozen=True, kw_only=True):
    """One quantization of a model that can be pulled."""

    name: str
    """That names it to a pull."""
    quant: str | None
    size_bytes: int
    """To download."""
    files: int
    license: str | None
    chosen: bool
    """It is what a pull takes that names no quantization."""
    why: str | None
    """Why that one is."""
    fit: ModelFit | None
    problem: str | None
    """Why there is no `fit`."""
    speed: PredictedSpeed | None
    no_speed: str | None
    """Why there is no `speed`."""


class OfferedModels(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /localllm/offers`."""

    model: str
    free_bytes: int | None
    """Of main memory."""
    devices_problem: str | None
    """Why it is planned for the CPU, where no device could be asked."""
    models: list[OfferedModel]


class ModelSetting(msgspec.Struct, frozen=True, kw_only=True):
    """One setting of one model."""

    key: str
    kind: Literal["boolean", "integer", "number", "text", "list", "choice"]
    choices: list[str]
    value: Any
    """Null: the model's file decides, or nothing does."""
    default: Any
    """What holds where nothing is set for this model alone."""
    source: str
    own: bool
    """It is set for this model alone."""
    loading: bool
    """It says how the model is loaded, rather than how it answers."""
    fixed: str | None
    """Why it cannot be changed over HTTP."""


class ModelSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /localllm/settings`."""

    model: str
    settings: list[ModelSetting]
    needs_reload: bool
    """The model is loaded, and what was changed now holds from its next load on."""


class TokenTotals(msgspec.Struct, frozen=True, kw_only=True):
    """Over all models since the server was started; running requests count as far as they are."""

    prompt_tokens: int
    """Tokens that were computed."""
    cached_tokens: int
    completion_tokens: int


class SlotActivity(msgspec.Struct, frozen=True, kw_only=True):
    """What a slot holds."""

    tokens: int
    busy: bool


class ModelActivity(msgspec.Struct, frozen=True, kw_only=True):
    """What a model is doing."""

    model: str
    status: ModelPhase
    running: int
    waiting: int
    memory_bytes: int
    ctx: int
    """Tokens that each slot can hold."""
    slots: list[SlotActivity]


class Activity(msgspec.Struct, frozen=True, kw_only=True):
    """One event of `GET /localllm/watch`."""

    time_s: float
    """Unix time."""
    totals: TokenTotals
    models: list[ModelActivity]


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """`GET /localllm/doctor`."""

    works: bool
    """A model can be loaded here."""
    text: str
    """As `localllm doctor` prints it."""


class Ready(msgspec.Struct, frozen=True):
    """`GET /ready`."""

    models: list[str]
    status: str = "ready"


class ErrorObject(msgspec.Struct, frozen=True):
    """OpenAI's error; `param` is the JSON path of the field at fault."""

    message: str
    type: str = ""
    code: str = "internal"
    param: str | None = None


class ErrorBody(msgspec.Struct, frozen=True):
    """Body of a failed response, and end of a failed stream."""

    error: ErrorObject
