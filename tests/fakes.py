"""A fake of the arithmetic only: a backend whose next token is a pure function of the tokens before it.

It keeps the KV cells of every slot as llama.cpp would and refuses what llama.cpp would refuse, so that a scheduler
that loses a token, reorders a batch or reads a stale slot is caught.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from localllm.engine.backend import BackendError, Segment

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
        poison: int | None = None,
        broken_at: int | None = None,
        can_rewind: bool = True,
    ) -> None:
        self.num_slots = num_slots
        self.slot_capacity = slot_capacity
        self.batch_capacity = batch_capacity
        self.can_rewind = can_rewind
        self.cells: list[list[int]] = [[] for _ in range(num_slots)]
        self.copies: list[tuple[int, int, int]] = []
        self.pending: list[tuple[int, int]] = []
        """Copies since the last decode: llama.cpp moves their cells only then."""
        self.batches: list[list[Segment]] = []
        self._ends_at = ends_at
        self._fails_at_step = fails_at_step
        self._poison = poison
        self._broken_at = broken_at

    def length(self, slot: int) -> int:
        return len(self.cells[slot])

    def truncate(self, slot: int, length: int) -> None:
        assert self.can_rewind or length in (0, len(self.cells[slot])), "this memory cannot lose a tail"
        del self.cells[slot][length:]

    def copy(self, source: int, slot: int, length: int) -> None:
        assert self.can_rewind, "this memory cannot lose a tail"
        assert source != slot
        assert length <= len(self.cells[source])
        self.copies.append((source, slot, length))
        self.pending.append((source, slot))
        self.cells[slot] = self.cells[source][:length]

    def save(self, slot: int) -> bytes:
        assert not any(target == slot for _, target in self.pending), "its cells are not there yet"
        return bytes(self.cells[slot])

    def restore(self, slot: int, state: bytes, length: int) -> None:
        assert not any(source == slot for source, _ in self.pending), "a copy from there is still to come"
        assert len(state) == length
        self.cells[slot] = list(state)

    def decode(self, segments: Sequence[Segment]) -> None:
        self.pending.clear()
        if self._fails_at_step == len(self.batches):
            self._fails_at_step = None
            for segment in segments:  # as llama.cpp may: some of the batch is in the cache already
                self.cells[segment.slot].extend(segment.tokens[:1])
            raise BackendError("no room in the KV cache")
        if any(self._poison in segment.tokens for segment in segments):
            raise BackendError("a token that nobody can compute")
        assert 0 < sum(len(segment.tokens) for segment in segments) <= self.batch_capacity
        slots = [segment.slot for segment in segments]
        assert slots == sorted(set(slots)), "llama.cpp wants ascending slots"
        for segment in segments:
            cells = self.cells[segment.slot]
            assert segment.start == len(cells), "a gap or an overlap in the positions"
            cells.extend(segment.tokens)
            assert len(cells) <= self.slot_capacity
        self.batches.append(list(segments))

    def logits(self, index: int) -> npt.NDArray[np.float32]:
        segment = self.batches[-1][index]
        assert segment.wants_token
        cells = self.cells[segment.slot]
        row = np.zeros(97, np.float32)
        if self._broken_at is not None and self._broken_at in cells:
            row[:] = np.nan
        row[END if self._ends_at is not None and len(cells) >= self._ends_at else next_token(cells)] += 1
        return row

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
