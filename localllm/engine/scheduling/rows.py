"""Who gets more than one row in a step of streams: the shape of the batch that gives most tokens a second.

In a partitioned cache llama.cpp computes a batch in passes over the weights, each over consecutive slots with equally
many rows; what a longer one has more than its neighbours takes another pass. So streams of unequal lengths are dear
(8 slots, 1 thread, each 1 row: 36 ms; one with 4: 58; 1, 2, 3, 4, 1, 2, 3, 4: 143; all 4: 105), and rows to throw away
pay where they make lengths equal. A unified cache takes any lengths in one pass.
Pure: knows nothing of tokens, sequences or clocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

MOST_ROWS = 8
"""That one stream gets in a step: its last token and what is computed behind it. Logits of `num_slots` times as many
rows are a step's most, beside those of prompts to be scored."""
MOST_SLOWER = 1.5
"""No stream's tokens come so many times slower on average than if each had one row."""
PASS_COST = 4.5
"""Before it is learned: what a pass takes beside its rows, in rows. LOG.md, "Unequal rows"."""
_LEVELS = (2, 3, 4, 6, 8)

Part = tuple[int, int, int]
"""Of a batch: the slot of a stream, how many tokens are before its rows, and how many rows it has."""
Cost = Callable[[Sequence[Part]], float]
"""How long a batch of these takes, in slot order, in any unit."""


class Wish(NamedTuple):
    """What one stream would do with more rows."""

    slot: int
    gains: Sequence[float]
    """Tokens to expect of each row beyond the first."""
    room: int = MOST_ROWS
    """Rows its slot has room for."""
    depth: int = 0
    """Tokens before its rows."""


class Rows(NamedTuple):
    """What one stream gets."""

    num_rows: int = 1
    num_padding: int = 0
    """Rows to throw away behind them."""


def assumed_cost(parts: Sequence[Part]) -> float:
    """Of a partitioned cache, in rows."""
    return PASS_COST * passes(parts) + sum([rows for _, _, rows in parts])


def assumed_unified_cost(parts: Sequence[Part]) -> float:
    """Of a unified cache."""
    return PASS_COST + sum([rows for _, _, rows in parts])


def passes(parts: Sequence[Part]) -> int:
    """Of a partitioned cache, for ascending slots: as `llama_batch_allocr::split_equal` of llama.cpp splits."""
    waiting = [(slot, rows) for slot, _, rows in parts]
    count = 0
    while waiting:
        end = 1
        while end < len(waiting) and waiting[end][0] == waiting[end - 1][0] + 1:
            end += 1
        least = min(length for _, length in waiting[:end])
        waiting = [
            (slot, length - least if place < end else length)
            for place, (slot, length) in enumerate(waiting)
            if place >= end or length > least
        ]
        count += 1
    return count


def share_rows(wishes: Sequence[Wish], *, most: int, cost: Cost = assumed_cost, is_unified: bool = False) -> list[Rows]:
    """For each stream, in ascending order of slots, what it gets of at most so many rows in all.

    Most tokens a second, such that nobody becomes `MOST_SLOWER` times as slow; one row for all, unless more is better.
    """
    best = [Rows()] * len(wishes)
    if not any(wish.gains for wish in wishes) or most <= len(wishes):
        return best
    plain_s = cost([(wish.slot, wish.depth, 1) for wish in wishes])
    best_rate = len(wishes) / plain_s
    for shape in _level_shapes(wishes) if is_unified else _padded_shapes(wishes):
        parts = [
            (wish.slot, wish.depth, rows.num_rows + rows.num_padding) for wish, rows in zip(wishes, shape, strict=True)
        ]
        if sum([rows for _, _, rows in parts]) > most:
            continue
        took_s = cost(parts)
        expected = [1 + sum(wish.gains[: rows.num_rows - 1]) for wish, rows in zip(wishes, shape, strict=True)]
        if sum(expected) / took_s > best_rate and MOST_SLOWER * min(expected) * plain_s >= took_s:
            best, best_rate = shape, sum(expected) / took_s
    return best


def _level_shapes(wishes: Sequence[Wish]) -> list[list[Rows]]:
    """Where lengths may differ: all rows from which as much is to be expected."""
    bars = sorted({gain for wish in wishes for gain in wish.gains[: MOST_ROWS - 1]}, reverse=True)
    return [[Rows(1 + _useful(wish, MOST_ROWS, bar)) for wish in wishes] for bar in bars[:: max(1, len(bars) // 16)]]


def _padded_shapes(wishes: Sequence[Wish]) -> list[list[Rows]]:
    """Two lengths, 1 and another, for those who gain most by it; or those and all between them, for fewer passes."""
    shapes = []
    longest = max(1 + len(wish.gains) for wish in wishes)
    for length in sorted({min(level, longest) for level in _LEVELS}) if longest > 1 else ():
        gains = [sum(wish.gains[: length - 1]) for wish in wishes]
        order = sorted(range(len(wishes)), key=lambda place: -gains[place])
        num_gaining = sum(gain > 0 for gain in gains)
        counts = {*(1 << bits for bits in range(num_gaining.bit_length())), num_gaining, len(wishes)}
        for count in sorted(counts - {0}):
            chosen = set(order[:count])
            shapes.append(_padded(wishes, length, chosen))
            between = set(range(min(chosen), max(chosen) + 1))
            if between != chosen:
                shapes.append(_padded(wishes, length, between))
    return shapes


def _padded(wishes: Sequence[Wish], length: int, chosen: set[int]) -> list[Rows]:
    shape = []
    for place, wish in enumerate(wishes):
        if place not in chosen:
            shape.append(Rows())
            continue
        num_rows = 1 + _useful(wish, length)
        shape.append(Rows(num_rows, max(0, min(length, wish.room) - num_rows)))
    return shape


def _useful(wish: Wish, length: int, bar: float = 0.0) -> int:
    """Rows beyond the first, each from which so much is to be expected."""
    gains = wish.gains[: min(length, wish.room) - 1]
    return next((place for place, gain in enumerate(gains) if gain <= 0 or gain < bar), len(gains))
