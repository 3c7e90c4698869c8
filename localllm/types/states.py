"""States of models: installed, being pulled, loaded, working. Plain frozen data, as in `types`."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from localllm.types import LoadedModel, Message, SourceName

ModelPhase = Literal["loading", "ready", "restarting", "unloading"]


class RunningModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model with a process, or about to get one, as `ps` shows it."""

    id: str
    phase: ModelPhase
    memory_bytes: int
    """Estimated main memory reserved for it: weights, KV cache, buffers."""
    num_requests: int
    """Running or waiting requests."""
    num_batch: int = 0
    """How many of them are of the batch class."""
    idle_s: float
    """Time since its last request ended; 0 while it has one."""
    expires_in_s: float | None
    """Time until it is unloaded if it stays unused; None: it stays."""
    pid: int | None
    loaded: LoadedModel | None
    device_bytes: dict[str, int] = {}
    """Estimated memory reserved for it on each GPU."""
    media_bytes: int = 0
    """How much of both is reserved for its encoder of pictures and sounds, which takes it with the first one."""
    adapter_bytes: int = 0
    """How much of both the LoRA adapters take that requests named so far, within the limit for them."""


class ModelEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An event in the life of a loaded model.

    The order is loading (repeatedly, with `fraction`), ready; crashed (with `reason`), restarted, loading, ready ...
    """

    kind: Literal["loading", "ready", "crashed", "restarted"]
    """`crashed`: its process ended, or could not be restarted; `restarted`: a new process was started."""
    model: str
    fraction: float = 0.0
    """Loading progress, from 0 to 1."""
    reason: str | None = None
    """Why it crashed: a sentence."""


class BatchWork(msgspec.Struct, frozen=True):
    """What a server does and did of the batches that clients made, of all keys together."""

    running: int
    """Batches under way in this process."""
    answered: int
    """Lines since it started, as the next two."""
    failed: int
    unsent: int
    """Not sent before their batch was cancelled or expired."""


class AvailableModel(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A model on this machine, loaded or not, as described by its manifest."""

    id: str
    size_bytes: int
    created_unix_s: int
    """When it got its name on this machine."""
    quant: str | None = None
    license: str | None = None
    source: str | None = None
    problem: str | None = None
    """Why it cannot be used, with the remedy."""
    base: str | None = None
    """The id of the model that it is under adapters, or of the first that a route leads to; None: a model of its own.
    """
    route: tuple[str, ...] = ()
    """Of a route: the models that it asks, in this order."""


class PullState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Progress of a pull."""

    phase: Literal["queued", "looking", "downloading", "checking", "done"]
    id: str
    done_bytes: int = 0
    total_bytes: int | None = None
    """None: not known yet."""
    bytes_per_s: float | None = None
    quant: str | None = None
    license: str | None = None
    why: str | None = None
    """Why this quantization was chosen, if none was requested."""
    notices: tuple[str, ...] = ()
    waiting_for: str | None = None
    """The host that currently sends nothing."""
    waiting_s: float = 0.0
    """How long it has sent nothing."""
    waiting_why: str | None = None
    """The error, if there was one while querying the source."""


class PushState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Progress of a push."""

    phase: Literal["uploading", "manifest", "done"]
    id: str
    digest: str = ""
    """Digest of the content being sent."""
    done_bytes: int = 0
    total_bytes: int = 0
    waiting_for: str | None = None
    """The host that currently accepts nothing."""
    waiting_s: float = 0.0
    """How long it has accepted nothing."""
    waiting_why: str | None = None
    """The error, if there was one."""


class NewModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model that a client wants created, from one on this machine or from uploaded files."""

    name: str
    base: str | None = None
    """The id of a model on this machine."""
    files: dict[str, str] = {}
    """A GGUF file's name -> the digest under which it was uploaded; may include shards and a projector."""
    modelfile: str | None = None
    """A Modelfile, in place of all other fields; `base`, if given, replaces its FROM."""
    template: str | None = None
    system: str | None = None
    license_text: tuple[str, ...] = ()
    parameters: dict[str, Any] = {}
    """Named as in Modelfiles."""
    messages: tuple[Message, ...] = ()
    quantize: str | None = None
    """Type to convert the tensors to."""
    adapters: dict[str, str] = {}
    """The name of an adapter's file -> the digest under which it was uploaded; the base is then under it."""


