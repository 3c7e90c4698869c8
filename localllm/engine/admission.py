"""How a waiting sequence gets into a slot: what of its prompt is where, what is saved first, who waits for whom.

A burst of prompts that begin alike computes their beginning once: a sequence whose prefix a running one is just
computing waits for it. Pure policy; the only writer of `Residency` at admission.
"""

from __future__ import annotations

from collections.abc import Sequence as Many
from typing import NamedTuple

from localllm.engine.checkpoints import Checkpoint
from localllm.engine.hostcache import Entry, HostCache
from localllm.engine.residency import Found, Placement, Residency, common_prefix
from localllm.engine.sequence import Sequence

WORTH_SAVING = 64
"""Tokens that a slot must be about to lose to be saved first: saving 1,000 takes as long as computing 70."""
WORTH_WAITING = 32
"""Tokens that a running sequence must be about to compute for one that shares them to wait for a checkpoint there."""


class Admission(NamedTuple):
    """A sequence that was just given a slot, and how the slot is made to hold the beginning of its prompt, in order."""

    sequence: Sequence
    slot: int
    save: Entry | None
    """Where to save what the slot holds."""
    source: int | None
    """The slot to copy from, `num_copied` tokens."""
    num_copied: int
    restore: Entry | None
    """What to restore."""
    checkpoint: Checkpoint | None
    """What to go back to; None: cut to `num_cached` as it is."""
    num_cached: int
    """What to keep of it."""


class Admitter:
    """Puts sequences into free slots, each where most of its prompt is in the KV cache already."""

    def __init__(self, residency: Residency, host: HostCache, *, can_rewind: bool, most_checkpoints: int) -> None:
        """`most_checkpoints`: 0 if none are made."""
        self.residency = residency
        self.host = host
        self._can_rewind = can_rewind
        self._most_checkpoints = most_checkpoints

    def admit(
        self, sequence: Sequence, free: Many[int], running: Many[Sequence], admitted: Many[Admission]
    ) -> Admission | None:
        """Into one of the free slots; None: it waits for what a running one is just computing."""
        found = self._found(sequence)
        if self._is_being_computed(sequence, found, running):
            return None
        placement = self.residency.place(found, sequence.num_prompt, free)
        if placement.restored is not None and any(placement.slot == other.source for other in admitted):
            # A copy from that slot is still to come: its cells move with the next decode.
            placement = self.residency.place(found._replace(saved=()), sequence.num_prompt, free)
        return self._enter(sequence, placement)

    def worth_saving(self, slot: int, kept: int) -> Entry | None:
        """A place in main memory for what the slot is about to lose, if that is much and nowhere else."""
        tokens = self.residency.tokens(slot)
        if self.host.max_bytes == 0 or len(tokens) - kept < WORTH_SAVING or self.host.holds(tokens):
            return None
        if self.residency.is_elsewhere(slot):
            return None
        return self.host.reserve(tokens.copy(), self.residency.checkpoints[slot])

    def _found(self, sequence: Sequence) -> Found:
        """How many tokens of its prompt each slot holds, and each saved state."""
        if not sequence.cache_prompt:
            nothing = [0] * len(self.residency.checkpoints)
            return Found(nothing, nothing, [0] * len(self.host.entries))
        saved = [self.host.usable(entry, sequence.prompt[:-1]) for entry in self.host.entries]
        return self.residency.found(sequence.prompt)._replace(saved=saved)

    def _is_being_computed(self, sequence: Sequence, found: Found, running: Many[Sequence]) -> bool:
        """Whether a running sequence is about to compute so much more of this prompt that a copy of it pays.

        Where that needs a checkpoint, it is asked to make one where the two part.
        """
        if not sequence.cache_prompt or not (self._can_rewind or self._most_checkpoints):
            return False
        most = sequence.num_prompt - 1
        for leader in running:
            if leader.num_computed < min(leader.num_prompt, most):
                common = common_prefix(sequence.prompt[:most], leader.prompt)
                if not self._can_rewind:
                    common = min(common, leader.num_prompt - 1)
                lent = (tokens for slot, tokens in enumerate(found.lent) if slot != leader.slot)
                elsewhere = max((*found.saved, *lent), default=0)
                worth = self.residency.copy_tokens if self._can_rewind else WORTH_WAITING
                if leader.num_computed < common and common - elsewhere > worth:
                    if not self._can_rewind:
                        leader.pause_at(common)
                    return True
        return False

    def _enter(self, sequence: Sequence, placement: Placement) -> Admission:
        residency, (slot, num_cached, source, restored) = self.residency, placement
        restore = None if restored is None else self.host.entries[restored]
        save = self.worth_saving(slot, kept=0 if source is not None or restore is not None else num_cached)
        num_copied = 0
        if source is not None:
            num_copied = num_cached if self._can_rewind else len(residency.tokens(source))
            residency.copied(source, slot, num_copied)
        elif restore is not None:
            residency.restored(slot, restore.tokens, restore.checkpoints)
            self.host.used(restore)
        checkpoint = residency.way_back(slot, num_cached)
        residency.truncated(slot, num_cached)
        sequence.slot = slot
        sequence.num_computed = sequence.num_cached = num_cached
        return Admission(sequence, slot, save, source, num_copied, restore, checkpoint, num_cached)
