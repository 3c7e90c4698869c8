"""What the engine asks of the arithmetic. `llama/` implements it; tests fake it. Knows nothing of requests or text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt


class Segment(NamedTuple):
    """Consecutive tokens of one slot, at positions `[start, start + len(tokens))`.

    tokens     [start ............................ start + len(tokens))
    logits of             [-num_outputs .......... start + len(tokens))
    padding                                       [start + len(tokens) ... + num_padding)
    """

    slot: int
    start: int
    tokens: Sequence[int]
    num_outputs: int
    """Logits are wanted of so many of the last tokens, each for what follows it; 0: of none."""
    num_padding: int = 0
    """Throw-away tokens behind them, computed without logits and cut by the backend: a batch of equal lengths is one
    pass. At most `Backend.max_rollback` with the tokens behind the first."""


State = bytes | memoryview
"""What a backend saved, of the layout that it alone knows."""


class BackendError(Exception):
    """A decode that failed; the backend may go on with other batches."""


class Backend(Protocol):
    """One model in memory with `num_slots` independent KV streams of `slot_capacity` tokens."""

    @property
    def num_slots(self) -> int: ...

    @property
    def slot_capacity(self) -> int: ...

    @property
    def num_cells(self) -> int | None:
        """Tokens that all slots hold together at most, sharing what was copied; None: each has its own."""
        ...

    @property
    def batch_capacity(self) -> int:
        """Tokens one `decode` takes at most."""
        ...

    @property
    def ubatch_capacity(self) -> int:
        """Of a batch so many are computed at once, one ubatch after the other."""
        ...

    @property
    def can_be_interrupted(self) -> bool:
        """Whether `interrupt` ends a decode, and the ubatches before it stay."""
        ...

    @property
    def num_nodes(self) -> int:
        """Grows while a decode gets on, where that can be seen; from any thread."""
        ...

    @property
    def max_outputs(self) -> int:
        """Rows of logits that one `decode` gives at most, of all its segments: one for each slot, or more."""
        ...

    @property
    def tile(self) -> int:
        """Rows of one slot in a batch from which attention is fast."""
        ...

    @property
    def grain(self) -> int:
        """Of more than `tile` rows of a slot, multiples of this are computed without waste."""
        ...

    @property
    def is_asynchronous(self) -> bool:
        """Whether `decode` of a token or few for each slot returns early, while a device still computes."""
        ...

    @property
    def can_rewind(self) -> bool:
        """Whether a slot can lose any number of last tokens, and be copied in part.

        False for recurrent, hybrid and sliding-window models: these go back to a checkpoint.
        """
        ...

    @property
    def max_rollback(self) -> int:
        """Of what one decode computed for a slot, so many last tokens can be cut right after it, but for the first.

        Less than a batch where the memory cannot rewind: what a sliding window has not overwritten, and as many states
        as a recurrent memory keeps; 0: none.
        """
        ...

    @property
    def rolls_back_equals(self) -> bool:
        """Whether that holds only if all slots of the batch are consecutive and have equally many tokens, padding
        included.
        """
        ...

    @property
    def can_shift(self) -> bool:
        """Whether tokens can be taken out of the middle of a slot."""
        ...

    @property
    def wants_dense(self) -> bool:
        """Whether idle slots between busy ones cost a pass over all weights, and cannot be helped."""
        ...

    def length(self, slot: int) -> int:
        """Tokens in the slot's KV, as the library itself counts them."""
        ...

    def least(self, slot: int) -> int:
        """The least number of tokens, but for none, that the slot can be cut to as it is."""
        ...

    def truncate(self, slot: int, length: int) -> None:
        """Keep the first `length` tokens of the slot's KV, `least` ones or more; 0 empties it."""
        ...

    def scrub(self) -> None:
        """Zero the memory behind every slot's tokens, after a decode; a unified cache only if no slot has any."""
        ...

    def copy(self, source: int, slot: int, length: int) -> None:
        """Replace the slot's KV by the first `length` tokens of another's, which stays as it is.

        All of them, if this memory cannot rewind.
        """
        ...

    def save(self, slot: int) -> State:
        """The KV of the slot as an opaque state, for `restore` of the same backend.

        Its memory is used again when the last reference to it, or to a view of it, is gone.
        """
        ...

    def state_bytes(self, slot: int) -> int:
        """Of what `save` would return."""
        ...

    def restore(self, slot: int, state: State, length: int) -> None:
        """Replace the slot's KV by a saved state of `length` tokens."""
        ...

    def checkpoint(self, slot: int) -> State:
        """What `rewind` needs to come back to here. Only of a memory that cannot rewind without."""
        ...

    def rewind(self, slot: int, state: State, length: int) -> None:
        """Cut the slot to `length` tokens, of which it holds at least as many, with the checkpoint made there."""
        ...

    def shift(self, slot: int, keep: int, drop: int) -> None:
        """Take `drop` tokens out of the slot after its first `keep`; those behind them move forward."""
        ...

    def set_threads(self, threads: int) -> None:
        """That compute from the next `decode` on."""
        ...

    def decode(self, segments: Sequence[Segment], *, within_s: float | None = None) -> bool:
        """Compute all segments in one batch. Segments come in ascending slot order.

        With `within_s` the decode may be interrupted, and is after so many seconds. False: it was; every slot then
        holds what its `length` says, of its segment as much as whole ubatches computed, and there are no logits.
        True: it is computed, or will be when `synchronize` returns.
        Raises `BackendError`; of the slots in the batch, only what stood before each segment's start is sure then.
        """
        ...

    def synchronize(self) -> None:
        """Wait until the last `decode`, if it was not interrupted, is computed. Raises `BackendError` as that does."""
        ...

    def interrupt(self, within_s: float) -> None:
        """From any thread: a decode that may be interrupted, this one or the next, ends with its current ubatch, and
        after `within_s` at the latest, which loses that ubatch. One that has not begun computes nothing.
        """
        ...

    @property
    def lost_s(self) -> float:
        """How long the ubatch was computed that the last interrupted `decode` lost."""
        ...

    def clear_interrupts(self) -> None:
        """What `interrupt` asked for until now is forgotten."""
        ...

    def logits(self, index: int) -> Sequence[npt.NDArray[np.float32]]:
        """The `num_outputs` rows of segment `index` of the last `decode`, in the order of its tokens.

        Each has the shape (vocabulary size,) and is a view that the next `decode` ends.
        """
        ...

    def spelled(self, token: int) -> bytes:
        """The bytes that spell a token, control tokens' too."""
        ...

    def token_bytes(self, token: int) -> bytes:
        """The bytes a token stands for; empty for control tokens."""
        ...

    def ends_generation(self, token: int) -> bool:
        """Whether the token is one of the model's end-of-generation tokens."""
        ...


