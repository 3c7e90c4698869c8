"""What becomes of models: on this machine, being pulled, loaded, at work. Plain frozen data, as in `types`."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from localllm.types import LoadedModel, Message, SourceName

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
    device_bytes: dict[str, int] = {}
    """Memory of each GPU set aside for it, likewise."""


class ModelEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that happened to a loaded model.

    loading (again and again, with `fraction`), ready; crashed (with `reason`), restarted, loading, ready ...
    """

    kind: Literal["loading", "ready", "crashed", "restarted"]
    """`crashed`: its process ended, or did not load again; `restarted`: another one was started in its place."""
    model: str
    fraction: float = 0.0
    """That is loaded, from 0 to 1."""
    reason: str | None = None
    """Why it crashed: a sentence."""


class AvailableModel(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A model on this machine, loaded or not, as far as its manifest tells."""

    id: str
    size_bytes: int
    created_unix_s: int
    """When it got its name here."""
    quant: str | None = None
    license: str | None = None
    source: str | None = None
    problem: str | None = None
    """Why it cannot be used, with the remedy."""


class PullState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How far a pull is."""

    phase: Literal["queued", "looking", "downloading", "checking", "done"]
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
    waiting_for: str | None = None
    """The host from which nothing comes just now."""
    waiting_s: float = 0.0
    """For how long."""


class PushState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How far a push is."""

    phase: Literal["uploading", "manifest", "done"]
    id: str
    digest: str = ""
    """Of the content that is being sent."""
    done_bytes: int = 0
    total_bytes: int = 0


class NewModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model that somebody on the network wants made, of one that is here or of files that were uploaded."""

    name: str
    base: str | None = None
    """The id of a model on this machine."""
    files: dict[str, str] = {}
    """A GGUF file's name -> the digest under which it was uploaded; shards and a projector among them."""
    modelfile: str | None = None
    """Says all of this instead."""
    template: str | None = None
    system: str | None = None
    license_text: tuple[str, ...] = ()
    parameters: dict[str, Any] = {}
    """As Modelfiles name them."""
    messages: tuple[Message, ...] = ()
    quantize: str | None = None
    """Into which type the tensors are to be converted."""


class MakeState(msgspec.Struct, frozen=True, kw_only=True):
    """How far the making of a model is."""

    phase: Literal["reading", "quantizing", "using", "writing"]
    """`using`: the file of this digest is one of its files."""
    digest: str = ""
    is_new: bool = False
    """Of a file: it was made just now."""
    source_type: str = ""
    """Of what is being quantized."""
    type: str = ""
    """What it is being quantized to."""
    done_bytes: int = 0
    total_bytes: int = 0


class SlotStatus(msgspec.Struct, frozen=True):
    """One slot at one moment, in tokens."""

    request: int | None
    """The request that it computes, as the engine numbers them; None: it is free."""
    num_held: int
    """In its KV cache; a free slot keeps what its last request left."""
    num_prompt: int = 0
    num_cached: int = 0
    num_computed: int = 0
    num_generated: int = 0


class SlotTransfer(msgspec.Struct, frozen=True):
    """What was saved of a slot, or restored into one."""

    num_tokens: int
    size_bytes: int
    """Of the file."""
    seconds: float


class SourceGuesses(msgspec.Struct, frozen=True):
    """What came of the guesses of one source since the model was loaded."""

    source: SourceName
    num_computed: int = 0
    """Tokens that were computed before it was their turn."""
    num_right: int = 0
    """Those of them that came."""


class EngineStatus(msgspec.Struct, frozen=True):
    """A model's engine at one moment, between two steps."""

    slots: tuple[SlotStatus, ...]
    num_waiting: int
    num_steps: int
    """Since it was loaded."""
    host_cache_bytes: int
    """Main memory that idle conversations and checkpoints occupy."""
    host_cache_entries: int
    num_threads: int = 0
    """That computed the last step; 0: not known."""
    guesses: tuple[SourceGuesses, ...] = ()
