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
from localllm.engine.scheduling.plan import StepPlan
from localllm.engine.scheduling.rows import (
    LONGEST,
    Cost,
    Layout,
    Rows,
    Shape,
    Wish,
    assumed_cost,
    assumed_unified_cost,
    share_rows,
)
from localllm.engine.speculation.proposals import ASSUMED_CHANCE, Draft, Proposal

HARDLY = 0.05
"""A row with a smaller expected gain is not computed."""
MOST_BEHIND = 0.1
"""Others' rows may put an answer behind by this share of its tokens (LOG.md, "Beside guesses")."""
GRACE = 1.0
"""And by this many tokens, so that short answers do not forbid everything."""


class Drafter:
    """Keeps no state beyond the sequences'."""

    def __init__(
        self,
        *,
        slot_capacity: int,
        batch_capacity: int,
        max_rollback: int,
        rolls_back_equals: bool,
        is_unified: bool,
    ) -> None:
        self.cost: Cost = assumed_unified_cost if is_unified else assumed_cost
        """Cost of a batch; replaced by a learned one."""
        self.max_rows = batch_capacity
        """Rows for all streams together, bounded by the batch and by the logits."""
        self.weighs_one_row: Callable[[int], bool] = lambda _: False
        """Whether the cost of a step of so many streams is to be learned even where nothing is proposed."""
        self._slot_capacity = slot_capacity
        self._max_rollback = max_rollback
        self._layout: Layout = "one pass" if rolls_back_equals else "unified" if is_unified else "partitioned"

    def drafted(self, plan: StepPlan) -> StepPlan:
        """The plan with what is computed after last tokens; the same plan where nothing is proposed."""
        for sequence in plan.sequences:
            if sequence.proposal is not None:
                break
        else:
            is_weighed = self._max_rollback > 0 and self.weighs_one_row(len(plan.segments))
            is_weighed = is_weighed and all(len(segment.tokens) == 1 for segment in plan.segments)
            return plan._replace(is_weighed=True) if is_weighed else plan
        streams = [sequence for sequence in plan.sequences if sequence.num_pending == 1 and not sequence.wants_scores]
        is_weighed = self._max_rollback > 0 and len(streams) == len(plan.sequences)
        if is_weighed:
            wishes = [self._wish(sequence) for sequence in streams]
            shape = share_rows(wishes, most=self.max_rows, cost=self.cost, layout=self._layout)
            for sequence in streams:
                sequence.lead -= shape.steps - 1
        else:
            shape = Shape([Rows()] * len(streams))
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
        proposal, tokens, num_outputs = sequence.proposal or Proposal(), sequence.tokens[-1:], 1
        draft = proposal.draft(rows.num_rows)
        if draft.tokens or draft.forced:
            drafts[sequence.id] = draft
            tokens += draft.tokens
            num_outputs = len(tokens) if sequence.logprobs is not None else draft.num_drawn
        return Segment(sequence.slot, sequence.num_computed, tokens, num_outputs, rows.num_padding)

    def _wish(self, sequence: Sequence) -> Wish:
        assert sequence.slot is not None
        room = min(LONGEST, 1 + self._max_rollback, self._slot_capacity - sequence.num_computed)
        useful = self._slot_capacity - sequence.num_tokens
        if sequence.max_tokens is not None:
            useful = min(useful, sequence.max_tokens - sequence.num_generated)
        forced, guessed, chances, _ = sequence.proposal or Proposal()
        if not sequence.takes_guesses:
            guessed = ()
        chances = chances[: len(guessed)] + (ASSUMED_CHANCE,) * (len(guessed) - len(chances))
        gains = [*repeat(1.0, len(forced)), *(right for right in accumulate(chances, mul) if right >= HARDLY)]
        patience = max(0.0, sequence.lead + MOST_BEHIND * sequence.num_generated + GRACE)
        return Wish(sequence.slot, gains[: max(0, min(useful, room) - 1)], room, sequence.num_computed, patience)
