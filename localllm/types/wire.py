"""Bodies of localllm's own endpoints, for server and client: `/localllm/*`, `/ready`, errors.

They never contain paths on the server.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from localllm.types.states import AdapterStatus, AvailableModel, BatchWork, MediaStatus, ModelPhase, PullState


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
    """How long it stays loaded without requests: seconds, or `5m`; negative: forever; null: the server's setting, or
    unchanged if it is already loaded."""
    stream: bool | None = None
    """Send progress events, unless false."""


class RemoveRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /localllm/remove`."""

    model: str
    dry_run: bool = False
    """Only report what would be deleted."""


class SearchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /localllm/search`."""

    query: str
    limit: int = 20
    """Maximum number of Hugging Face repositories, at most 100."""


class SettingsRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /localllm/settings`."""

    model: str
    settings: dict[str, Any] = {}
    """Name -> value, as JSON or as typed on the command line; null: reset to the default. Empty: only show settings."""


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
    """Estimated main memory reserved for it."""
    requests: int
    """Running or waiting requests, including parked ones."""
    batch_requests: int | msgspec.UnsetType = msgspec.UNSET
    """How many of them are of the batch class, if any."""
    idle_s: float
    expires_in_s: float | None
    """Time until it is unloaded if it stays unused; null: it stays."""
    pid: int | None
    ctx: int | None
    slots: int | None
    layers_per_device: dict[str, int] | None
    parked: int | msgspec.UnsetType = msgspec.UNSET
    """Requests that gave their slots to more urgent ones and will go on, if any."""
    cpu_experts: int | msgspec.UnsetType = msgspec.UNSET
    """Number of layers on devices whose experts are in main memory, if any."""
    device_bytes: dict[str, int] | msgspec.UnsetType = msgspec.UNSET
    """Estimated memory reserved for it on each GPU, if any."""
    media_bytes: int | msgspec.UnsetType = msgspec.UNSET
    """How much of that memory is reserved for its encoder of pictures and sounds, if it has one."""
    media: MediaStatus | msgspec.UnsetType = msgspec.UNSET
    """What that encoder has done; unset also while the model does not respond."""
    adapter_bytes: int | msgspec.UnsetType = msgspec.UNSET
    """How much of that memory LoRA adapters take, if requests have named any."""
    adapters: AdapterStatus | msgspec.UnsetType = msgspec.UNSET
    """Those in its process; unset also while the model does not respond."""
    reads: list[str] | msgspec.UnsetType = msgspec.UNSET
    """What it reads beside text, if anything: `image`, `audio`."""
    placement_note: str | msgspec.UnsetType = msgspec.UNSET
    """Why fewer of its layers are on GPUs than without other models, if so."""
    settings: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    """Settings of this model alone, if any."""
    tuned: str | msgspec.UnsetType = msgspec.UNSET
    """The fastest settings found for it that are in use, or why they are not."""


class Processes(msgspec.Struct, frozen=True):
    """`GET /localllm/ps`."""

    models: list[Process]
    batches: BatchWork | msgspec.UnsetType = msgspec.UNSET
    """Present once there was a batch."""


class Models(msgspec.Struct, frozen=True):
    """`GET /localllm/models`."""

    models: list[AvailableModel]
    max_media_bytes: int | msgspec.UnsetType = msgspec.UNSET
    """The server's limits for one picture or sound, for all of a request, and for the pixels of a picture."""
    max_request_media_bytes: int | msgspec.UnsetType = msgspec.UNSET
    max_megapixels: float | msgspec.UnsetType = msgspec.UNSET


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
    """Disk space used by this model alone; null: unknown, because its manifest is damaged."""
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
    """The name to pull it by."""
    downloads: int
    """In the last 30 days."""
    likes: int
    license: str | None
    updated: str | None
    """RFC 3339."""
    gated: bool
    """Whether it requires an account that has accepted its terms."""


