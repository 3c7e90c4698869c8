"""Prompts whose parts of a step are nearly equally long are made equally long, since each excess takes a pass.

Prompts of a burst often differ by a few tokens in what is left of them, if only because some begin with tokens that are
cached by chance. A shorter part then begins a few tokens earlier: computing these again costs less than a pass over the
weights. In numbers: LOG.md, "bursts, step by step".
"""

from __future__ import annotations

from collections.abc import Sequence as Many

from localllm.engine.backend import Segment
from localllm.engine.cache.kvcache import KvCache
from localllm.engine.scheduling.cost import Part, StepCost
from localllm.engine.scheduling.plan import StepPlan
from localllm.engine.sequence import Sequence

MOST_AGAIN = 8
"""Tokens of a prompt that a step computes again."""


def evened(plan: StepPlan, kv: KvCache, cost: StepCost, *, room: int) -> StepPlan:
    """The plan with prompts' parts made equally long where that saves passes; their slots are cut for it.

    `room`: tokens that the step may have beside the plan's.
    """
    if kv.is_unified or not kv.can_rewind or len(plan.segments) < 2:
        return plan
    most = [_most_again(*both) for both in zip(plan.segments, plan.sequences, strict=True)]
    again = computed_again(plan.parts, most, cost, room=room)
    if not any(again):
        return plan
    segments = []
    for segment, sequence, count in zip(plan.segments, plan.sequences, again, strict=True):
        start = segment.start
        if count:
            start = kv.cut(segment.slot, start - count)
            sequence.num_cached = min(sequence.num_cached, start)
        tokens = sequence.tokens[start : segment.start + len(segment.tokens)]
        segments.append(segment._replace(start=start, tokens=tokens))
    return plan._replace(segments=segments)


def computed_again(parts: Many[Part], most: Many[int], cost: StepCost, *, room: int) -> list[int]:
    """How many tokens before each part's rows are computed again with them: none, unless that makes the step faster.

    `parts` are in slot order; at most `most[i]` tokens before part i, and `room` before all of them.
    """
    nothing, goals, goal = [0] * len(parts), {}, 0
    for rows in sorted({part[2] for part in parts}, reverse=True):
        if goal - rows not in range(MOST_AGAIN + 1):
            goal = rows
        goals[rows] = goal
    wanted = [goals[rows] - rows for _, _, rows in parts]
    again = [count if count <= its_most else 0 for count, its_most in zip(wanted, most, strict=True)]
    if not any(again) or sum(again) > room or not cost.is_measured:
        return nothing
    longer = [(slot, depth - more, rows + more) for (slot, depth, rows), more in zip(parts, again, strict=True)]
    return again if cost.seconds(longer) < cost.seconds(parts) else nothing


def _most_again(segment: Segment, sequence: Sequence) -> int:
    """Tokens before a part of a prompt that may be computed again: those of an intact prompt of which no
    log-probabilities are wanted."""
    if not sequence.is_prefilling or sequence.num_shifted or sequence.wants_scores:
        return 0
    return min(segment.start, MOST_AGAIN)
