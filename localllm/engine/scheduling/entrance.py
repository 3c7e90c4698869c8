"""Who enters a slot next, and who leaves one for it: the slots, and the queue of waiting sequences.

Waiting sequences are ordered by class, priority, deadline, then arrival; those that gave up their slots precede their
equals. Decides admissions and carries them out. Knows nothing of steps.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable

from localllm.engine.cache.kvcache import KvCache
from localllm.engine.cache.operations import Save
from localllm.engine.requests.sequence import Sequence
from localllm.engine.scheduling.admission import Admitter, Entering
from localllm.engine.scheduling.aging import AGED_S, Turns
from localllm.engine.scheduling.parking import TENURE_S, Parking, outranks
from localllm.engine.scheduling.waits import Waits

MAX_LOOKS = 32
"""Maximum number of waiting sequences whose prompts are compared with the cache in one step
(benchmarks/log/kv.md#one-owner-of-the-kv-cache)."""


class Entrance:
    """Used by the scheduler, which also moves sequences between the slots."""

    def __init__(self, kv: KvCache, admitter: Admitter, prefetch: Callable[[Sequence], None]) -> None:
        """`prefetch` is called with each sequence that has entered."""
        self.slots: list[Sequence | None] = [None] * kv.num_slots
        self.waiting: list[Sequence] = []
        """Ordered by rank."""
        self.parking = Parking(kv)
        self.admitter = admitter
        self._kv = kv
        self._prefetch = prefetch
        self._turns = Turns()

    @property
    def running(self) -> list[Sequence]:
        """Sequences that have a slot, in slot order."""
        return [sequence for sequence in self.slots if sequence is not None]

    @property
    def free(self) -> list[int]:
        return [slot for slot, owner in enumerate(self.slots) if owner is None]

    @property
    def is_contested(self) -> bool:
        """Whether a waiting sequence outranks a running one."""
        return bool(self.waiting) and any(outranks(self.waiting[0], running) for running in self.running)

    def add(self, sequence: Sequence) -> None:
        insort(self.waiting, sequence, key=rank)

    def remove(self, sequence: Sequence) -> None:
        """Forget a waiting sequence."""
        self.waiting.remove(sequence)
        self._end_wait(sequence)
        self.parking.dropped(sequence)

    def check_integrity(self) -> None:
        """No running sequence waits, and what is pinned belongs to one that does. Raises `AssertionError`."""
        assert all(sequence.slot is None for sequence in self.waiting), "a waiting request has a slot"
        parked = {sequence.progress.state for sequence in self.waiting} - {None}
        assert parked == set(self._kv.host.pinned), "something is pinned for nobody"
        ids = [sequence.id for sequence in (*self.running, *self.waiting)]
        assert len(ids) == len(set(ids)), "a request is here twice"

    def admit(self, now_s: float) -> list[Sequence]:
        """Admit waiting sequences and return them. Each admission is carried out before the next is decided."""
        admitted: list[Sequence] = []
        free = self.free
        if not self.waiting or not (free or self.is_contested):
            return admitted
        self._kv.learn_least()
        num_looks = MAX_LOOKS
        for sequence, as_oldest in self._turns.order(list(self.waiting), lambda: self._aged(now_s)):
            wanted_slot = sequence.request.reuse.wanted_slot
            is_free = bool(free) if wanted_slot is None else wanted_slot in free
            leavers = [] if is_free else self.parking.leavers(sequence, self.running, now_s)
            if not is_free and not leavers:
                if free or as_oldest or wanted_slot is not None:
                    continue  # the slot will become free; then this one precedes later arrivals
                break  # those after it take no slot either
            answer: Entering | Waits | None = self.admitter.memory.still_waits(sequence, now_s)
            if answer == "for room" and any(outranks(sequence, other) for other in self.running):
                answer = None
            if answer is None:
                if num_looks == 0:
                    break  # the others follow in the next steps; results so far are remembered
                num_looks -= 1
                answer, leavers = self._way_in(sequence, free if is_free else [], now_s)
            if answer == "for room":
                break  # if others passed it, it might wait forever
            if isinstance(answer, str):
                continue
            self._turns.taken(as_oldest=as_oldest)
            if as_oldest and any(outranks(other, sequence) for other in self.waiting if other.slot is None):
                sequence.progress.stays_until_s, sequence.progress.must_stay = now_s + TENURE_S, True
            self._enter(sequence, answer, leavers, now_s)
            free = self.free
            admitted.append(sequence)
        return admitted

    def _way_in(self, sequence: Sequence, free: list[int], now_s: float) -> tuple[Entering | Waits, list[Sequence]]:
        """How a sequence enters, or why it waits, and which running ones leave for it: as few as are needed."""
        running, leaving = self.running, list[Sequence]()
        answer: Entering | Waits = self.admitter.admit(sequence, free, running, now_s) if free else "for room"
        if answer != "for room":
            return answer, leaving
        slots = list(free)
        for leaver in self.parking.leavers(sequence, running, now_s):
            assert leaver.slot is not None
            leaving.append(leaver)
            slots.append(leaver.slot)
            running.remove(leaver)
            answer = self.admitter.admit(sequence, sorted(slots), running, now_s)
            if answer != "for room":
                break
        return answer, leaving

    def _enter(self, sequence: Sequence, entering: Entering, leavers: list[Sequence], now_s: float) -> None:
        operations = entering.operations
        if leavers:
            left = [leaver.slot for leaver in leavers]
            operations = [each for each in operations if not (isinstance(each, Save) and each.slot in left)]
            for leaver in leavers:
                self._leave(leaver)
        self.waiting.remove(sequence)
        self._kv.apply(operations)
        held = self._kv.residency.held[entering.slot]
        assert held.length == entering.num_cached, "the slot does not hold what was decided"
        self.slots[entering.slot] = sequence
        progress = sequence.progress
        if not progress.was_admitted:
            progress.admitted(held, entering.num_cached, now_s)
        else:
            if progress.state is not None:
                self._kv.unpark(progress.state, is_restored=True)
            progress.resumed(held)
        self._prefetch(sequence)
        self._end_wait(sequence)

    def _leave(self, sequence: Sequence) -> None:
        """A running sequence gives up its slot, and waits before its equals."""
        assert sequence.slot is not None
        self.slots[sequence.slot] = None
        self.parking.park(sequence)
        insort(self.waiting, sequence, key=rank)

    def _end_wait(self, sequence: Sequence) -> None:
        """Drop what was read from the disk for the sequence and not taken, unless another waits for it."""
        entry, disk = sequence.progress.waiting.end(), self._kv.disk
        if entry is None or disk is None:
            return
        if all(one.progress.waiting.reading is not entry for one in self.waiting):
            disk.drop(entry)

    def _aged(self, now_s: float) -> list[Sequence]:
        """Sequences that have waited long, oldest first."""
        aged = [sequence for sequence in self.waiting if now_s - sequence.request.due.created_s >= AGED_S]
        if any(sequence.progress.has_turn for sequence in self.running):  # one at a time
            aged = [sequence for sequence in aged if not outranks(self.waiting[0], sequence)]
        return sorted(aged, key=lambda sequence: (sequence.request.due.created_s, sequence.id))


def rank(sequence: Sequence) -> tuple[bool, int, float, bool]:
    """Lower ones first."""
    due = sequence.request.due
    return due.is_batch, due.priority, due.deadline_s, not sequence.progress.was_admitted