Vectors = npt.NDArray[np.float32]
"""Shape (how many, dimensions)."""


class Piece(NamedTuple):
    """Consecutive tokens of one text, at positions `[start, start + len(tokens))`, computed in a place of its own."""

    place: int
    start: int
    tokens: Sequence[int]
    is_last: bool
    """It ends its text."""


class EmbeddingBackend(Protocol):
    """One model in memory that turns texts into vectors; `place`s are from 0 to `max_texts - 1`."""

    @property
    def splits_texts(self) -> bool:
        """Whether a text may be computed piece by piece. If not, every piece is a whole text."""
        ...

    @property
    def max_text_tokens(self) -> int: ...

    @property
    def batch_tokens(self) -> int:
        """That one `compute` takes at most; where texts are not split, at least `max_text_tokens`."""
        ...

    @property
    def together_tokens(self) -> int:
        """Up to which several texts in a batch are faster than one after the other."""
        ...

    @property
    def max_texts(self) -> int:
        """Texts begun and not ended, those of the batch included, at most."""
        ...

    @property
    def dimensions(self) -> int: ...

    def compute(self, pieces: Sequence[Piece]) -> list[Vectors | None]:
        """Compute all pieces in one batch: for each that ends its text that text's vectors, as a copy.

        Of texts that are begun and not in this batch there is at most one. Raises `BackendError`; the texts in the
        batch are forgotten then.
        """
        ...

    def set_threads(self, threads: int) -> None:
        """That compute from the next `compute` on."""
        ...

    def forget(self, place: int) -> None:
        """Drop what was computed of the text there."""
        ...


class Beside(Protocol):
    """Other work for the same cores, done in pieces between the steps: embeddings."""

    @property
    def has_work(self) -> bool: ...

    def step(self, num_streams: int) -> None:
        """One piece, while so many answers stream."""
        ...
