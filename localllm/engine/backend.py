"""What the engine requires of the arithmetic. `llama/` implements it; tests fake it. Knows nothing of requests
or text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from localllm.engine.media import Extent, Planes
from localllm.engine.requests.adapters import AdapterSet
from localllm.types.states import AdapterStatus


class MediaPart(NamedTuple):
    """Consecutive rows of one span."""

    rows: npt.NDArray[np.float32]
    """Shape (rows, width of the model's inputs)."""
    planes: Planes | None
    """As in `MediaRows`, of these rows; the first position is that of the span, not of this part."""
    is_causal: bool
    extent: Extent | None
    """Of the whole span."""


class Segment(NamedTuple):
    """Consecutive tokens of one slot, the first of which has `start` tokens before it; or media rows.

    tokens     [start ............................ start + len(tokens))
    logits of             [-num_outputs .......... start + len(tokens))
    padding                                       [start + len(tokens) ... + num_padding)
    """

    slot: int
    start: int
    tokens: Sequence[int]
    num_outputs: int
    """Logits are wanted for this many of the last tokens, each for what follows it; 0: for none."""
    num_padding: int = 0
    """Throw-away tokens after them, computed without logits and cut by the backend, since segments of equal length take
    one pass. Together with the tokens after the first at most `KvCells.max_rollback`."""
    media: MediaPart | None = None
    """The rows whose pseudo ids `tokens` are. A segment with rows is alone in its batch."""


State = bytes | memoryview
"""What a backend saved, in a layout that only it knows."""


class BackendError(Exception):
    """A decode that failed; the backend may continue with other batches."""


class BatchDecoder(Protocol):
    """Computes batches of tokens, and gives the logits of the last one. Knows nothing of what slots hold."""

    @property
    def batch_capacity(self) -> int:
        """The most tokens one `decode` takes."""
        ...

    @property
    def ubatch_capacity(self) -> int:
        """Tokens of a batch that are computed at once, one ubatch after the other."""
        ...

    @property
    def max_outputs(self) -> int:
        """The most rows of logits that one `decode` gives, over all its segments: one per slot, or more."""
        ...

    @property
    def tile(self) -> int:
        """Rows of one slot in a batch from which on attention is fast."""
        ...

    @property
    def grain(self) -> int:
        """Above `tile` rows of a slot, multiples of this are computed without waste."""
        ...

    @property
    def is_asynchronous(self) -> bool:
        """Whether `decode` of one or a few tokens per slot returns early, while a device still computes."""
        ...

    @property
    def can_be_interrupted(self) -> bool:
        """Whether `interrupt` can end a decode so that the ubatches before it stay."""
        ...

    def set_threads(self, threads: int) -> None:
        """Threads that compute from the next `decode` on."""
        ...

    def use_adapters(self, adapters: AdapterSet) -> bool:
        """Put a set of adapters in force from the next `decode` on, which then takes longer; whether it is another than
        before. Raises `BackendError` if one cannot be loaded."""
        ...

    @property
    def adapter_status(self) -> AdapterStatus | None:
        """Which adapters are in memory; None: none ever was."""
        ...

    def decode(self, segments: Sequence[Segment], *, within_s: float | None = None) -> bool:
        """Compute all segments in one batch. Segments come in ascending slot order. Rows that see each other must fit
        into one ubatch, those that share positions are never interrupted.

        With `within_s` the decode may be interrupted, and is after that many seconds. False: it was; then every slot
        holds what its `length` says, that is, as much of its segment as whole ubatches computed, and there are no
        logits. True: it is computed, or will be when `synchronize` returns. Raises `BackendError`; then only what
        preceded each segment's start is certain for the slots in the batch.
        """
        ...

    def synchronize(self) -> None:
        """Wait until the last `decode`, if not interrupted, is computed. Raises `BackendError` as that does."""
        ...

    def logits(self, index: int) -> Sequence[npt.NDArray[np.float32]]:
        """The `num_outputs` rows of segment `index` of the last `decode`, in the order of its tokens.

        Each has the shape (vocabulary size,) and is a view that is valid until the next `decode`.
        """
        ...

    def rest(self) -> None:
        """Nothing is computed until the next `decode`: time for preparations that would compete with it."""
        ...

    def interrupt(self, within_s: float) -> None:
        """From any thread: a decode that may be interrupted, this one or the next, ends with its current ubatch, or at
        the latest after `within_s`, which loses that ubatch. One that has not begun computes nothing."""
        ...

    def clear_interrupts(self) -> None:
        """Discard all requests of `interrupt` made so far."""
        ...

    @property
    def lost_s(self) -> float:
        """How long the ubatch that the last interrupted `decode` lost had been computed."""
        ...

    @property
    def num_nodes(self) -> int:
        """Grows while a decode makes progress, where that is visible; from any thread."""
        ...


class KvCells(Protocol):
    """The KV cache of one model: `num_slots` independent streams of `slot_capacity` tokens.

    Media rows count as tokens; at which positions they stand is known only here. No slot is cut within an `Extent`.
    """

    @property
    def num_slots(self) -> int: ...

    @property
    def slot_capacity(self) -> int: ...

    @property
    def num_cells(self) -> int | None:
        """Tokens that all slots together can hold, with copies shared; None: each slot has cells of its own."""
        ...

    @property
    def can_rewind(self) -> bool:
        """Whether a slot can drop any number of its last tokens, and be copied in part.

        False for recurrent, hybrid and sliding-window models: these go back to a checkpoint.
        """
        ...

    @property
    def max_rollback(self) -> int:
        """How many of the last tokens of a decode can be cut from a slot right after it; the first one never can.

        Less than a batch where the memory cannot rewind: what a sliding window has not overwritten, or as many states
        as a recurrent memory keeps; 0: none.
        """
        ...

    @property
    def rolls_back_equals(self) -> bool:
        """Whether `max_rollback` holds only if all slots of the batch are consecutive and have the same number of
        tokens, including padding."""
        ...

    @property
    def can_shift(self) -> bool:
        """Whether tokens can be removed from the middle of a slot."""
        ...

    @property
    def wants_dense(self) -> bool:
        """Whether idle slots between busy ones cost an additional pass over all weights."""
        ...

    def length(self, slot: int) -> int:
        """Tokens in the slot's KV, as counted by the library itself."""
        ...

    def least(self, slot: int) -> int:
        """The smallest number of tokens above 0 that the slot can be cut to without a checkpoint."""
        ...

    def truncate(self, slot: int, length: int) -> None:
        """Keep the first `length` tokens of the slot's KV, at least `least`; 0 empties it."""
        ...

    def scrub(self) -> None:
        """Zero the memory after every slot's tokens, after a decode; in a unified cache only if all slots are empty."""
        ...

    def copy(self, source: int, slot: int, length: int) -> None:
        """Replace the slot's KV by the first `length` tokens of another's, which is not changed.

        By all of them, if this memory cannot rewind.
        """
        ...

    def save(self, slot: int) -> State:
        """The KV of the slot as an opaque state, for `restore` of the same backend.

        Its memory is reused once the last reference to it, or to a view of it, is gone.
        """
        ...

    def state_bytes(self, slot: int) -> int:
        """Size of what `save` would return."""
        ...

    def restore(self, slot: int, state: State, length: int, extents: Sequence[Extent] = ()) -> None:
        """Replace the slot's KV by a saved state of `length` tokens, with these extents."""
        ...

    def checkpoint(self, slot: int) -> State:
        """What `rewind` needs to come back to this position. Only for a memory that cannot rewind otherwise."""
        ...

    def rewind(self, slot: int, state: State, length: int) -> None:
        """Cut the slot to `length` tokens with the checkpoint made there; it holds at least that many."""
        ...

    def shift(self, slot: int, keep: int, drop: int) -> None:
        """Remove `drop` tokens from the slot after its first `keep`; those after them move forward."""
        ...


class ModelVocabulary(Protocol):
    """How tokens are spelled, and which of them end an answer."""

    def spelled(self, token: int) -> bytes:
        """The bytes that spell a token, including control tokens."""
        ...

    def token_bytes(self, token: int) -> bytes:
        """The bytes that a token stands for; empty for control tokens."""
        ...

    def ends_generation(self, token: int) -> bool:
        """Whether the token is one of the model's end-of-generation tokens."""
        ...


class Backend(Protocol):
    """One model in memory. Only what builds an engine sees all of it; its parts get what they need."""

    @property
    def decoder(self) -> BatchDecoder: ...

    @property
    def cells(self) -> KvCells: ...

    @property
    def vocab(self) -> ModelVocabulary: ...


Vectors = npt.NDArray[np.float32]
"""Shape (count, dimensions)."""


class Piece(NamedTuple):
    """Consecutive tokens of one text, or media rows, from index `start` on, computed in a place of their own."""

    place: int
    start: int
    tokens: Sequence[int]
    is_last: bool
    """Whether it ends its text."""
    num_saved: int = 0
    """How many positions fewer than tokens stand before it, or before the span that it is of."""
    media: MediaPart | None = None
    """The rows whose pseudo ids `tokens` are. A piece with rows is alone in its batch."""


class EmbeddingBackend(Protocol):
    """One model in memory that turns texts into vectors; places are numbered from 0 to `max_texts - 1`."""

    @property
    def splits_texts(self) -> bool:
        """Whether a text may be computed piece by piece. If not, every piece is a whole text."""
        ...

    @property
    def max_text_tokens(self) -> int: ...

    @property
    def batch_tokens(self) -> int:
        """The most tokens one `compute` takes; where texts are not split, at least `max_text_tokens`."""
        ...

    @property
    def together_tokens(self) -> int:
        """Tokens up to which several texts in one batch are faster than one after the other."""
        ...

    @property
    def max_texts(self) -> int:
        """The most texts that may be begun and not ended, including those of the batch."""
        ...

    @property
    def dimensions(self) -> int: ...

    def compute(self, pieces: Sequence[Piece]) -> list[Vectors | None]:
        """Compute all pieces in one batch; for each piece that ends its text, returns that text's vectors as a copy.

        At most one begun text may be missing from the batch. Raises `BackendError`; then the texts in the batch are
        forgotten.
        """
        ...

    def set_threads(self, threads: int) -> None:
        """Threads that compute from the next `compute` on."""
        ...

    def forget(self, place: int) -> None:
        """Drop what was computed of the text at this place."""
        ...


class Beside(Protocol):
    """Other work for the same cores, done piece by piece between the steps: embeddings."""

    @property
    def has_work(self) -> bool: ...

    def step(self, num_streams: int) -> None:
        """Do one piece, while `num_streams` answers are streaming."""
        ...
