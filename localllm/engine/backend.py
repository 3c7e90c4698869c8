"""What the engine asks of the arithmetic. `llama/` implements it; tests fake it. Knows nothing of requests or text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from localllm.types import ResolvedSampling


class Segment(NamedTuple):
    """Consecutive tokens of one slot, at positions `[start, start + len(tokens))`.

    `wants_token` asks for logits at the last of them, from which the next token is sampled.
    """

    slot: int
    start: int
    tokens: Sequence[int]
    wants_token: bool


class BackendError(Exception):
    """A decode that failed for good; the sequences in its batch are lost, the backend may go on."""


class Backend(Protocol):
    """One model in memory with `num_slots` independent KV streams of `slot_capacity` tokens."""

    @property
    def num_slots(self) -> int: ...

    @property
    def slot_capacity(self) -> int: ...

    @property
    def batch_capacity(self) -> int:
        """Tokens one `decode` takes at most."""
        ...

    def open(self, slot: int, sampling: ResolvedSampling) -> None:
        """Make an empty slot ready for a new sequence: its KV is cleared, its sampler seeded."""
        ...

    def close(self, slot: int) -> None:
        """Drop the slot's KV and sampler."""
        ...

    def decode(self, segments: Sequence[Segment]) -> None:
        """Compute all segments in one batch. Segments come in ascending slot order. Raises `BackendError`."""
        ...

    def sample(self, index: int) -> int:
        """The next token for segment `index` of the last `decode`; that segment must want one."""
        ...

    def token_bytes(self, token: int) -> bytes:
        """The bytes a token stands for; empty for control tokens."""
        ...

    def ends_generation(self, token: int) -> bool:
        """Whether the token is one of the model's end-of-generation tokens."""
        ...
