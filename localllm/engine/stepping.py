"""One step: decode what was planned, learn what it cost, draw a token for each sequence that has caught up.

Where a batch fails, each of its sequences is computed alone, so that only the culprit fails. Knows nothing of what
arrives and of who is admitted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from localllm.engine.answering import Answers
from localllm.engine.backend import Backend, BackendError
from localllm.engine.cache.kvcache import KvCache
from localllm.engine.cache.scrubbing import scrub
from localllm.engine.inbox import StepOutput
from localllm.engine.sampling.prompt_logprobs import PromptScorer
from localllm.engine.sampling.sampler import NO_TOKEN_REASONS, NOT_FINITE, Sampler
from localllm.engine.scheduling.pace import Pace
from localllm.engine.scheduling.scheduler import Scheduler, StepPlan
from localllm.engine.sequence import Sequence
from localllm.types import Delta


class Stepper:
    """Used by the engine's thread."""

    def __init__(
        self,
        backend: Backend,
        kv: KvCache,
        scheduler: Scheduler,
        answers: Answers,
        sampler: Sampler,
        *,
        pace: Pace,
        scorer: PromptScorer,
        clock: Callable[[], float],
    ) -> None:
        self._backend = backend
        self._kv = kv
        self._scheduler = scheduler
        self._answers = answers
        self._sampler = sampler
        self._pace = pace
        self._scorer = scorer
        self._clock = clock
        self._suspects: deque[tuple[Sequence, int]] = deque()
        """Who has to be computed alone, until it is as far as it was."""

    def next_suspect(self) -> Sequence | None:
        """One of those that have to be computed alone, until it is as far as it was."""
        while self._suspects:
            sequence, num_tokens = self._suspects[0]
            if sequence.slot is not None and sequence.num_computed < num_tokens:
                return sequence
            self._suspects.popleft()
        return None

    def compute(self, plan: StepPlan, output: StepOutput) -> None:
        """Decode the plan in one batch; if that fails, each of its sequences alone, so that only the culprit fails."""
        started, moves_cells = self._clock(), self._kv.pending.any
        try:
            self._kv.decode(plan.segments)
        except BackendError as error:
            self._isolate(plan, str(error), output)
            return
        scores = self._scorer.score(plan.segments, plan.sequences)
        if scores:
            self._scorer.observe(plan.segments, self._clock() - started, self._scheduler.num_streams)
        elif not moves_cells:  # the time of a copy's cells, which move with the decode, says nothing of tokens
            self._learn_pace(plan, self._clock() - started)
        for segment, sequence in zip(plan.segments, plan.sequences, strict=True):
            if self._scheduler.commit(segment, sequence):
                self._kv.checkpoint(segment.slot)
        for sequence, prompt_logprobs in scores:
            if prompt_logprobs is None:
                self._answers.fail(sequence, "it gave no token any probability", output)
            else:
                output.deltas.append((sequence.id, Delta(prompt_logprobs=prompt_logprobs)))
        if not (ready := self._ready(plan, output)):
            return
        sequences = [plan.sequences[index] for index in ready]
        rows = [self._backend.logits(index) for index in ready]
        params = [sequence.sampler_params() for sequence in sequences]
        drawn = list(zip(sequences, self._sampler.sample(rows, params), strict=True))
        is_spoiled = any(sampled.token == NOT_FINITE for _, sampled in drawn)
        if is_spoiled and not self._suspects and self._scheduler.shares_cells:
            drawn = []  # all of them look at all cells: whose numbers spoil the others' is found out one by one
        for sequence, sampled in drawn:
            if sampled.token < 0:
                self._answers.fail(sequence, NO_TOKEN_REASONS[sampled.token], output)
        if is_spoiled:
            self._suspects.extend((one, one.num_tokens) for one in scrub(self._kv, self._scheduler))
        for sequence, sampled in drawn:
            if sampled.token >= 0:
                sequence.sampled(sampled.mirostat_mu)
                output.deltas.append((sequence.id, self._answers.take_token(sequence, sampled)))

    def _ready(self, plan: StepPlan, output: StepOutput) -> list[int]:
        """The segments from which a token is sampled. A request that wants none ends here."""
        ready = []
        for index, (segment, sequence) in enumerate(zip(plan.segments, plan.sequences, strict=True)):
            if not segment.wants_token or sequence.slot is None:
                continue
            if sequence.max_tokens == 0:
                output.deltas.append((sequence.id, self._answers.finish(sequence, "length")))
            else:
                ready.append(index)
        return ready

    def _learn_pace(self, plan: StepPlan, seconds: float) -> None:
        prompts = [len(segment.tokens) for segment in plan.segments if len(segment.tokens) > 1]
        tiled = bool(prompts) and max(prompts) >= self._pace.tile
        self._pace.observe(len(plan.segments) - len(prompts), sum(prompts), seconds, tiled=tiled)

    def _isolate(self, plan: StepPlan, reason: str, output: StepOutput) -> None:
        """After a decode that failed, of which only what stood in the slots before is sure.

        A memory that cannot go back to that is emptied, and its sequences are computed from their beginning, one after
        the other, while everybody else waits.
        """
        if len(plan.segments) == 1:
            self._answers.fail(plan.sequences[0], reason, output)
        elif self._backend.can_rewind:
            for segment in plan.segments:
                self._kv.cut(segment.slot, segment.start)
            for segment, sequence in zip(plan.segments, plan.sequences, strict=True):
                self.compute(StepPlan([segment], [sequence]), output)
        else:
            for sequence in plan.sequences:
                self._scheduler.forget(sequence)
            self._suspects.extend((sequence, sequence.num_tokens) for sequence in plan.sequences)
