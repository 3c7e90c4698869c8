"""One step: decode what was planned, learn what it cost, draw a token for each sequence that has caught up.

Where a batch fails, each of its sequences is computed alone, so that only the culprit fails. Knows nothing of arrivals
and admission.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from localllm.engine.answers.answering import Answers
from localllm.engine.answers.scrubbing import scrub
from localllm.engine.backend import BackendError
from localllm.engine.constraint.masking import Masking
from localllm.engine.decoding import StepDecoder
from localllm.engine.inbox import StepOutput
from localllm.engine.requests.sequence import Sequence
from localllm.engine.sampling.drawing import Drawer, Drawn
from localllm.engine.sampling.prompt_logprobs import PromptScorer
from localllm.engine.sampling.sampler import NO_TOKEN_REASONS, NOT_FINITE, NOTHING_ALLOWED
from localllm.engine.sampling.selection import Row
from localllm.engine.scheduling.pace import Pace
from localllm.engine.scheduling.scheduler import Scheduler
from localllm.engine.scheduling.step_plan import StepPlan
from localllm.engine.speculation.proposals import ONE_ROW
from localllm.types import Delta
from localllm.types.states import AdapterStatus


class Stepper:
    """Used by the engine's thread."""

    def __init__(
        self,
        decoder: StepDecoder,
        scheduler: Scheduler,
        *,
        pace: Pace,
        scorer: PromptScorer,
        drawer: Drawer,
        masking: Masking,
        answers: Answers,
        clock: Callable[[], float],
    ) -> None:
        self._decoder = decoder
        self._kv = scheduler.kv
        self._scheduler = scheduler
        self._pace = pace
        self._scorer = scorer
        self._drawer = drawer
        self._masking = masking
        self._answers = answers
        self._clock = clock
        self._kept: list[tuple[Sequence, Row]] = []
        """Sequences that sit out until their masks are known, with the logits they draw from."""
        self._suspects: deque[tuple[Sequence, int]] = deque()
        """Sequences that must be computed alone until they are back where they were, and that position."""

    @property
    def is_asynchronous(self) -> bool:
        """Whether a device computes by itself after `decode` returns."""
        return self._decoder.is_asynchronous

    @property
    def num_threads(self) -> int:
        """Threads of the last step; 0: unknown."""
        return self._decoder.num_threads

    @property
    def adapter_status(self) -> AdapterStatus | None:
        """As `BatchDecoder.adapter_status`."""
        return self._decoder.adapter_status

    def stop(self) -> None:
        """From any thread: no further step follows."""
        self._masking.stop()

    def next_suspect(self) -> Sequence | None:
        """A sequence that must be computed alone until it is back where it was."""
        if not self._suspects:
            return None
        for _ in range(len(self._suspects)):
            sequence, num_tokens = self._suspects.popleft()
            if sequence.slot is not None and sequence.progress.num_computed < num_tokens:
                self._suspects.append((sequence, num_tokens))
                if not sequence.progress.lacks_rows:
                    self._suspects.rotate(1)
                    return sequence
        return None

    def compute(self, plan: StepPlan, output: StepOutput, *, within_s: float | None = None) -> None:
        """Decode the plan in one batch; if that fails, each of its sequences alone, so that only the culprit fails.

        With `within_s` it may be interrupted, and is after that many seconds: then complete ubatches are kept.
        """
        self._report_prompts(plan, output)
        try:
            decoded = self._decoder.decode(plan, within_s=within_s)
        except BackendError as error:
            self._isolate(plan, str(error), output)
            return
        if not decoded.is_whole:
            self._keep(plan)
            return
        scores = self._scorer.score(plan.segments, plan.sequences)
        seconds = self._clock() - decoded.began_s
        if scores:
            num_rows = sum(each.num_rows for each in scores)
            self._scorer.observe(num_rows, seconds, self._scheduler.num_streams)
        elif decoded.is_comparable and not plan.drafts:
            self._pace.cost.observe(plan.parts, seconds)
        elif decoded.switched and not decoded.moved_cells and not plan.drafts:
            self._scheduler.adapters.observe(plan.parts, seconds, self._pace.cost)
        for segment, sequence in zip(plan.segments, plan.sequences, strict=True):
            if self._scheduler.commit(segment, sequence):
                self._kv.checkpoint(segment.slot)
        self._report_prompts(plan, output)
        for sequence, prompt_logprobs, _ in scores:
            if prompt_logprobs is None:
                self._answers.fail(sequence, "it gave no token any probability", output)
            else:
                output.deltas.append((sequence.id, Delta(prompt_logprobs=prompt_logprobs)))
        if ready := self._in_time(plan, self._ready(plan, output), output):
            self._take(self._drawer.draw(plan, ready), output)
        if plan.is_weighed and decoded.is_comparable:
            self._pace.row_cost.observe(plan.parts, self._clock() - decoded.began_s)

    def _report_prompts(self, plan: StepPlan, output: StepOutput) -> None:
        for sequence in plan.sequences:
            reports = sequence.progress.reports
            if reports is not None:
                progress = sequence.progress.of_prompt(self._clock())
                if reports.is_news(progress):
                    output.deltas.append((sequence.id, Delta(progress=(progress,))))

    def draw_late(self, output: StepOutput) -> None:
        """Sequences that sat out for their masks continue if they have them by now."""
        if not self._kept:
            return
        kept, self._kept, rows = self._kept, [], []
        for sequence, row in kept:
            if sequence.slot is None or sequence.progress.num_pending:
                continue  # it ended meanwhile, or is being recomputed
            if self._has_masks(sequence, output):
                rows.append((sequence, row))
            elif sequence.slot is not None:
                self._kept.append((sequence, row))
        if rows:
            self._take(self._drawer.draw_rows(rows), output)

    def _in_time(self, plan: StepPlan, ready: list[int], output: StepOutput) -> list[int]:
        """The segments to draw from whose masks are not still being computed; the others sit out."""
        waiting = [plan.sequences[index] for index in ready if plan.sequences[index].drawing.has_masks_coming]
        if not waiting:
            return ready
        self._masking.wait(waiting)
        in_time = []
        for index in ready:
            sequence = plan.sequences[index]
            draft = plan.drafts.get(sequence.id, ONE_ROW)
            if not draft.num_drawn or self._has_masks(sequence, output):
                in_time.append(index)
            elif sequence.slot is None:
                continue
            elif draft.forced and draft.tokens:  # a late row after them is rare: they are recomputed
                self._scheduler.roll_back(sequence, sequence.progress.num_computed - 1)
            else:
                self._kept.append((sequence, self._decoder.logits(index)[0 if draft.tokens else -1].copy()))
                if draft.tokens:
                    self._scheduler.roll_back(sequence, sequence.progress.num_computed)
        return in_time

    def _has_masks(self, sequence: Sequence, output: StepOutput) -> bool:
        """Whether its masks are complete; if its constraint failed meanwhile, it ends here."""
        follower = sequence.drawing.follower
        work = None if follower is None else follower.current_work
        if work is not None and work.is_done and work.failure is not None:
            self._answers.fail_constraint(sequence, work.failure, output)
            return False
        return work is None or work.is_done

    def _take(self, drawn: list[Drawn], output: StepOutput) -> None:
        """Take what was drawn; a sequence that drew nothing fails."""
        is_spoiled = any(each.tokens and each.tokens[-1].token == NOT_FINITE for each in drawn)
        if is_spoiled and not self._suspects and self._scheduler.shares_cells:
            for each in drawn:  # all attend to all cells: the culprit is found by computing them one by one
                self._answers.take_none(each)
            drawn = []
        for each in self._settled(drawn, output):
            sequence, tokens = each.sequence, each.tokens
            if each.failure is not None:
                self._answers.fail_constraint(sequence, each.failure, output)
                continue
            if each.late_row is not None:
                self._kept.append((sequence, each.late_row.copy()))
                continue
            failed = tokens.pop().token if tokens[-1].token < 0 else None
            if tokens and not self._answers.take_tokens(each):
                continue
            if failed == NOTHING_ALLOWED and sequence.slot is not None and self._may_end(sequence, len(tokens)):
                self._answers.take_end(each)
            elif failed is not None and sequence.slot is not None:
                self._answers.fail(sequence, NO_TOKEN_REASONS[failed], output)
        if is_spoiled:
            self._suspects.extend((one, one.progress.num_tokens) for one in scrub(self._kv, self._scheduler))

    def _settled(self, drawn: list[Drawn], output: StepOutput) -> list[Drawn]:
        """Those of which it is known whether their document can still be closed; the others sit out, and draw the same
        from the same row once it is."""
        structured = [index for index, each in enumerate(drawn) if each.sequence.drawing.follower is not None]
        if not structured:
            return drawn
        searches = {
            index: search
            for index in structured
            if (each := drawn[index]).tokens and each.row is not None
            and (search := self._answers.search(each.sequence, each.tokens[0].token)) is not None
        }  # fmt: skip
        if not searches:
            return drawn
        late = dict(zip(searches, self._masking.are_late([*searches.values()]), strict=True))
        found = []
        for index, each in enumerate(drawn):
            failure = searches[index].failure if index in searches else None
            if failure is not None:
                self._answers.fail_constraint(each.sequence, failure, output)
            elif late.get(index) and each.row is not None:
                self._answers.take_none(each)
                self._kept.append((each.sequence, each.row.copy()))
            else:
                found.append(each)
        return found

    def _may_end(self, sequence: Sequence, row: int) -> bool:
        """Whether its structure is complete where the request forbids everything else: then the answer ends."""
        masks, follower = sequence.drawing.masks, sequence.drawing.follower
        mask = masks[row] if row < len(masks) else None
        return mask is not None and follower is not None and follower.may_end(mask)

    def _ready(self, plan: StepPlan, output: StepOutput) -> list[int]:
        """The segments from which a token is sampled. A request that wants none ends here."""
        ready = []
        for index, sequence in enumerate(plan.sequences):
            if sequence.slot is None or sequence.progress.num_pending:
                continue
            if sequence.request.max_tokens == 0:
                output.deltas.append((sequence.id, self._answers.finish(sequence, "length")))
            else:
                ready.append(index)
        return ready

    def _keep(self, plan: StepPlan) -> None:
        """Keep what whole ubatches of an interrupted decode computed, except sequences' last tokens: nothing was drawn
        after them."""
        for segment, sequence in zip(plan.segments, plan.sequences, strict=True):
            num_kept = min(self._kv.computed(segment.slot) - segment.start, sequence.progress.num_pending - 1)
            kept = segment._replace(tokens=segment.tokens[:num_kept], num_outputs=0)
            wants_checkpoint = num_kept > 0 and self._scheduler.commit(kept, sequence)
            self._kv.cut(segment.slot, segment.start + num_kept)
            if wants_checkpoint:
                self._kv.checkpoint(segment.slot)

    def _isolate(self, plan: StepPlan, reason: str, output: StepOutput) -> None:
        """After a failed decode, of which only the slots' earlier content is certain.

        A memory that cannot go back to that is emptied, and its sequences are recomputed from their beginning, one
        after the other, while all others wait.
        """
        has_drafts = any(draft.tokens for draft in plan.drafts.values())
        if len(plan.segments) == 1 and not has_drafts:
            self._answers.fail(plan.sequences[0], reason, output)
        elif not self._kv.undo(plan.segments):
            for sequence in plan.sequences:
                self._scheduler.forget(sequence)
            self._suspects.extend((sequence, sequence.progress.num_tokens) for sequence in plan.sequences)
        elif has_drafts:  # a guess must never cost a request its answer
            self.compute(plan.without_guesses(), output)
        else:
            for index, (segment, sequence) in enumerate(zip(plan.segments, plan.sequences, strict=True)):
                if sequence.progress.num_computed == segment.start:  # else the cache was scrubbed, and it starts over
                    self.compute(plan.alone(index), output)
