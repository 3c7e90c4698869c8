"""How many of a slot's last tokens its memory can drop, by what llama.cpp keeps of the past.

    attention       every cell: any number of tokens
    sliding window  the window's layers have at least `n_swa + n_ubatch` cells. A ubatch overwrites only what its first
                    token no longer sees, and older cells go with it, so that `[pos_min, length)` is there
                    (llama-kv-cache.cpp, `find_slot`, `apply_ubatch`): what sees nothing before can be recomputed
    recurrent       the states after the last `snapshots + 1` tokens of the last decode, which can be restored once, for
                    architectures that write them (`n_rs_seq`). A later ubatch of that decode may move a sequence to
                    another cell without them (llama-memory-recurrent.cpp, `find_slot`): it must be the only one

Knows nothing of what the tokens are.
"""

from __future__ import annotations

from collections.abc import Sequence

from localllm.engine.backend import Segment
from localllm.engine.media import Extent
from localllm.llama.context import LlamaContext
from localllm.llama.states.memory_trial import MemoryTraits
from localllm.llama.states.positions import position_of, tokens_before


class Tails:
    """For one context; used by one thread."""

    def __init__(self, context: LlamaContext, traits: MemoryTraits) -> None:
        self._api = context.api
        self._memory = context.memory
        self._ubatch_tokens = context.ubatch_capacity
        self._can_lose_any = traits.can_rewind
        self._window = traits.window
        self._snapshots = traits.snapshots
        self.lengths = [0] * context.num_slots
        """Tokens in each slot."""
        self._snapshots_of = [0] * context.num_slots
        """Earlier states of each slot that can be restored."""
        self.extents: list[tuple[Extent, ...]] = [()] * context.num_slots
        """Those of each slot in which rows share positions."""
        self.has_extents = False
        """Whether any slot ever had one: until then a position is an index."""
        self._padding: dict[int, int] = {}
        """Slot -> padding tokens after its own that are still there: snapshots can be restored only once."""

    @property
    def max_rollback(self) -> int:
        """Where the memory cannot drop any number."""
        # A cut leaves a hole in the ring of the window's cells: half of the cells beyond the window is safe.
        return self._ubatch_tokens // 2 if self._window else self._snapshots

    def least(self, slot: int) -> int:
        """The smallest number of tokens above 0 that the slot can be cut to without a checkpoint."""
        if self._can_lose_any:
            return 0
        if not self._window:
            return self.lengths[slot] + self._padding.get(slot, 0) - self._snapshots_of[slot]
        first = int(self._api.llama_memory_seq_pos_min(self._memory, slot))
        if first <= 0:
            return 0
        return tokens_before(self.extents[slot], first + self._window - 1, self.lengths[slot])

    def length(self, slot: int) -> int:
        """As llama.cpp counts."""
        end = int(self._api.llama_memory_seq_pos_max(self._memory, slot)) + 1 - self._padding.get(slot, 0)
        extents = self.extents[slot]
        return tokens_before(extents, end, self.lengths[slot]) if extents else end

    def position(self, slot: int, length: int) -> int:
        """Where the next token stands if the slot has `length` tokens."""
        extents = self.extents[slot]
        return position_of(extents, length) if extents else length

    def truncate(self, slot: int, length: int) -> None:
        """To `least` tokens or more, or to none. Raises `AssertionError`."""
        least, behind = self.least(slot), self.lengths[slot] + self._padding.pop(slot, 0)
        is_cut = any(start < length < min(end, behind) for start, end, _, _ in self.extents[slot])
        position = self.position(slot, length)
        if length == 0:
            self._api.llama_memory_seq_rm(self._memory, slot, -1, -1)
        elif (
            is_cut
            or length < min(least, behind)
            or (not self._api.llama_memory_seq_rm(self._memory, slot, position, -1) and length < behind)
        ):
            raise AssertionError(f"llama.cpp cannot shorten slot {slot} to {length} of {behind} tokens")
        if length < behind:
            self._snapshots_of[slot] = 0
        self._has(slot, min(length, self.lengths[slot]), self.extents[slot])

    def replaced(self, slot: int, length: int, extents: Sequence[Extent] = ()) -> None:
        """The slot holds something else, of `length` tokens, with these extents."""
        self._padding.pop(slot, None)
        self._snapshots_of[slot] = 0
        self._has(slot, length, extents)

    def shortened(self, slot: int, drop: int) -> None:
        """So many tokens were removed from within the slot."""
        self.lengths[slot] -= drop

    def settle(self, slot: int | None = None) -> None:
        """Remove padding: of a slot, or of all before the next decode."""
        for padded in list(self._padding) if slot is None else [slot] if slot in self._padding else []:
            self.truncate(padded, self.lengths[padded])

    def decoded(self, segments: Sequence[Segment]) -> None:
        """These segments were computed."""
        if self._snapshots:
            self._snapshots_of = [0] * len(self.lengths)
            num_rows = [len(segment.tokens) + segment.num_padding for segment in segments]
            if self._is_one_ubatch(segments, num_rows):
                for segment, rows in zip(segments, num_rows, strict=True):
                    self._snapshots_of[segment.slot] = min(self._snapshots, rows - 1)
        for slot, start, tokens, _, num_padding, media in segments:
            end = self.lengths[slot] = start + len(tokens)
            if media is not None:
                self._computed_rows(slot, start, media.extent)
            if num_padding and self._snapshots:
                self._padding[slot] = num_padding
            elif num_padding:
                self._api.llama_memory_seq_rm(self._memory, slot, self.position(slot, end), -1)

    def _computed_rows(self, slot: int, start: int, extent: Extent | None) -> None:
        self._snapshots_of[slot] = 0
        if extent is not None and extent.start == start:
            self._has(slot, self.lengths[slot], (*self.extents[slot], extent))

    def _has(self, slot: int, length: int, extents: Sequence[Extent]) -> None:
        self.lengths[slot] = length
        if extents:
            shared = tuple(one for one in extents if one.shares_positions and one.start < length)
            self.has_extents = self.has_extents or bool(shared)
            self.extents[slot] = shared
        elif self.has_extents:
            self.extents[slot] = ()

    def interrupted(self, slots: Sequence[int]) -> None:
        """A decode of these slots was interrupted: whole ubatches remain."""
        self._snapshots_of = [0] * len(self.lengths)
        for slot in slots:
            self.lengths[slot] = self.length(slot)

    def _is_one_ubatch(self, segments: Sequence[Segment], num_rows: Sequence[int]) -> bool:
        if len(segments) == 1:
            return True
        is_dense = segments[-1].slot - segments[0].slot == len(segments) - 1
        return is_dense and num_rows.count(num_rows[0]) == len(num_rows) and sum(num_rows) <= self._ubatch_tokens
