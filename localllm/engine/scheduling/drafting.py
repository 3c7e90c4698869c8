"""How much of each stream's proposal a step computes.

Wrong guesses cost a rollback, and so do forced tokens if an answer ends among them. So a stream gets no more rows than
its memory can roll back; if it cannot (some recurrent and hybrid models), forced tokens are taken one by one.
The same holds beside prompts: such a step already takes as long as it may.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate, repeat
from operator import mul

from localllm.engine.backend import Segment
from localllm.engine.requests.sequence import Sequence
from localllm.engine.scheduling.rows import (
    MAX_STREAM_ROWS,
    Cost,
    Layout,
    Rows,
    RowShape,
    Wish,
    share_rows,
)
from localllm.engine.scheduling.step_plan import StepPlan
from localllm.engine.speculation.proposals import ASSUMED_CHANCE, Draft, Proposal

MIN_ROW_GAIN = 0.05
"""Minimum expected gain, in tokens, of a row to be computed."""
MAX_LAG_SHARE = 0.1
"""Maximum lag of an answer behind one row per step, as a share of its tokens: caused by other answers' rows
(benchmarks/log/speculation.md#beside-guesses)."""
LAG_ALLOWANCE_TOKENS = 1.0
"""Added to the maximum lag, so that short answers do not forbid all additional rows."""


class Drafter:
    """Chooses the rows of each stream; its only state is that of the sequences."""

    def __init__(
        self,
        *,
        slot_capacity: int,
        max_rows: int,
        max_rollback: int,
        layout: Layout,
        cost: Cost,
        weighs_one_row: Callable[[int], bool],
    ) -> None:
        """`max_rows`: for all streams together; `cost`: of a batch; `weighs_one_row`: whether the cost of a step of so
        many streams is to be learned even where nothing is proposed."""
        self._slot_capacity = slot_capacity
        self._max_rows = max_rows
        self._max_rollback = max_rollback
        self._layout: Layout = layout
        self.cost = cost
        self._weighs_one_row = weighs_one_row

    def drafted(self, plan: StepPlan) -> StepPlan:
        """The plan, extended by the proposed tokens to compute; the same plan where nothing is proposed."""
        for sequence in plan.sequences:
            if sequence.drawing.proposal is not None:
                break
        else:
            is_weighed = self._max_rollback > 0 and self._weighs_one_row(len(plan.segments))
            is_weighed = is_weighed and all(len(segment.tokens) == 1 for segment in plan.segments)
            return plan._replace(is_weighed=True) if is_weighed else plan
        streams = [one for one in plan.sequences if one.progress.num_pending == 1 and not one.wants_scores]
        is_weighed = self._max_rollback > 0 and len(streams) == len(plan.sequences)
        if is_weighed:
            wishes = [self._wish(sequence) for sequence in streams]
            shape = share_rows(wishes, most=self._max_rows, cost=self.cost, layout=self._layout)
            for sequence in streams:
                sequence.drawing.lead -= shape.steps - 1
        else:
            shape = RowShape([Rows()] * len(streams))
        drafts: dict[int, Draft] = {}
        drafted = {
            sequence.id: self._segment(sequence, rows, drafts)
            for sequence, rows in zip(streams, shape.rows, strict=True)
        }
        both = zip(plan.sequences, plan.segments, strict=True)
        segments = [drafted.get(sequence.id, segment) for sequence, segment in both]
        return StepPlan(segments, plan.sequences, drafts, is_weighed)

    def _segment(self, sequence: Sequence, rows: Rows, drafts: dict[int, Draft]) -> Segment:
        assert sequence.slot is not None
        proposal, tokens, num_outputs = sequence.drawing.proposal or Proposal(), sequence.progress.tokens[-1:], 1
        draft = proposal.draft(rows.num_rows)
        if draft.tokens or draft.forced:
            drafts[sequence.id] = draft
            tokens += draft.tokens
            num_outputs = len(tokens) if sequence.request.reported.logprobs is not None else draft.num_drawn
        return Segment(sequence.slot, sequence.progress.num_computed, tokens, num_outputs, rows.num_padding)

    def _wish(self, sequence: Sequence) -> Wish:
        progress, most = sequence.progress, sequence.request.max_tokens
        assert progress.slot is not None
        room = min(MAX_STREAM_ROWS, 1 + self._max_rollback, self._slot_capacity - progress.num_computed)
        useful = self._slot_capacity - progress.num_tokens
        if most is not None:
            useful = min(useful, most - progress.num_generated)
        forced, guessed, chances, _ = sequence.drawing.proposal or Proposal()
        if not sequence.request.takes_guesses:
            guessed = ()
        chances = chances[: len(guessed)] + (ASSUMED_CHANCE,) * (len(guessed) - len(chances))
        gains = [*repeat(1.0, len(forced)), *(right for right in accumulate(chances, mul) if right >= MIN_ROW_GAIN)]
        patience = max(0.0, sequence.drawing.lead + MAX_LAG_SHARE * progress.num_generated + LAG_ALLOWANCE_TOKENS)
        return Wish(progress.slot, gains[: max(0, min(useful, room) - 1)], room, progress.num_computed, patience)