class MakeState(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of creating a model."""

    phase: Literal["reading", "quantizing", "using", "writing"]
    """`using`: the file with this digest belongs to the model."""
    digest: str = ""
    is_new: bool = False
    """For a file: whether it was just created."""
    source_type: str = ""
    """Type before quantizing."""
    type: str = ""
    """Type after quantizing."""
    done_bytes: int = 0
    total_bytes: int = 0


class SlotStatus(msgspec.Struct, frozen=True):
    """Snapshot of one slot, in tokens."""

    request: int | None
    """The engine's number of its request; None: it is free."""
    num_held: int
    """Tokens in its KV cache; a free slot keeps what its last request left."""
    num_prompt: int = 0
    num_cached: int = 0
    num_computed: int = 0
    num_generated: int = 0


class SlotTransfer(msgspec.Struct, frozen=True):
    """Result of saving or restoring a slot."""

    num_tokens: int
    size_bytes: int
    """Size of the file."""
    seconds: float


class SourceGuesses(msgspec.Struct, frozen=True):
    """Results of one source's guesses since the model was loaded."""

    source: SourceName
    num_computed: int = 0
    """Guessed tokens that were computed."""
    num_right: int = 0
    """How many of them were right."""


class Preemptions(msgspec.Struct, frozen=True):
    """Requests that gave their slot to a more urgent one, since the model was loaded."""

    total: int = 0
    recomputed: int = 0
    """How many of them are computed again, because main memory had no room for their state."""


class MediaStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What a model's encoder of pictures and sounds has done since the model was loaded. Also in replies to clients."""

    pictures: int = 0
    """Encoded pictures, including frames of videos."""
    sounds: int = 0
    """Encoded sounds, including parts of long ones."""
    encoded_rows: int = 0
    """Rows that were encoded: one for each token of a picture or sound."""
    memory_rows: int = 0
    """Rows that requests got from memory, where they were kept."""
    disk_rows: int = 0
    """Rows that requests got from disk."""
    encode_s: float = 0.0
    """Time spent encoding."""
    restarts: int = 0
    """How often a new encoder process replaced one that had ended unasked."""
    cache_bytes: int = 0
    """Size of the rows that are kept in memory."""
    is_running: bool = False
    """Whether the encoder has a process, which holds the projector."""


class AdapterStatus(msgspec.Struct, frozen=True, kw_only=True):
    """LoRA adapters in a model's process since the model was loaded. Also in replies to clients."""

    loaded: int = 0
    """Adapters in memory."""
    loaded_bytes: int = 0
    """Size of their tensors."""
    limit_bytes: int = 0
    """How much of that stays, at most."""
    switches: int = 0
    """How often another set of adapters was put in force."""
    loads: int = 0
    """How often an adapter was read from its file."""
    evictions: int = 0
    """How often one was freed for others."""


class EngineStatus(msgspec.Struct, frozen=True):
    """Snapshot of a model's engine between two steps."""

    slots: tuple[SlotStatus, ...]
    num_waiting: int
    num_steps: int
    """Steps since it was loaded."""
    host_cache_bytes: int
    """Main memory used by idle conversations and checkpoints."""
    host_cache_entries: int
    num_threads: int = 0
    """Threads of the last step; 0: unknown."""
    guesses: tuple[SourceGuesses, ...] = ()
    num_parked: int = 0
    """Requests that gave their slot to a more urgent one and go on when a slot is free; not counted as waiting."""
    preemptions: Preemptions = Preemptions()
    media: MediaStatus | None = None
    """None: the model reads only text."""
    adapters: AdapterStatus | None = None
    """None: no request was computed under adapters."""

    @property
    def num_without_slot(self) -> int:
        """Requests that need a slot: those that wait for their first one, and parked ones."""
        return self.num_waiting + self.num_parked

    @property
    def num_running(self) -> int:
        """Requests with a slot."""
        return sum(slot.request is not None for slot in self.slots)

    @property
    def num_held(self) -> int:
        """Tokens in the KV cache, including those of free slots."""
        return sum(slot.num_held for slot in self.slots)

    @property
    def num_busy(self) -> int:
        """Tokens in the KV cache that running requests hold; the others make room when it is needed."""
        return sum(slot.num_held for slot in self.slots if slot.request is not None)

    def busy_share(self, model: LoadedModel) -> float:
        """Share of the KV cache that running requests hold, from 0 to 1; 0 for an encoder, which has none."""
        return self.num_busy / (model.slots * model.ctx) if model.slots else 0.0
