"""The loop of a worker's engine thread: take requests, plan a step, decode, sample, emit text.

`submit` and `cancel` may be called from any thread; everything else happens on the thread that calls `run`. Knows
nothing of processes, templates or llama.cpp.
"""

from __future__ import annotations

import math
import queue
import time
from collections.abc import Callable
from collections.abc import Sequence as Many
from typing import NamedTuple

from localllm.engine.answers.answering import Answers
from localllm.engine.backend import Backend, Beside
from localllm.engine.cache.kvcache import SLOTS_ONLY, KvCache, Tiers
from localllm.engine.cache.writeback import Writeback
from localllm.engine.constraint.masking import Masking
from localllm.engine.decoding import Decoder
from localllm.engine.inbox import Call, Cancel, Inbox, Inspect, Item, Stop
from localllm.engine.inbox import StepOutput as StepOutput
from localllm.engine.progress import Progress
from localllm.engine.requests.sequence import Sequence
from localllm.engine.sampling.drawing import Drawer
from localllm.engine.sampling.prompt_logprobs import PromptScorer
from localllm.engine.sampling.sampler import NumpySampler, Sampler
from localllm.engine.scheduling.cost import StepCost
from localllm.engine.scheduling.pace import DEFAULT_LIMITS, Pace, StepLimits
from localllm.engine.scheduling.plan import StepPlan
from localllm.engine.scheduling.scheduler import Scheduler
from localllm.engine.scheduling.waits import Leader
from localllm.engine.scheduling.whole import Interruptions, WholeBatches
from localllm.engine.slots import ClientSlots
from localllm.engine.speculation.proposers import NOBODY, Proposers
from localllm.engine.stepping import Stepper
from localllm.engine.threads.team import Team
from localllm.errors import InvalidParameter, RequestTimeout
from localllm.types.states import EngineStatus

LOOK_UP_S = 0.05
"""Poll interval for deadlines while every request waits for the disk or for a mask."""
HEEDED_S = 0.05
"""While nothing streams, an arriving item ends the step with its current ubatch, at the latest after this time."""
EARLY_S = 0.05
"""A step that began less than this ago is ended at once: little is lost."""
STORE_AFTER_S = 2.0
"""Idle time after which a conversation is written to the disk."""


class _Decoding(NamedTuple):
    """What interrupting threads know of a decode that may be interrupted."""

    began_s: float
    ids: frozenset[int]
    """Sequences that have a slot."""
    has_room: bool
    """Whether another request could enter."""
    awaited: Many[Leader] = ()
    """The prefixes it computes that others wait for: a request that begins with one would wait, too."""


