"""A fake of the arithmetic only: a backend whose next token is a pure function of the tokens before it.

It keeps the KV cells of every slot as llama.cpp would and refuses what llama.cpp would refuse, so that a scheduler
that loses a token, reorders a batch or reads a stale slot is caught.
"""

from __future__ import annotations

from collections.abc import Sequence

from localllm.engine.backend import BackendError, Segment
from localllm.types import ResolvedSampling

END = 0
"""The end-of-generation token."""


def next_token(tokens: Sequence[int]) -> int:
    """A number from 1 to 96 that depends on every token and its position."""
    value = 7
    for token in tokens:
        value = (value * 31 + token) % 1_000_003
    return value % 96 + 1


class FakeBackend:
    """Implements `localllm.engine.backend.Backend`."""

    def __init__(
        self,
        *,
        num_slots: int = 4,
        slot_capacity: int = 64,
        batch_capacity: int = 16,
        ends_at: int | None = None,
        fails_at_step: int | None = None,
    ) -> None:
        self.num_slots = num_slots
        self.slot_capacity = slot_capacity
        self.batch_capacity = batch_capacity
        self.cells: dict[int, list[int]] = {}
        self.batches: list[list[Segment]] = []
        self._ends_at = ends_at
        self._fails_at_step = fails_at_step

    def open(self, slot: int, sampling: ResolvedSampling) -> None:
        assert slot not in self.cells, f"slot {slot} is in use"
        assert sampling.temperature == 0, "the fake is greedy"
        self.cells[slot] = []

    def close(self, slot: int) -> None:
        del self.cells[slot]

    def decode(self, segments: Sequence[Segment]) -> None:
        if self._fails_at_step == len(self.batches):
            self._fails_at_step = None
            raise BackendError("no room in the KV cache")
        assert 0 < sum(len(segment.tokens) for segment in segments) <= self.batch_capacity
        slots = [segment.slot for segment in segments]
        assert slots == sorted(set(slots)), "llama.cpp wants ascending slots"
        for segment in segments:
            cells = self.cells[segment.slot]
            assert segment.start == len(cells), "a gap or an overlap in the positions"
            cells.extend(segment.tokens)
            assert len(cells) <= self.slot_capacity
        self.batches.append(list(segments))

    def sample(self, index: int) -> int:
        segment = self.batches[-1][index]
        assert segment.wants_token
        cells = self.cells[segment.slot]
        return END if self._ends_at is not None and len(cells) >= self._ends_at else next_token(cells)

    def token_bytes(self, token: int) -> bytes:
        return b"" if token == END else bytes([31 + token])

    def ends_generation(self, token: int) -> bool:
        return token == END


def alone(prompt: Sequence[int], count: int) -> list[int]:
    """What `count` tokens of a prompt must be, computed without any engine."""
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(next_token(tokens))
    return tokens[len(prompt) :]
