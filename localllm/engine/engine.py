"""The loop of a worker's engine thread: take requests, plan a step, decode, sample, hand out text.

`submit` and `cancel` may be called from any thread; everything else happens on the thread that calls `run`.
Knows nothing of processes, templates or llama.cpp.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from typing import NamedTuple

from localllm.engine.backend import Backend, BackendError
from localllm.engine.scheduler import Scheduler, StepPlan
from localllm.engine.sequence import Sequence
from localllm.errors import InternalError, LocalLLMError
from localllm.types import Delta, Finish, FinishReason


class StepOutput(NamedTuple):
    """All that one step made: (request id, delta or error)."""

    step: int
    deltas: list[tuple[int, Delta]]
    failures: list[tuple[int, LocalLLMError]]


class _Cancel(NamedTuple):
    id: int


class _Stop(NamedTuple):
    pass


_EMPTY = Delta()
_Item = Sequence | _Cancel | _Stop


class Engine:
    """Feeds every slot of one backend."""

    def __init__(
        self,
        backend: Backend,
        emit: Callable[[StepOutput], None],
        *,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.scheduler = Scheduler(
            num_slots=backend.num_slots, slot_capacity=backend.slot_capacity, batch_capacity=backend.batch_capacity
        )
        self.num_steps = 0
        self.clock = clock
        self._backend = backend
        self._emit = emit
        self._inbox: queue.SimpleQueue[_Item] = queue.SimpleQueue()
        self._stopping = False

    def submit(self, sequence: Sequence) -> None:
        self._inbox.put(sequence)

    def cancel(self, id: int) -> None:
        """The request ends with finish `cancelled` before the next step; an unknown id is one that ended already."""
        self._inbox.put(_Cancel(id))

    def stop(self) -> None:
        self._inbox.put(_Stop())

    def run(self) -> None:
        """Step while there is work, sleep on the inbox while there is none, until `stop`."""
        while not self._stopping:
            self.step(None if self.scheduler.has_work else self._inbox.get())

    def step(self, first: _Item | None = None) -> None:
        """Take what arrived (`first` before the rest), then compute at most one batch; emits at most one output."""
        output = StepOutput(self.num_steps, [], [])
        self._take_inbox(first, output)
        plan = self.scheduler.plan()
        now = self.clock()
        for sequence in plan.admitted:
            assert sequence.slot is not None
            sequence.admitted_s = now
            self._backend.open(sequence.slot, sequence.sampling)
        if plan.segments:
            self._compute(plan, output)
            self.num_steps += 1
        if output.deltas or output.failures:
            self._emit(output)

    def _take_inbox(self, item: _Item | None, output: StepOutput) -> None:
        while True:
            if isinstance(item, Sequence):
                self.scheduler.add(item)
            elif isinstance(item, _Cancel):
                sequence = self.scheduler.find(item.id)
                if sequence is not None:
                    output.deltas.append((item.id, self._finish(sequence, "cancelled")))
            elif isinstance(item, _Stop):
                self._stopping = True
            try:
                item = self._inbox.get_nowait()
            except queue.Empty:
                return

    def _compute(self, plan: StepPlan, output: StepOutput) -> None:
        try:
            self._backend.decode(plan.segments)
        except BackendError as error:
            for sequence in plan.sequences:
                self._release(sequence)
                output.failures.append((sequence.id, InternalError(f"the model failed to compute a step: {error}")))
            return
        self.scheduler.commit(plan)
        for index, sequence in enumerate(plan.sequences):
            if plan.segments[index].wants_token:
                delta = self._take_token(sequence, self._backend.sample(index))
                if delta is not None:
                    output.deltas.append((sequence.id, delta))

    def _take_token(self, sequence: Sequence, token: int) -> Delta | None:
        """Append a sampled token; the delta to send, if any text or an end came of it."""
        if sequence.first_token_s is None:
            sequence.first_token_s = self.clock()
        if self._backend.ends_generation(token) and not sequence.ignore_eos:
            return self._finish(sequence, "stop", Delta(text=sequence.text.flush()))
        sequence.tokens.append(token)
        text = sequence.text.feed(self._backend.token_bytes(token))
        if sequence.text.stopped:
            return self._finish(sequence, "stop", Delta(text=text, num_tokens=1))
        reason = sequence.limit_reached(self.scheduler.slot_capacity)
        if reason is not None:
            return self._finish(sequence, reason, Delta(text=text + sequence.text.flush(), num_tokens=1))
        return Delta(text=text, num_tokens=1)

    def _finish(self, sequence: Sequence, reason: FinishReason, last: Delta = _EMPTY) -> Delta:
        self._release(sequence)
        finish = Finish(reason=reason, usage=sequence.usage(), timings=sequence.timings(self.clock()))
        return Delta(text=last.text, num_tokens=last.num_tokens, finish=finish)

    def _release(self, sequence: Sequence) -> None:
        slot = self.scheduler.remove(sequence)
        if slot is not None:
            self._backend.close(slot)