class SearchResult(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /localllm/search`."""

    catalog: list[CatalogModel]
    hub: list[HubModel]
    """The most downloaded first."""
    hub_problem: str | None
    """Why Hugging Face was not searched; null: it was, or there were no words."""


class PredictedSpeed(msgspec.Struct, frozen=True, kw_only=True):
    """Speed of one answer at a time."""

    answer_tokens_per_s: float
    prompt_tokens_per_s: float
    error: float
    """Relative error that either may have."""


class FittingOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options with which a model fits that does not fit as it would be loaded."""

    ctx: int
    slots: int
    kv_type: str
    need_bytes: int


class ModelFit(msgspec.Struct, frozen=True, kw_only=True):
    """Memory that a model needs on this machine, as it would be loaded."""

    fits: bool
    need_bytes: int
    layers: int
    """Includes the output head."""
    gpu_layers: int
    """Layers on GPUs."""
    ctx: int
    """Tokens that each slot holds."""
    slots: int
    kv_type: str
    largest_ctx: int | None
    """Largest context that fits with as many slots; null: none fits, or the model writes no text."""
    cpu_experts: int
    """Layers on GPUs whose experts stay in main memory."""
    per_gb: float | None
    """Layers, or with `cpu_experts` layers' experts, that a further GB on a GPU would hold; null: all is on GPUs, or
    no GPU is in use."""
    alternatives: list[FittingOptions]
    """Empty if it fits."""


class OfferedModel(msgspec.Struct, frozen=True, kw_only=True):
    """One quantization of a model that can be pulled."""

    name: str
    """The name to pull it by."""
    quant: str | None
    size_bytes: int
    """Size of the download."""
    files: int
    license: str | None
    chosen: bool
    """Whether a pull without a quantization chooses it."""
    why: str | None
    """Why it is chosen."""
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
    """Free main memory."""
    devices_problem: str | None
    """Why the plan uses the CPU only, if the devices could not be queried."""
    models: list[OfferedModel]


class ModelSetting(msgspec.Struct, frozen=True, kw_only=True):
    """One setting of one model."""

    key: str
    text: str
    """What it is, in one line."""
    kind: Literal["boolean", "integer", "number", "text", "list", "choice"]
    choices: list[str]
    minimum: float | None
    maximum: float | None
    value: Any
    """Null: not set; the model's file may decide."""
    default: Any
    """The value if nothing is set for this model alone."""
    source: str
    own: bool
    """Whether it is set for this model alone."""
    loading: bool
    """Whether it affects loading rather than answers."""
    fixed: str | None
    """Why it cannot be changed over HTTP."""


class ModelSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /localllm/settings`."""

    model: str
    settings: list[ModelSetting]
    needs_reload: bool
    """Whether the model is loaded, so that a change takes effect at its next load."""


class TokenTotals(msgspec.Struct, frozen=True, kw_only=True):
    """Totals over all models since the server was started, including running requests so far."""

    prompt_tokens: int
    """Computed tokens, without cached ones."""
    cached_tokens: int
    completion_tokens: int


class SlotActivity(msgspec.Struct, frozen=True, kw_only=True):
    """Content of one slot."""

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
    """Whether a model can be loaded on this machine."""
    text: str
    """As `localllm doctor` prints it."""


class Ready(msgspec.Struct, frozen=True):
    """`GET /ready`."""

    models: list[str]
    """The loaded ones; none are named if the Host header is not a name of this server."""
    status: str = "ready"


class KeptBlob(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /localllm/blobs`."""

    url: str
    """How requests refer to the file, wherever base64 or an address may stand."""
    size_bytes: int


class ErrorObject(msgspec.Struct, frozen=True):
    """An error in OpenAI's format; `param` is the JSON path of the field at fault."""

    message: str
    type: str = ""
    code: str = "internal"
    param: str | None = None


class ErrorBody(msgspec.Struct, frozen=True):
    """Body of a failed response, and last event of a failed stream."""

    error: ErrorObject
