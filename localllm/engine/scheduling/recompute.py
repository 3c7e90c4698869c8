"""Cached tokens that a step computes again, because it is then faster.

In a burst, prompts' parts that are nearly equally long become equally long: each excess takes a pass, and prompts often
differ by a few tokens in what is left of them, if only because some begin with tokens that are cached by chance. Behind
a long prefix, a part that is a little shorter than a tile becomes one: llama.cpp's flash attention then takes half as
long: benchmarks/log/scheduling.md#bursts-step-by-step and benchmarks/log/scheduling.md#nearly-a-tile.
"""

from __future__ import annotations

from collections.abc import Sequence as Many
from typing import NamedTuple

from localllm.engine.cache.kvcache import KvCache
from localllm.engine.requests.sequence import Sequence
from localllm.engine.scheduling.cost import Part, StepCost
from localllm.engine.scheduling.step_plan import StepPlan

MAX_RECOMPUTED_TOKENS = 8
"""Maximum number of tokens computed again to make a prompt's part as long as others'."""
MIN_TILE_ROWS = 8
"""Minimum number of rows of a part that is extended to a tile."""
MAX_TILE_TIME_SHARE = 0.9
"""Maximum time of a step with a tile, as a share of the time without it: costs are only predicted."""


def with_recomputed(plan: StepPlan, kv: KvCache, cost: StepCost, *, room: int) -> StepPlan:
    """The plan with prompts' parts beginning where the step takes least time; their slots are cut for it.

    `num_cached` stays: what a request is told of its savings does not depend on the speed of the machine.
    `room`: tokens that the step may have beside the plan's.
    """
    if kv.is_unified or not kv.can_rewind:
        return plan
    most = [most_again(sequence) for sequence in plan.sequences]
    again, _ = computed_again(plan.parts, most, cost, room=room)
    if not any(again):
        return plan
    segments = []
    for segment, sequence, count in zip(plan.segments, plan.sequences, again, strict=True):
        start = segment.start
        if count:
            start = kv.cut(segment.slot, start - count)
        tokens = sequence.progress.tokens[start : segment.start + len(segment.tokens)]
        segments.append(segment._replace(start=start, tokens=tokens))
    return plan._replace(segments=segments)


class Again(NamedTuple):
    """Number of tokens computed again before each part, and how long the step then takes."""

    counts: list[int]
    seconds: float


def computed_again(parts: Many[Part], most: Many[int], cost: StepCost, *, room: int) -> Again:
    """What is computed again before each part's rows: nothing, unless that makes the step faster.

    `parts` are in slot order; at most `most[i]` tokens before part i, and `room` before all of them.
    """
    best = [0] * len(parts)
    best_s = before_s = cost.seconds(parts)
    if not any(most) or not cost.is_measured:
        return Again(best, best_s)
    for goals, most_s in ((_equal(parts), before_s), (_tiles(parts, cost.tile), MAX_TILE_TIME_SHARE * before_s)):
        wanted = [goal - part[2] for goal, part in zip(goals, parts, strict=True)]
        again = [count if count <= its_most else 0 for count, its_most in zip(wanted, most, strict=True)]
        if any(again) and sum(again) <= room:
            longer = [(slot, depth - more, rows + more) for (slot, depth, rows), more in zip(parts, again, strict=True)]
            seconds = cost.seconds(longer)
            if seconds < min(best_s, most_s):
                best, best_s = again, seconds
    return Again(best, best_s)


def _equal(parts: Many[Part]) -> list[int]:
    """Rows of each part, as many as the next longer ones have, if it nearly is as long."""
    goals, goal = {}, 0
    for rows in sorted({part[2] for part in parts}, reverse=True):
        if goal - rows not in range(MAX_RECOMPUTED_TOKENS + 1):
            goal = rows
        goals[rows] = goal
    return [goals[part[2]] for part in parts]


def _tiles(parts: Many[Part], tile: int) -> list[int]:
    """Rows of each part, a tile if it is shorter than one, unless it is very short."""
    return [max(rows, tile) if rows >= MIN_TILE_ROWS else rows for _, _, rows in parts]


def most_again(sequence: Sequence) -> int:
    """Tokens before a part of a prompt that may be computed again: those of an intact prompt of which no
    log-probabilities are wanted."""
    if not sequence.progress.is_prefilling or sequence.progress.num_shifted or sequence.wants_scores:
        return 0
    return sequence.progress.num_alike_before