class Engine:
    """Feeds every slot of one backend."""

    def __init__(
        self,
        backend: Backend,
        emit: Callable[[StepOutput], None],
        *,
        sampler: Sampler | None = None,
        limits: StepLimits = DEFAULT_LIMITS,
        tiers: Tiers = SLOTS_ONLY,
        proposers: Proposers = NOBODY,
        context_shift: bool = False,
        debug: bool = False,
        beside: Beside | None = None,
        team: Team | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.kv = KvCache(backend, tiers)
        self.scheduler = Scheduler(self.kv, batch_capacity=backend.batch_capacity)
        self.scheduler.drafter.max_rows = min(backend.batch_capacity, backend.max_outputs)
        cost = StepCost(tile=backend.tile, grain=backend.grain, ubatch_tokens=backend.ubatch_capacity)
        pace = self._pace = Pace(cost, limits, is_unified=self.kv.is_unified)
        self.scheduler.drafter.cost = pace.row_cost
        self.scheduler.drafter.weighs_one_row = pace.row_cost.lacks_one_row
        if proposers.together is not None:
            self.scheduler.drafter.weighs_one_row = lambda _: True
            proposers.together.weigh(
                pace.row_cost, max_rollback=backend.max_rollback, rolls_back_equals=backend.rolls_back_equals
            )
        if context_shift and not backend.can_shift:
            raise InvalidParameter(
                "context_shift needs a partitioned cache, a memory that can drop any tokens, and keys that can move: "
                "f16 always can, --kv-type q8_0 and q4_0 only for some models; leave it out",
                param="context_shift",
            )
        self.slots = ClientSlots(self.kv, self.scheduler)
        """Only for functions passed to `call_soon`."""
        self.num_steps = 0
        self.progress = Progress(lambda: backend.num_nodes)
        self.clock = clock
        self._backend = backend
        sampler = sampler or NumpySampler()
        self._scorer = PromptScorer(backend, sampler, limits, team)
        self._answers = Answers(backend, self.kv, self.scheduler, clock, shifts=context_shift)
        self._whole = WholeBatches(cost, batch_capacity=backend.batch_capacity, ubatch_capacity=backend.ubatch_capacity)
        self._interruptions = Interruptions()
        self._team = team
        self._proposers = proposers
        masking = self._masking = Masking(lambda: self.call_soon(lambda: None))
        self._stepper = Stepper(
            backend,
            self.scheduler,
            decoder=Decoder(
                backend,
                self.kv,
                masking=masking,
                interruptions=self._interruptions,
                team=team,
                clock=clock,
                report_last=self._report_last,
            ),
            pace=pace,
            scorer=self._scorer,
            drawer=Drawer(backend, sampler, masking, team),
            masking=masking,
            answers=self._answers,
            clock=clock,
        )
        self._emit = emit
        self._unreported: StepOutput | None = None
        """Output of the last step, if it is reported while the next one is computed."""
        self._debug = debug
        self.writeback = None if tiers.disk is None else Writeback(self.kv, tiers.disk)
        self._computed_something = True
        self._idle_since_s: float | None = None
        """When the engine ran out of requests; None: it computes, or has not looked since."""
        if tiers.disk is not None:
            tiers.disk.wake = lambda: self.call_soon(lambda: None)
        self._beside = beside
        self._max_step_s = limits.max_step_s
        self._inbox = Inbox(self._interrupt_for, backend.clear_interrupts)
        self._decoding = _Decoding(-math.inf, frozenset(), has_room=False)
        self._stopping = False

    def submit(self, sequence: Sequence) -> None:
        self._inbox.put(sequence)

    def cancel(self, id: int) -> None:
        """The request ends with finish `cancelled` before the next step; an unknown id belongs to one that has
        ended."""
        self._inbox.put(Cancel(id))

    def inspect(self, callback: Callable[[EngineStatus], None]) -> None:
        """`callback` is called on the engine's thread before the next step."""
        self._inbox.put(Inspect(callback))

    def call_soon(self, work: Callable[[], None]) -> None:
        """`work` is called on the engine's thread before the next step."""
        self._inbox.put(Call(work))

    def stop(self) -> None:
        self._masking.stop()
        self._inbox.put(Stop())

    def run(self) -> None:
        """Step while there is work, and otherwise sleep on the inbox, until `stop`.

        In debug mode integrity is checked before every sleep; a violation ends the worker.
        """
        while not self._stopping:
            if self._debug and not self.scheduler.has_work:
                self.check_integrity()
            item = self._next_item()
            self.progress.advance()
            self.step(item)
        if self.writeback is not None:
            self.writeback.store_all(self.progress.advance)

    def _next_item(self) -> Item | None:
        """What arrived, if there is nothing to compute; otherwise computing comes first."""
        has_texts = self._beside is not None and self._beside.has_work
        if has_texts or (self.scheduler.has_work and self._computed_something):
            return None
        timeout_s = LOOK_UP_S if self.scheduler.has_work else self._store_in_s()
        self.progress.rest()
        self._backend.rest()
        try:
            return self._inbox.wait(timeout_s)
        except queue.Empty:
            if self.writeback is not None and not self.scheduler.has_work:
                self.progress.advance()
                self.writeback.store_while(self._inbox.empty)
            return None

    def _store_in_s(self) -> float | None:
        """Time until an idle engine writes to the disk, however often its status is asked for; None: never."""
        if self.writeback is None or self.writeback.next() is None:
            return None
        now_s = self.clock()
        if self._idle_since_s is None:
            self._idle_since_s = now_s
        return max(0.0, self._idle_since_s + STORE_AFTER_S - now_s)

    def check_integrity(self) -> None:
        """The scheduler is consistent, and every slot holds what is recorded. Raises `AssertionError`."""
        self.scheduler.check_integrity()
        self.kv.check_integrity()

    def step(self, first: Item | None = None) -> None:
        """Take what arrived (`first` before the rest), then compute at most one batch.

        Emits the output; if a device computes the next step by itself, during that step.
        """
        output = StepOutput(self.num_steps, [], [])
        self._take_inbox(first, output)
        if self._stopping:
            self._report_last()
            self._emit_all(output)
            return
        now_s = self.clock()
        self._end_expired(now_s, output)
        self._stepper.draw_late(output)
        suspect = self._stepper.next_suspect()
        may_interrupt = self._may_interrupt and suspect is None
        self._proposers.ask(self.scheduler.running)
        plan = self.scheduler.next_tokens() if suspect is None else None
        if plan is None:
            budget = self._pace.budget(self.scheduler.num_streams, self.scheduler.num_hungry)
            self.scheduler.max_scored_tokens = self._scorer.max_tokens(self.scheduler.num_streams)
            has_texts = self._beside is not None and self._beside.has_work
            is_long = may_interrupt and not has_texts and (self._team is None or not self._team.may_soon_grow())
            self.scheduler.whole = self._whole if is_long else None
            plan = self.scheduler.plan(budget, now_s=now_s, only=suspect)
        self._computed_something = bool(plan.segments)
        if plan.segments:
            self._idle_since_s = None
            if self._unreported is not None and any(sequence.is_prefilling for sequence in plan.sequences):
                self._report_last()  # with several ubatches `decode` returns when the last has begun
            within_s = self._listen(plan) if may_interrupt else None
            if within_s is not None and (output.deltas or output.failures):
                self._report_last()
                self._emit(output)  # the batch may take long
                output = StepOutput(self.num_steps, [], [])
            self._stepper.compute(plan, output, within_s=within_s)
            self.num_steps += 1
        self._report_last()
        self._unreported = output
        if not self._reports_later:
            self._report_last()
        if self._beside is not None and not self.scheduler.streams_are_due:
            self._beside.step(self.scheduler.num_streams)

    @property
    def _reports_later(self) -> bool:
        """Whether the next step begins at once, and no request waits for its first token."""
        if not self._backend.is_asynchronous or not self._computed_something or not self.scheduler.has_work:
            return False
        has_texts = self._beside is not None and self._beside.has_work
        return not has_texts and not any(taken.is_first for taken in self._answers.unreported)

    def _report_last(self) -> None:
        output, self._unreported = self._unreported, None
        if output is None:
            return
        self._answers.report(output)
        self._emit_all(output)

    @property
    def _may_interrupt(self) -> bool:
        """Whether the next decode may be interrupted: only while nothing streams, because prompts then get whole
        batches."""
        can = self._backend.can_be_interrupted and self._interruptions.are_allowed
        return can and self.scheduler.num_streams == 0

    def _listen(self, plan: StepPlan) -> float | None:
        """How long the decode may run until some deadline; None: it must not be interrupted."""
        if any(sequence.wants_scores for sequence in plan.sequences):
            return None  # what was computed but not scored would have to be recomputed
        running = self.scheduler.running
        now_s = self.clock()
        ids, has_room = frozenset(sequence.id for sequence in running), len(running) < self._backend.num_slots
        self._decoding = _Decoding(now_s, ids, has_room=has_room, awaited=self.scheduler.awaited)
        return max(0.0, self.scheduler.next_deadline_s() - now_s)

    def _interrupt_for(self, item: Item) -> None:
        """End a step for an arriving item, on the item's thread: soon, or where ending it costs nothing.

        A request that finds no slot, or waits for a prefix that the step computes, does not start any sooner, but its
        deadline may pass. What is read here may be one step old; then a request waits for as long as an uninterrupted
        step takes.
        """
        if not self._backend.can_be_interrupted:
            return
        step, now_s = self._decoding, self.clock()
        if isinstance(item, Sequence) and (not step.has_room or any(each.serves(item) for each in step.awaited)):
            within_s = item.next_deadline_s - now_s
        elif isinstance(item, Inspect) or (isinstance(item, Cancel) and item.id not in step.ids):
            within_s = self._max_step_s
        else:
            is_last = isinstance(item, Cancel) and len(step.ids) == 1
            within_s = 0.0 if is_last or now_s - step.began_s < EARLY_S else HEEDED_S
        self._backend.interrupt(max(0.0, within_s))

    def _emit_all(self, output: StepOutput) -> None:
        if output.deltas or output.failures:
            self._emit(output)

    def _take_inbox(self, first: Item | None, output: StepOutput) -> None:
        if first is not None:
            self._take(first, output)
        while items := self._inbox.take_all():
            for item in items:
                self._take(item, output)

    def _take(self, item: Item, output: StepOutput) -> None:
        if isinstance(item, Sequence):
            self.scheduler.add(item)
        elif isinstance(item, Cancel):
            sequence = self.scheduler.find(item.id)
            if sequence is not None:
                self._report_last()
                output.deltas.append((item.id, self._answers.finish(sequence, "cancelled")))
        elif isinstance(item, Inspect):
            item.callback(self._status())
        elif isinstance(item, Call):
            item.work()
        else:
            self._stopping = True

    def _status(self) -> EngineStatus:
        scheduler = self.scheduler
        return EngineStatus(
            slots=scheduler.slot_status(),
            num_waiting=scheduler.num_waiting,
            num_steps=self.num_steps,
            host_cache_bytes=self.kv.num_bytes,
            host_cache_entries=len(self.kv.host.entries),
            num_threads=0 if self._team is None else self._team.num_threads,
            guesses=tuple(self._answers.guesses.values()),
        )

    def _end_expired(self, now_s: float, output: StepOutput) -> None:
        for sequence in self.scheduler.expired(now_s):
            self._report_last()
            if sequence.first_token_s is not None:
                output.deltas.append((sequence.id, self._answers.finish(sequence, "timeout", sequence.text.flush())))
                continue
            waited = "its prompt was not computed" if sequence.slot is not None else "no slot was free"
            self.scheduler.remove(sequence)
            if sequence.deadline_s <= now_s:
                seconds, whose = sequence.deadline_s, "the request allows (timeout)"
            else:
                seconds, whose = sequence.queue_deadline_s, "a request may wait (queue_timeout_s)"
            error = RequestTimeout(f"{waited} within the {seconds - sequence.created_s:.3g} s that {whose}")
            output.failures.append((sequence.id, error))
