"""What becomes of models: on this machine, being pulled, loaded. Plain frozen data, as in `types`."""

from __future__ import annotations

from typing import Literal

import msgspec

from localllm.types import LoadedModel

ModelPhase = Literal["loading", "ready", "restarting", "unloading"]


class RunningModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model that has a process or is getting one, as `ps` shows it."""

    id: str
    phase: ModelPhase
    memory_bytes: int
    """Main memory set aside for it: weights, KV cache, buffers; an estimate."""
    num_requests: int
    """That are running or waiting."""
    idle_s: float
    """Since its last request ended; 0 while it has one."""
    expires_in_s: float | None
    """Until it is unloaded if nobody asks; None: it stays."""
    pid: int | None
    loaded: LoadedModel | None


class AvailableModel(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A model on this machine, loaded or not, as far as its manifest tells."""

    id: str
    size_bytes: int
    created_unix_s: int
    """When it got its name here."""
    quant: str | None = None
    license: str | None = None
    source: str | None = None


class PullState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How far a pull is."""

    phase: Literal["looking", "downloading", "checking", "done"]
    id: str
    done_bytes: int = 0
    total_bytes: int | None = None
    """None: not known yet."""
    bytes_per_s: float | None = None
    quant: str | None = None
    license: str | None = None
    why: str | None = None
    """Why this quantization, if nobody asked for one."""
    notices: tuple[str, ...] = ()
