"""Which sequence gets which tokens in the next step. No thread, no clock; of the backend only what `KvCache` says.

Running sequences get their next token first; the rest of the batch is shared evenly among those with more to catch up
(prompts). Waiting sequences enter free slots by class, priority, deadline, then arrival, and long-waiting ones in turns
of their own (`aging`), each where most of its prompt is already in the KV cache (`residency`). One that outranks a
running one by a class takes its slot (`parking`). A sequence whose prefix a running one is computing waits for it, and
others may pass: a burst of prompts with a common prefix computes it once. No sequence is passed forever: it waits only
for a limited number of prefixes and a limited time for the disk (`admission`), and none passes one that waits for room.
Knows nothing of text or sampling.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from localllm.engine.backend import Segment
from localllm.engine.cache.checkpoints import SPACING
from localllm.engine.cache.hostcache import HostEntry
from localllm.engine.cache.kvcache import KvCache
from localllm.engine.cache.operations import Copy, Operation, Save, Truncate
from localllm.engine.requests.sequence import Sequence
from localllm.engine.scheduling import moving
from localllm.engine.scheduling.adapter_turns import AdapterTurns
from localllm.engine.scheduling.admission import Admitter
from localllm.engine.scheduling.drafting import Drafter
from localllm.engine.scheduling.entrance import Entrance, rank
from localllm.engine.scheduling.media_steps import MediaSteps
from localllm.engine.scheduling.pace import DEFAULT_LIMITS, StepBudget, StepLimits
from localllm.engine.scheduling.parking import resting
from localllm.engine.scheduling.recompute import with_recomputed
from localllm.engine.scheduling.shares import Shares
from localllm.engine.scheduling.step_plan import StepPlan
from localllm.engine.scheduling.waits import Leader, leaders_of
from localllm.engine.scheduling.whole import WholeBatches
from localllm.types.states import Preemptions, SlotStatus


class Scheduler:
    """Owns the slots and the queue; the only one that changes where a sequence is held, and `num_cached`."""

    def __init__(
        self,
        kv: KvCache,
        drafter: Drafter,
        *,
        batch_capacity: int,
        limits: StepLimits = DEFAULT_LIMITS,
        rows_ready: Callable[[], None] = lambda: None,
    ) -> None:
        """`limits`: also for how long a set of adapters keeps others waiting. `rows_ready` is called, on any thread,
        when media rows have come for which a sequence waits.
        """
        if batch_capacity < kv.num_slots:
            raise ValueError(f"a batch of {batch_capacity} tokens cannot feed {kv.num_slots} slots")
        self.kv = kv
        self.slot_capacity = kv.slot_capacity
        self._most_checkpoints = kv.most_checkpoints
        self._admitter = Admitter(kv)
        self._batch_capacity = batch_capacity
        self._shares = Shares(batch_capacity=batch_capacity, takes_turns=not kv.is_unified, can_rewind=kv.can_rewind)
        self.media = MediaSteps(self._shares, rows_ready)
        self.adapters = AdapterTurns(limits)
        self.drafter = drafter
        self._entrance = Entrance(kv, self._admitter, self.media.prefetch)
        self._slots = self._entrance.slots
        self._waiting = self._entrance.waiting
        self._entered: list[Sequence] = []
        """Admitted since the last step was planned."""
        self._now_s = -math.inf
        """When a step was last planned."""
        self._earliest_s = math.inf
        """Lower bound of all deadlines."""
        self._settled: list[Sequence] = []
        """The running sequences after a step in which each got its next token, with nothing else done or wanted."""

    @property
    def running(self) -> list[Sequence]:
        """Sequences that have a slot, in slot order."""
        return self._entrance.running

    @property
    def num_streams(self) -> int:
        """Number of running sequences whose answers have begun, without those that sit out."""
        running = self.running
        num_streams = sum(sequence.progress.num_generated > 0 for sequence in running)
        if num_streams < len(running):
            num_streams -= sum(each.progress.num_generated > 0 for each in resting(running, self._now_s))
        return num_streams

    @property
    def streams_are_due(self) -> bool:
        """Whether streams wait for the next step, since the last one computed only prompts."""
        return self._shares.is_streams_turn

    @property
    def num_hungry(self) -> int:
        """Number of sequences that wait for their first token only because their prompts are not computed."""
        running = self.running
        num_lacking = sum(sequence.progress.lacks_rows for sequence in running)
        num_resting = len(resting(running, self._now_s))
        return min(len(running) + len(self._waiting), len(self._slots)) - self.num_streams - num_lacking - num_resting

    @property
    def shares_cells(self) -> bool:
        """Whether several run in a unified cache, so that each attends to the others' cells."""
        return self.kv.is_unified and len(self.running) > 1

    @property
    def num_waiting(self) -> int:
        """Number of sequences that wait for their first slot."""
        return len(self._waiting) - self.num_parked

    @property
    def num_parked(self) -> int:
        """Number of sequences that gave their slots to others."""
        return sum(sequence.progress.was_admitted for sequence in self._waiting)

    @property
    def preemptions(self) -> Preemptions:
        return self._entrance.parking.counts

    def lowest(self) -> Sequence | None:
        """Any running sequence that gives its slot to whoever outranks it, if one does: the one of the lowest rank."""
        free = [one for one in self.running if self._now_s >= one.progress.stays_until_s]
        return max(free, key=rank, default=None)

    @property
    def awaited(self) -> list[Leader]:
        """The prefixes that waiting sequences wait for: of each running one that computes any, the shortest."""
        by_length = sorted(leaders_of(self._waiting), key=lambda leader: leader.until, reverse=True)
        return list({leader.sequence.id: leader for leader in by_length}.values())

    @property
    def has_work(self) -> bool:
        return bool(self._waiting) or any(sequence is not None for sequence in self._slots)

    def add(self, sequence: Sequence) -> None:
        """Queue a sequence whose prompt has 1 to `slot_capacity - 1` tokens."""
        num_prompt = sequence.progress.num_prompt
        if not 0 < num_prompt < self.slot_capacity:
            raise ValueError(f"a prompt of {num_prompt} tokens for slots of {self.slot_capacity}")
        self._entrance.add(sequence)
        due = sequence.request.due
        self._earliest_s = min(self._earliest_s, due.deadline_s, due.queue_deadline_s)

    def find(self, id: int) -> Sequence | None:
        for sequence in (*self.running, *self._waiting):
            if sequence.id == id:
                return sequence
        return None

    def expired(self, now_s: float) -> list[Sequence]:
        """Sequences whose deadline has passed."""
        if now_s < self._earliest_s or now_s < self.next_deadline_s():
            return []
        return [sequence for sequence in (*self.running, *self._waiting) if sequence.next_deadline_s <= now_s]

    def next_deadline_s(self) -> float:
        everybody = (*self.running, *self._waiting)
        self._earliest_s = min((sequence.next_deadline_s for sequence in everybody), default=math.inf)
        return self._earliest_s

    def remove(self, sequence: Sequence) -> int | None:
        """Forget a sequence, running or waiting; returns the slot that became free.

        Its KV stays for prompts with the same prefix, except what a shift moved.
        """
        slot = sequence.progress.ended()
        if sequence.drawing.follower is not None:
            sequence.drawing.follower.drop()
        if slot is None:
            self._entrance.remove(sequence)
        else:
            self._slots[slot] = None
            self._settled = []
            self.kv.residency.used([slot])
            self.kv.residency.changed(slot)
            if sequence.progress.num_shifted:
                self.kv.cut(slot, self.kv.residency.held[slot].sound)
        return slot

    def next_tokens(self, now_s: float) -> StepPlan | None:
        """The next step, if it is the next token of every sequence as in the previous step; None: call `plan`.

        Returns what `plan` would, without checking again what has not changed: a decode reads more memory than any
        cache holds, and the Python after it takes five times as long as in a loop of its own. Only a client that
        empties an idle slot meanwhile may make a move worthwhile: that waits for the next arrival or end.
        """
        if self._waiting or not self._settled or not self.adapters.continues(now_s):
            return None
        segments, num_resting = [], 0
        for sequence in self._settled:
            progress = sequence.progress
            held = progress.held
            num_pending = len(progress.tokens) - held.length
            if held.slot is None or num_pending > 1:
                return None
            if num_pending:
                segments.append(Segment(held.slot, held.length, progress.tokens[-1:], 1))
            else:
                num_resting += 1
        sequences = self._settled
        if num_resting:
            sequences = [sequence for sequence in sequences if sequence.progress.num_pending]
        return self.drafter.drafted(StepPlan(segments, sequences))

    def make_way(self, now_s: float) -> None:
        """Before the next step is planned: whoever outranks a running sequence enters now, as it changes what may be
        planned."""
        self._now_s = now_s
        if self._entrance.is_contested:
            self._entered += self._entrance.admit(now_s)

    def plan(
        self, budget: StepBudget, *, now_s: float, only: Sequence | None = None, whole: WholeBatches | None = None
    ) -> StepPlan:
        """The next step; empty when there is nothing to do. Call `commit` with every segment that was computed.

        `now_s` is on the clock of the sequences' times. At most `budget` tokens, but at least one for every running
        sequence; or `only` one running sequence. `whole` gives prompts more than the budget, if nothing streams.
        """
        changes = only is not None or bool(self._waiting)
        if only is None:
            self._now_s = now_s
            admitted, self._entered = self._entered + self._entrance.admit(now_s), []
            moved = self._close_ranks(admitted)
            if admitted:
                self.kv.apply(moving.compaction(self.kv))
            changes = changes or moved or bool(admitted)
        if only is not None:
            everybody = [only]
        else:
            out = resting(self.running, now_s)
            changes, everybody = changes or bool(out), [one for one in self.running if one not in out]
            everybody = self.adapters.in_turn(everybody, budget.cost, now_s, holds=self._shares.is_streams_turn)
        running = [sequence for sequence in everybody if sequence.progress.num_pending]
        """Except those that wait for something else before they draw their next token."""
        self.kv.residency.used(slot for slot, owner in enumerate(self._slots) if owner is not None)
        media = [sequence for sequence in self.running if sequence.progress.next_span is not None]
        if media:
            self.media.look(media)
            media = [sequence for sequence in media if sequence in running]
        if media:
            changes, running = True, [sequence for sequence in running if sequence.progress.next_span is None]
            if (rows := self.media.plan(media, running, self._waiting, budget, whole)) is not None:
                self._settled = []
                return rows
        prompts = running
        if whole is not None:
            prompts = whole.prompts(running, self._waiting)
            budget = whole.budget(budget, prompts, self._waiting)
        share = dict.fromkeys((sequence.id for sequence in running), 0) | self._shares.of(prompts, budget)
        num_scoring = sum(sequence.wants_scores and share[sequence.id] > 0 for sequence in running)
        segments, sequences = [], []
        for sequence in running:
            count = share[sequence.id]
            if count == 0:
                continue
            if sequence.wants_scores:
                count = min(count, max(1, budget.max_scored_tokens // num_scoring))
            progress = sequence.progress
            assert progress.slot is not None
            start = progress.num_computed
            if self._most_checkpoints:
                count = min(count, progress.next_checkpoint(SPACING) - start)
            end = start + count
            num_outputs = 1 if end == progress.num_tokens else 0
            if sequence.wants_scores and progress.can_score(end) > progress.num_scored:
                num_outputs = min(count, end - max(0, progress.num_scored - 1))
            segments.append(Segment(progress.slot, start, progress.tokens[start:end], num_outputs))
            sequences.append(sequence)
        self._settled = [] if changes or any(sequence.progress.is_prefilling for sequence in running) else everybody
        plan = StepPlan(segments, sequences)
        if only is not None:
            return plan
        room = self._batch_capacity - sum(len(segment.tokens) for segment in segments)
        return self.drafter.drafted(with_recomputed(plan, self.kv, budget.cost, room=room))

    def slot_status(self) -> tuple[SlotStatus, ...]:
        """What every slot holds, and for whom it computes."""
        both = zip(self.kv.residency.held, self._slots, strict=True)
        return tuple(SlotStatus(None, held.length) if owner is None else owner.slot_status() for held, owner in both)

    def to_restore(self, slot: int, entry: HostEntry) -> list[Operation] | None:
        """Operations that make an idle slot hold an entry; None: in a unified cache, running sequences need the
        room."""
        return self._admitter.to_restore(slot, entry, self._entrance.free, self.running)

    def forget(self, sequence: Sequence) -> None:
        """Empty the slot of a running sequence: all of its tokens are pending again."""
        assert sequence.slot is not None
        self.kv.cut(sequence.slot, 0)
        sequence.progress.must_recompute(from_nothing=True)

    def roll_back(self, sequence: Sequence, length: int) -> None:
        """Cut what was computed of a running sequence; what its memory loses beyond that is recomputed."""
        assert sequence.slot is not None
        if self.kv.cut(sequence.slot, length) < length:
            sequence.progress.must_recompute()

    def commit(self, segment: Segment, sequence: Sequence) -> bool:
        """Record that a segment's tokens are in the KV cache. Returns whether a checkpoint is wanted there.

        Tokens after the sequence's own belong to no sequence until they are taken: see `advance`.
        """
        progress = sequence.progress
        end = min(segment.start + len(segment.tokens), progress.num_tokens)
        self.kv.written(segment.slot, segment.start, progress.cache_ids(segment.start, end))
        if segment.media is not None:
            self.kv.began(segment.slot, segment.start, segment.media.extent)
        if not self._most_checkpoints or progress.num_computed >= progress.num_prompt:
            return False
        if progress.num_computed in progress.pauses:
            return True
        return progress.num_computed % SPACING == 0 and not progress.is_within_span

    def advance(self, sequence: Sequence) -> None:
        """Record that the last token taken is already in the KV cache: it was computed as a guess or forced token."""
        assert sequence.slot is not None
        progress = sequence.progress
        self.kv.written(sequence.slot, progress.num_computed, progress.cache_ids(progress.num_tokens - 1))

    def check_integrity(self) -> None:
        """Every slot holds exactly what its sequence computed, and no running sequence waits. Raises
        `AssertionError`."""
        for slot, sequence in enumerate(self._slots):
            held = self.kv.residency.held[slot]
            if sequence is not None:
                id, progress = sequence.id, sequence.progress
                assert progress.held is held, f"request {id} is in slot {slot}, not {progress.slot}"
                computed = progress.cache_ids(0, progress.num_computed)
                assert held.tokens.tolist() == computed, f"slot {slot} does not hold what request {id} computed"
                assert held.domain == sequence.request.domain, f"slot {slot} holds what request {id} must not know"
                assert progress.num_cached < progress.num_prompt, f"request {id} computed none of its prompt"
        self._entrance.check_integrity()

    def _close_ranks(self, admitted: list[Sequence]) -> bool:
        """Move the highest running sequence into the lowest free slot below it, while that pays. Returns whether any
        moved.

        One that was just admitted stays for this step: a copy into its slot is still pending.
        """
        moved = False
        while True:
            running = self.running
            free = next((slot for slot, owner in enumerate(self._slots) if owner is None), len(self._slots))
            last = running[-1] if running else None
            if last is None or last.slot is None or free > last.slot or any(last is new for new in admitted):
                return moved
            if last.request.reuse.wanted_slot is not None:
                return moved
            together = [one for one in running if one.request.adapters == last.request.adapters]
            if not moving.pays(self.kv, last, free, [one.slot for one in together if one.slot is not None]):
                return moved
            source = last.slot
            self.kv.apply(self._move(last, source, free))
            last.progress.moved(self.kv.residency.held[free])
            self._slots[source], self._slots[free] = None, last
            moved = True

    def _move(self, sequence: Sequence, source: int, free: int) -> list[Operation]:
        save: list[Operation] = [Save(free)] if self._admitter.is_worth_saving(free) else []
        copy = Copy(source, free, sequence.progress.num_computed, sequence.request.domain)
        return [*save, copy, Truncate(source, 0)]
