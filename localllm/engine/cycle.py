"""One cycle of the engine: end what is due, decide a step, compute it, report it, then a piece of other work.

Knows nothing of threads and of how items arrive.
"""

from __future__ import annotations

from collections.abc import Callable

from localllm.engine.answers.answering import Answers
from localllm.engine.backend import Beside
from localllm.engine.inbox import StepOutput
from localllm.engine.planning import Planner
from localllm.engine.reporting import Reporter
from localllm.engine.requests.sequence import Sequence
from localllm.engine.scheduling.scheduler import Scheduler
from localllm.engine.stepping import Stepper
from localllm.errors import RequestTimeout
from localllm.types.states import EngineStatus


class Cycle:
    """Used by the engine's thread, except for `stop`."""

    def __init__(
        self,
        scheduler: Scheduler,
        *,
        planner: Planner,
        stepper: Stepper,
        answers: Answers,
        reporter: Reporter,
        beside: Beside | None,
        clock: Callable[[], float],
    ) -> None:
        self.scheduler = scheduler
        self.reporter = reporter
        self.num_steps = 0
        """Steps computed so far."""
        self.computed_something = True
        """Whether the last cycle computed a step; otherwise all sequences, if there are any, are blocked."""
        self._media = scheduler.media
        self._planner = planner
        self._stepper = stepper
        self._answers = answers
        self._beside = beside
        self._clock = clock

    @property
    def has_texts(self) -> bool:
        """Whether texts to embed wait."""
        return self._beside is not None and self._beside.has_work

    @property
    def must_wait(self) -> bool:
        """Whether there is nothing to compute before something arrives or a deadline passes."""
        return not self.has_texts and not (self.scheduler.has_work and self.computed_something)

    def run(self, output: StepOutput) -> None:
        """Compute at most one batch. `output`: what was produced by arrivals before it.

        Emits the output; if a device computes the next step by itself, during that step.
        """
        now_s = self._clock()
        self._end_expired(now_s, output)
        if self._media.lacking:
            self._end_without_rows(output)
        self._stepper.draw_late(output)
        suspect = self._stepper.next_suspect()
        plan, within_s = self._planner.plan(now_s=now_s, only=suspect, has_texts=self.has_texts)
        self.computed_something = bool(plan.segments)
        if plan.segments:
            if self.reporter.has_unreported and any(sequence.progress.is_prefilling for sequence in plan.sequences):
                self.reporter.report_last()  # with several ubatches `decode` returns when the last has begun
            if within_s is not None and (output.deltas or output.failures):
                self.reporter.report_last()
                self.reporter.send(output)  # the batch may take long
                output = StepOutput(self.num_steps, [], [])
            self._stepper.compute(plan, output, within_s=within_s)
            self.num_steps += 1
        self.reporter.report_last()
        self.reporter.keep(output)
        if not self._reports_later:
            self.reporter.report_last()
        if self._beside is not None and not self.scheduler.streams_are_due:
            self._beside.step(self.scheduler.num_streams)

    def cancel(self, id: int, output: StepOutput) -> None:
        """The request ends with finish `cancelled`; an unknown id belongs to one that has ended."""
        sequence = self.scheduler.find(id)
        if sequence is not None:
            self.reporter.report_last()
            output.deltas.append((id, self._answers.finish(sequence, "cancelled")))

    def stop(self) -> None:
        """From any thread: no further cycle follows."""
        self._stepper.stop()

    def status(self) -> EngineStatus:
        scheduler, kv = self.scheduler, self.scheduler.kv
        return EngineStatus(
            slots=scheduler.slot_status(),
            num_waiting=scheduler.num_waiting,
            num_steps=self.num_steps,
            host_cache_bytes=kv.num_bytes,
            host_cache_entries=len(kv.host.entries),
            num_threads=self._stepper.num_threads,
            guesses=tuple(self._answers.guesses.values()),
            num_parked=scheduler.num_parked,
            preemptions=scheduler.preemptions,
            adapters=self._stepper.adapter_status,
        )

    @property
    def _reports_later(self) -> bool:
        """Whether the next step begins at once, and no request waits for its first token."""
        if not self._stepper.is_asynchronous or not self.computed_something or not self.scheduler.has_work:
            return False
        return not self.has_texts and not any(taken.is_first for taken in self._answers.unreported)

    def _end_without_rows(self, output: StepOutput) -> None:
        """Sequences whose media rows cannot be had fail; what was computed before these stays cached."""
        for sequence, failure in self._media.without_rows():
            self.reporter.report_last()
            output.failures.append((sequence.id, failure))
            self.scheduler.remove(sequence)

    def _end_expired(self, now_s: float, output: StepOutput) -> None:
        for sequence in self.scheduler.expired(now_s):
            self.reporter.report_last()
            if sequence.progress.first_token_s is not None:
                last = sequence.progress.text.flush()
                output.deltas.append((sequence.id, self._answers.finish(sequence, "timeout", last)))
            else:
                output.failures.append((sequence.id, _timeout(sequence, now_s)))
                self.scheduler.remove(sequence)


def _timeout(sequence: Sequence, now_s: float) -> RequestTimeout:
    """Of a request that has no token yet."""
    due = sequence.request.due
    waited = "its prompt was not computed" if sequence.progress.was_admitted else "no slot was free"
    if due.deadline_s <= now_s:
        seconds, whose = due.deadline_s, "the request allows (timeout)"
    else:
        seconds, whose = due.queue_deadline_s, "a request may wait (queue_timeout_s)"
    return RequestTimeout(f"{waited} within the {seconds - due.created_s:.3g} s that {whose}")
