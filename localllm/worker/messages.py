"""The messages between parent and worker: tagged msgpack structs; `framing.py` puts them on a pipe.

Down (parent to worker): Load, Submit, File, Embed, Cancel, Call, Ping, Shutdown. Up (worker to parent): Hello, Loading,
Ready, NeedFiles, Accepted, Rejected, Deltas, Tokenized, Vectors, Reply, Pong, Failed.
"""

from __future__ import annotations

from typing import Any

import msgspec

from localllm.errors import ErrorInfo
from localllm.types import (
    Beginning,
    CacheReport,
    Delta,
    DeviceInfo,
    GenerationRequest,
    LoadedModel,
    Making,
    ModelDefaults,
    ModelInfo,
)
from localllm.types.embeddings import EmbeddingRequest, RerankRequest
from localllm.types.load_options import LoadOptions
from localllm.types.placement import DraftLoad, Placement, ProjectorLoad


class _Frame(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Positional on the wire: parent and worker always have the same version."""


class Load(_Frame, frozen=True, tag=True, array_like=True):
    """Load this model now."""

    model_id: str
    path: str
    info: ModelInfo
    options: LoadOptions
    placement: Placement
    defaults: ModelDefaults = ModelDefaults()
    tuned: str = ""
    """Description of the model's tuning."""
    tuned_settings: tuple[str, ...] = ()
    """Fields of the options that the tuning set."""
    draft: DraftLoad | None = None
    no_draft: str = ""
    """Why there is no draft model, although one was requested."""
    projector: ProjectorLoad | None = None
    """None: the model reads text only."""
    no_media: str = ""
    """As `LoadedModel.no_media`."""


class Submit(_Frame, frozen=True, tag=True, array_like=True):
    """Answer this request; `Accepted` or `Rejected` follows, then `Deltas`. Without the bytes of its `media`, for which
    the worker asks with `NeedFiles` where it does not know them."""

    id: int
    request: GenerationRequest


class File(_Frame, frozen=True, tag=True, array_like=True):
    """A picture or sound, after `NeedFiles`."""

    digest: str
    data: bytes


class Embed(_Frame, frozen=True, tag=True, array_like=True):
    """Turn these texts into vectors, or score them; `Tokenized` or `Rejected` follows, then `Vectors`."""

    id: int
    embedding: EmbeddingRequest | None
    ranking: RerankRequest | None


class Cancel(_Frame, frozen=True, tag=True, array_like=True):
    """Stop answering; a last delta with finish `cancelled` follows unless the request had ended."""

    id: int


SLOT_METHODS = frozenset({"save_slot", "restore_slot", "erase_slot", "keep"})
"""Methods of `Call` that may wait for the disk."""


class Call(_Frame, frozen=True, tag=True, array_like=True):
    """Ask a short question.

    `tokenize` (text, add_special, parse_special) -> ids; `pieces` (ids, special) -> the bytes of each; `render`
    (messages, rendering) -> the prompt's text; `count` (messages, rendering, most bytes) -> its number of tokens;
    `cut` (sound) -> `SoundCuts`;
    `status` () -> `EngineStatus`; `save_slot` (slot, name) and `restore_slot` (slot, name) -> `SlotTransfer`;
    `erase_slot` (slot) -> how many tokens it held.
    """

    id: int
    method: str
    args: tuple[Any, ...]


class Ping(_Frame, frozen=True, tag=True, array_like=True):
    """Answered with `Pong` by the thread that reads frames, whatever the other threads do."""

    number: int


class Shutdown(_Frame, frozen=True, tag=True, array_like=True):
    """Finish nothing, free the model, exit 0."""


Down = Load | Submit | File | Embed | Cancel | Call | Ping | Shutdown


class Hello(_Frame, frozen=True, tag=True, array_like=True):
    """The library is loaded; the parent plans from this."""

    pid: int
    library: str
    backend: str
    devices: tuple[DeviceInfo, ...]
    fingerprint: str = ""
    """Digest of the library's files."""
    absent: tuple[str, ...] = ()
    """Why device backends of the library do not load here, one sentence each."""


class Loading(_Frame, frozen=True, tag=True, array_like=True):
    """Load progress, 0 to 1."""

    fraction: float


class Ready(_Frame, frozen=True, tag=True, array_like=True):
    """The model can answer."""

    model: LoadedModel


class NeedFiles(_Frame, frozen=True, tag=True, array_like=True):
    """The bytes of these pictures and sounds of a request or call are needed; a `File` for each follows."""

    id: int
    digests: tuple[str, ...]


class Accepted(_Frame, frozen=True, tag=True, array_like=True):
    """The request is valid and waits for a slot."""

    id: int
    num_prompt_tokens: int
    notes: tuple[str, ...] = ()
    """How messages were changed for the model's template, and what of a tool's schema is not enforced."""
    beginning: Beginning = "text"
    cache: CacheReport | None = None
    """Set if the request asked for it."""
    making: Making | None = None
    """Set if the request asked for it."""


class Rejected(_Frame, frozen=True, tag=True, array_like=True):
    """The request was rejected, or failed later."""

    id: int
    error: ErrorInfo


class Deltas(_Frame, frozen=True, tag=True, array_like=True):
    """All that one step produced, for every slot: (request id, delta)."""

    step: int
    items: tuple[tuple[int, Delta], ...]


class Tokenized(_Frame, frozen=True, tag=True, array_like=True):
    """The texts of an `Embed` are valid and wait for their turn; the shape of the result is known."""

    id: int
    dimensions: int
    num_vectors: tuple[int, ...]
    """For each text."""
    num_tokens: tuple[int, ...]
    truncated: tuple[int, ...]
    image_tokens: int = 0
    """How many of all tokens are rows of pictures, and of sounds."""
    audio_tokens: int = 0


class Vectors(_Frame, frozen=True, tag=True, array_like=True):
    """Some texts of an `Embed`, in any order, so that a result of any size need not fit into one frame."""

    id: int
    texts: tuple[int, ...]
    """Indexes of the texts."""
    data: bytes
    """float32, little-endian: all vectors of the first of these texts, then of the next."""
    is_last: bool


class Reply(_Frame, frozen=True, tag=True, array_like=True):
    """The answer to a `Call`."""

    id: int
    result: Any
    error: ErrorInfo | None = None


class Pong(_Frame, frozen=True, tag=True, array_like=True):
    """The process is alive. Two of these show whether its engine makes progress: if busy in both, it must have
    advanced."""

    number: int
    """Number of the `Ping`."""
    is_busy: bool
    num_advances: int
    """Steps and other progress of the engine's thread; starts at any number."""


class Failed(_Frame, frozen=True, tag=True, array_like=True):
    """The worker cannot continue (the library or the model did not load); it exits after this."""

    error: ErrorInfo


Up = Hello | Loading | Ready | NeedFiles | Accepted | Rejected | Deltas | Tokenized | Vectors | Reply | Pong | Failed


down_decoder: msgspec.msgpack.Decoder[Down] = msgspec.msgpack.Decoder(Down)
up_decoder: msgspec.msgpack.Decoder[Up] = msgspec.msgpack.Decoder(Up)
