"""The bodies of our own endpoints, as the server writes and the client reads them: `/localllm/*`, `/ready`, errors.

Where files lie on the server is in none of them.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from localllm.types.states import AvailableModel, ModelPhase, PullState


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What names a model and no more."""

    model: str


class LoadRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /localllm/load`."""

    model: str
    ctx: int | None = None
    """Tokens each slot holds; null: the server's setting, else the model's."""
    slots: int | None = None
    keep_alive: float | str | None = None
    """How long it stays without requests: seconds, or `5m`; negative: for ever; null: the server's setting, or as it is
    if it is loaded already."""
    stream: bool | None = None
    """Events of how far it is, unless false."""


class PullRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /localllm/pull`."""

    model: str
    stream: bool | None = None
    """Events of how far it is, unless false."""


class Process(msgspec.Struct, frozen=True, kw_only=True):
    """A model that has a process or waits for room."""

    model: str
    status: ModelPhase
    memory_bytes: int
    """Main memory set aside for it: an estimate."""
    requests: int
    """That run or wait."""
    idle_s: float
    expires_in_s: float | None
    """Until it is unloaded if nobody asks; null: it stays."""
    pid: int | None
    ctx: int | None
    slots: int | None
    layers_per_device: dict[str, int] | None
    device_bytes: dict[str, int] | msgspec.UnsetType = msgspec.UNSET
    """Memory of each GPU set aside for it, if any: an estimate."""
    placement_note: str | msgspec.UnsetType = msgspec.UNSET
    """Why it has fewer layers on GPUs than it would have alone, if it has."""
    settings: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    """What is set for this model alone, if anything."""
    tuned: str | msgspec.UnsetType = msgspec.UNSET
    """What was found to be fastest for it here and is used, or why that is not."""


class Processes(msgspec.Struct, frozen=True):
    """`GET /localllm/ps`."""

    models: list[Process]


class Models(msgspec.Struct, frozen=True):
    """`GET /localllm/models`."""

    models: list[AvailableModel]


class LoadEvent(msgspec.Struct, frozen=True, kw_only=True):
    """How far a load is; the last says `ready`."""

    status: Literal["loading", "ready"]
    model: str
    fraction: float
    """From 0 to 1."""


class PullEvent(msgspec.Struct, frozen=True, kw_only=True):
    """How far a pull is; the last says `success` and what is here now."""

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
    """That were not on the disk yet."""


class Removed(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /localllm/remove`."""

    model: str
    status: Literal["removed"] = "removed"


class CatalogModel(msgspec.Struct, frozen=True, kw_only=True):
    """A well-known model that can be pulled by its name."""

    id: str
    kind: str
    repo: str
    quant: str
    size_bytes: int
    """About, of the file in `quant`."""
    num_parameters: int
    context_length: int
    license: str
    description: str
    fits: bool | None
    """Into this machine's memory, about; null: not known."""


class CatalogModels(msgspec.Struct, frozen=True):
    """`GET /localllm/catalog`."""

    models: list[CatalogModel]


class TokenTotals(msgspec.Struct, frozen=True, kw_only=True):
    """Since the server was started, of all models; what runs is counted as far as it is."""

    prompt_tokens: int
    """That were computed."""
    cached_tokens: int
    completion_tokens: int


class SlotActivity(msgspec.Struct, frozen=True, kw_only=True):
    """What a slot holds."""

    tokens: int
    busy: bool


class ModelActivity(msgspec.Struct, frozen=True, kw_only=True):
    """What a model does."""

    model: str
    status: ModelPhase
    running: int
    waiting: int
    memory_bytes: int
    ctx: int
    """Tokens that each slot can hold."""
    slots: list[SlotActivity]


class Activity(msgspec.Struct, frozen=True, kw_only=True):
    """`GET /localllm/watch`: one of its events."""

    time_s: float
    """Unix time."""
    totals: TokenTotals
    models: list[ModelActivity]


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
    """What a failed response holds, and what a failed stream ends with."""

    error: ErrorObject
