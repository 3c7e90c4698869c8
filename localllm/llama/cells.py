"""The KV cells of a context's slots: dropped, copied, moved, and saved as states and back.

Does not compute; `decoder` announces every decode here. Knows nothing of what the tokens are.
"""

from __future__ import annotations

from collections.abc import Sequence

from localllm.engine.backend import Segment, State
from localllm.engine.media import Extent
from localllm.llama.context import LlamaContext
from localllm.llama.states.memory_trial import MemoryTraits
from localllm.llama.states.padding import fillers
from localllm.llama.states.saved import SavedStates
from localllm.llama.states.tails import Tails
from localllm.types import MemoryKind

STATE_COPY_SHARE = 3
"""A slot filled to less than this fraction is copied through a state, which contains only its own cells
(benchmarks/log/kv.md#what-a-save-costs): 2 to 18 ms for 100 to 2,000 tokens, where all 8,192 cells take 32."""


class LlamaCells:
    """Implements `engine.backend.KvCells`; used by one thread."""

    def __init__(self, context: LlamaContext, traits: MemoryTraits, states: SavedStates) -> None:
        self._api = context.api
        self._memory = context.memory
        self._context = context
        self._traits = traits
        self._states = states
        self._tails = Tails(context, traits)
        self._copied: set[int] = set()
        """Slots from or to which the next decode copies cells."""
        self._has_shifted = False
        """The next decode rotates keys to their new positions, in a graph that must not be interrupted."""
        self.num_slots = context.num_slots
        self.num_cells = context.num_cells
        self.slot_capacity = context.slot_capacity
        self.can_rewind = traits.can_rewind
        self.wants_dense = traits.kind == "recurrent"
        self.can_shift = traits.can_rewind and context.can_shift
        self.max_rollback = context.batch_capacity if traits.can_rewind else self._tails.max_rollback
        self.rolls_back_equals = traits.snapshots > 0

    @property
    def memory_kind(self) -> MemoryKind:
        return self._traits.kind

    # ---- around a decode

    def placed(self, segments: Sequence[Segment]) -> Sequence[Segment]:
        """The segments, each with its first token's position as its start."""
        tails = self._tails
        if not tails.has_extents:
            return segments
        return [segment._replace(start=tails.position(segment.slot, segment.start)) for segment in segments]

    def position(self, slot: int, length: int) -> int:
        """Position of the token that has `length` tokens of the slot before it."""
        return self._tails.position(slot, length)

    def prepare(self) -> bool:
        """A decode follows. Whether it may be interrupted."""
        self._tails.settle()
        return not self._has_shifted

    def fillers(self, segments: Sequence[Segment]) -> list[Segment]:
        """Throw-away tokens for idle slots between those of a batch, where they spare a pass over the weights."""
        if self.wants_dense or self.num_cells is not None:
            return []
        return fillers(
            segments,
            self._tails.lengths,
            slot_capacity=self.slot_capacity,
            batch_capacity=self._context.batch_capacity,
            most_cells=self._traits.cells_a_pass,
        )

    def arrived(self, between: Sequence[Segment]) -> None:
        """A decode has ended, in whatever way: pending copies and shifts are done. Drops its fillers."""
        self._has_shifted = False
        self._copied.clear()
        for slot, start, *_ in self.placed(between):
            self._api.llama_memory_seq_rm(self._memory, slot, start, -1)

    def interrupted(self, slots: Sequence[int]) -> None:
        """That decode was interrupted: whole ubatches remain."""
        self._tails.interrupted(slots)

    def computed(self, segments: Sequence[Segment]) -> None:
        """That decode computed these segments."""
        self._tails.decoded(segments)
        self._states.expect(self._tails.lengths)

    def synchronized(self) -> None:
        """That decode is done on all devices."""

    def rest(self) -> None:
        """Nothing is computed until the next decode."""
        self._states.rest()

    # ---- what slots hold

    def length(self, slot: int) -> int:
        return self._tails.length(slot)

    def least(self, slot: int) -> int:
        return self._tails.least(slot)

    def truncate(self, slot: int, length: int) -> None:
        self._tails.truncate(slot, length)

    def scrub(self) -> None:
        if self.num_cells is not None and any(self._tails.lengths):
            return  # shared cells would be duplicated per slot
        states = [(slot, self.save(slot), length) for slot, length in enumerate(self._tails.lengths) if length]
        self._api.llama_memory_clear(self._memory, True)
        for slot, state, length in states:
            self.restore(slot, state, length, self._tails.extents[slot])

    def copy(self, source: int, slot: int, length: int) -> None:
        """In a unified cache the cells are shared. In a partitioned one this changes metadata, and llama.cpp moves all
        cells of the slot at the beginning of the next decode; or the copy goes through a saved state, at once, where
        that is less.

        A memory that needs checkpoints is always copied through a state: what `rewind` puts into the slot would be
        overwritten by cells that arrive later.
        """
        extents = self._tails.extents[source]
        if not self.can_rewind or self._is_copied_as_state(source, slot):
            self.restore(slot, self.save(source), self._tails.lengths[source], extents)
            if length < self._tails.lengths[slot]:
                self.truncate(slot, length)
            return
        self._api.llama_memory_seq_rm(self._memory, slot, -1, -1)
        if self.num_cells is not None:
            self._api.llama_memory_seq_cp(self._memory, source, slot, 0, self._tails.position(source, length))
            self._tails.replaced(slot, length, extents)
            return
        self._api.llama_memory_seq_cp(self._memory, source, slot, -1, -1)
        self._copied |= {source, slot}
        self._tails.replaced(slot, self._tails.lengths[source], extents)
        self.truncate(slot, length)

    def _is_copied_as_state(self, source: int, slot: int) -> bool:
        """Where that is faster, and no copy of cells from or to either slot is pending."""
        is_short = STATE_COPY_SHARE * self._tails.lengths[source] < self.slot_capacity
        return self.num_cells is None and is_short and self._copied.isdisjoint((source, slot))

    def save(self, slot: int) -> State:
        self._tails.settle(slot)
        return self._states.read(slot)

    def state_bytes(self, slot: int) -> int:
        self._tails.settle(slot)
        return self._states.num_bytes(slot)

    def restore(self, slot: int, state: State, length: int, extents: Sequence[Extent] = ()) -> None:
        self._api.llama_memory_seq_rm(self._memory, slot, -1, -1)
        self._states.write(slot, state)
        self._tails.replaced(slot, length, extents)

    def checkpoint(self, slot: int) -> State:
        self._tails.settle(slot)
        return self._states.read(slot, self._api.LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY)

    def rewind(self, slot: int, state: State, length: int) -> None:
        self._states.write(slot, state, self._api.LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY)
        if not self._api.llama_memory_seq_rm(self._memory, slot, self._tails.position(slot, length), -1):
            raise AssertionError(f"llama.cpp cannot go back to {length} of {self._tails.lengths[slot]} tokens")
        self._tails.replaced(slot, length, self._tails.extents[slot])

    def shift(self, slot: int, keep: int, drop: int) -> None:
        """Changes metadata now; llama.cpp rotates the keys to their new positions with the next decode."""
        self._api.llama_memory_seq_rm(self._memory, slot, keep, keep + drop)
        self._api.llama_memory_seq_add(self._memory, slot, keep + drop, -1, -drop)
        self._tails.shortened(slot, drop)
        self._has_shifted = True
