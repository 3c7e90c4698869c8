"""The loop of a worker's engine thread: take requests, plan a step, decode, sample, emit text.

`submit` and `cancel` may be called from any thread; everything else happens on the thread that calls `run`. Made by
`building.build_engine`. Knows nothing of processes, templates or llama.cpp.
"""

from __future__ import annotations

from collections.abc import Callable

from localllm.engine.cache.writeback import Writeback
from localllm.engine.cycle import Cycle
from localllm.engine.idling import Idler
from localllm.engine.inbox import Call, Cancel, Inbox, Inspect, Item, RowsReady, Stop
from localllm.engine.inbox import StepOutput as StepOutput
from localllm.engine.progress import Progress
from localllm.engine.requests.sequence import Sequence
from localllm.engine.slots import ClientSlots
from localllm.types.states import EngineStatus


class Engine:
    """Feeds every slot of one backend."""

    def __init__(
        self,
        inbox: Inbox,
        cycle: Cycle,
        idler: Idler,
        *,
        progress: Progress,
        clock: Callable[[], float],
        debug: bool = False,
    ) -> None:
        self.scheduler = cycle.scheduler
        self.kv = cycle.scheduler.kv
        self.slots = ClientSlots(self.kv, self.scheduler)
        """Only for functions passed to `call_soon`."""
        self.progress = progress
        self.clock = clock
        self._inbox = inbox
        self._cycle = cycle
        self._idler = idler
        self._debug = debug
        self._stopping = False

    @property
    def num_steps(self) -> int:
        return self._cycle.num_steps

    @property
    def writeback(self) -> Writeback | None:
        """None if there is no disk."""
        return self._idler.writeback

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
        self._cycle.stop()
        self._inbox.put(Stop())

    def run(self) -> None:
        """Step while there is work, and otherwise sleep on the inbox, until `stop`.

        In debug mode integrity is checked before every sleep; a violation ends the worker.
        """
        while not self._stopping:
            if self._debug and not self.scheduler.has_work:
                self.check_integrity()
            item = self._idler.wait(has_requests=self.scheduler.has_work) if self._cycle.must_wait else None
            self.progress.advance()
            self.step(item)
        self._idler.end()

    def check_integrity(self) -> None:
        """The scheduler is consistent, and every slot holds what is recorded. Raises `AssertionError`."""
        self.scheduler.check_integrity()
        self.kv.check_integrity()

    def step(self, first: Item | None = None) -> None:
        """Take what arrived (`first` before the rest), then compute at most one batch and emit the output."""
        output = StepOutput(self.num_steps, [], [])
        self._take_inbox(first, output)
        if self._stopping:
            self._cycle.reporter.report_last()
            self._cycle.reporter.send(output)
            return
        self._cycle.run(output)
        if self._cycle.computed_something:
            self._idler.computed()

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
            self._cycle.cancel(item.id, output)
        elif isinstance(item, Inspect):
            item.callback(self._cycle.status())
        elif isinstance(item, Call):
            item.work()
        elif not isinstance(item, RowsReady):
            self._stopping = True
