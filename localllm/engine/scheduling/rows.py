"""Which streams get more than one row in a step: the shape of the batch that gives most tokens per second.

In a partitioned cache llama.cpp computes a batch in passes over the weights, each over consecutive slots with equally
many rows; the excess of a longer one takes another pass. So streams of unequal lengths are expensive (8 slots, 1
thread, 1 row each: 36 ms; one with 4: 58; 1, 2, 3, 4, 1, 2, 3, 4: 143; all 4: 105), and padding rows pay off where they
make lengths equal. A unified cache takes any lengths in one pass. Pure: knows nothing of tokens, sequences or clocks.

`shares` chooses among shapes, too, but solves another problem: there the time of a step is given and every token is
needed, so the shape that computes most wins. Here rows may be in vain and the time is open, so a rate is maximized.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Literal, NamedTuple

from localllm.engine.scheduling.cost import Part, passes

MOST_ROWS = 8
"""Maximum number of rows per stream if all streams get as many: the last token and what is computed after it.

A step's logits are bounded by `num_slots` times this, besides those of prompts to be scored.
"""
MAX_STREAM_ROWS = 32
"""Maximum number of rows of one stream if few are streaming: where kernels compute 16 rows at once, they cost little
more than 8."""
MAX_STREAM_SLOWDOWN = 1.5
"""Maximum factor by which a step delays a stream, relative to the tokens expected from it."""
PASS_COST = 4.5
"""Until it is learned: cost of a pass beside its rows, in rows (benchmarks/log/scheduling.md#unequal-rows)."""
MAX_EXACT_SHAPES = 5
"""Maximum number of shapes whose exact cost is computed."""
_LEVELS, _FEWER_LEVELS = (2, 3, 4, 6, 8, 12, 16, 24, 32), (2, 4, 8, 16)
"""Lengths to try; the second set for more than `MAX_FINE_STREAMS` streams, to be quick."""
MAX_FINE_STREAMS = 4

Cost = Callable[[Sequence[Part]], float]
"""Cost of a batch of these parts, in slot order, in any unit."""


class Wish(NamedTuple):
    """What one stream could do with more rows."""

    slot: int
    gains: Sequence[float]
    """Expected number of tokens from each row after the first."""
    room: int = MOST_ROWS
    """Number of rows that fit into its slot."""
    depth: int = 0
    """Number of tokens before its rows."""
    patience: float = math.inf
    """How much longer the step may take than the tokens that it brings this stream would take one by one, in steps of
    one row each."""

    def allows(self, expected: float) -> float:
        """Maximum duration of a step that brings the stream `num_tokens`, in steps of one row each."""
        return min(MAX_STREAM_SLOWDOWN * expected, expected + self.patience)


class Rows(NamedTuple):
    """Number of rows that one stream gets in a step."""

    num_rows: int = 1
    num_padding: int = 0
    """Number of padding rows after them."""


class RowShape(NamedTuple):
    """Rows of every stream, in slot order, and what the step then costs."""

    rows: Sequence[Rows]
    steps: float = 1.0
    """Duration of the step, in steps of one row each."""


Layout = Literal["partitioned", "unified", "one pass"]
"""Of the cache. `one pass`: a partitioned one whose streams get equal numbers of rows or one each, since its memory
(some recurrent ones) is only right after a single pass."""


def assumed_cost(parts: Sequence[Part]) -> float:
    """Assumed cost of a step with a partitioned cache, in rows."""
    return PASS_COST * count_passes(parts) + sum([rows for _, _, rows in parts])


def assumed_unified_cost(parts: Sequence[Part]) -> float:
    """Assumed cost of a step with a unified cache, in rows."""
    return PASS_COST + sum([rows for _, _, rows in parts])


def count_passes(parts: Sequence[Part]) -> int:
    """Number of passes over the weights with a partitioned cache."""
    return sum(1 for _ in passes(parts))


def share_rows(
    wishes: Sequence[Wish], *, most: int, cost: Cost = assumed_cost, layout: Layout = "partitioned"
) -> RowShape:
    """What each stream gets of at most `most` rows in all, in ascending slot order.

    Maximizes tokens per second, as far as every stream's wish allows; one row each unless more is better.
    """
    plain = [Rows()] * len(wishes)
    if not any(wish.gains for wish in wishes) or most <= len(wishes):
        return RowShape(plain)
    plain_s = cost([(wish.slot, wish.depth, 1) for wish in wishes])
    if layout == "one pass":
        shapes = _equal_shapes(wishes, most)
    elif layout == "unified" or len(wishes) == 1:
        shapes = _level_shapes(wishes)
    else:
        shapes = _likely_shapes(wishes, plain_s, cost, most)
    best, best_rate = RowShape(plain), len(wishes) / plain_s
    for shape in shapes:
        both = [*zip(wishes, shape, strict=True)]
        parts = [(wish.slot, wish.depth, rows.num_rows + rows.num_padding) for wish, rows in both]
        if sum([rows for _, _, rows in parts]) > most:
            continue
        took_s = cost(parts)
        expected = [1 + sum(wish.gains[: rows.num_rows - 1]) for wish, rows in both]
        if sum(expected) / took_s > best_rate:
            steps = took_s / plain_s
            if all(wish.allows(tokens) >= steps for wish, tokens in zip(wishes, expected, strict=True)):
                best, best_rate = RowShape(shape, steps), sum(expected) / took_s
    return best


def _equal_shapes(wishes: Sequence[Wish], most: int) -> list[list[Rows]]:
    """Shapes where all get the same number of rows; those that can use fewer get padding. None where slots are not
    consecutive."""
    if wishes[-1].slot - wishes[0].slot >= len(wishes):
        return []
    useful = 1 + max(_useful(wish, MAX_STREAM_ROWS) for wish in wishes)
    longest = min(useful, *(wish.room for wish in wishes), most // len(wishes))
    everybody = range(len(wishes))
    return [
        _padded(wishes, length, everybody) for length in sorted({min(level, longest) for level in _LEVELS} - {0, 1})
    ]


def _level_shapes(wishes: Sequence[Wish]) -> list[list[Rows]]:
    """Shapes where lengths may differ: all rows above a threshold of expected gain."""
    if len(wishes) == 1:
        most = 1 + _useful(wishes[0], MAX_STREAM_ROWS)
        return [[Rows(count)] for count in sorted({min(level, most) for level in _LEVELS} - {1})]
    bars = sorted({gain for wish in wishes for gain in wish.gains[: MAX_STREAM_ROWS - 1]}, reverse=True)
    return [
        [Rows(1 + _useful(wish, MAX_STREAM_ROWS, bar)) for wish in wishes] for bar in bars[:: max(1, len(bars) // 16)]
    ]


def _cannot_pay(wishes: Sequence[Wish], plain_s: float, twice_s: float) -> bool:
    """Whether even the largest possible gain is less than the cost of one more row for all, or of one more pass."""
    gains, count = sum([sum(wish.gains[: MAX_STREAM_ROWS - 1]) for wish in wishes]), len(wishes)
    least_s = rows_s = twice_s - plain_s
    if wishes[-1].slot - wishes[0].slot >= count:  # those beside a gap may get more rows without another pass
        least_s /= count
    return gains / count * plain_s <= min(least_s, plain_s - rows_s)


def _likely_shapes(wishes: Sequence[Wish], plain_s: float, cost: Cost, most: int) -> list[list[Rows]]:
    """Two lengths, 1 and another, for those that gain most by it, or for those and all between them (fewer passes).

    This runs before every step, so it must be cheap: the best few are estimated from the cost of a row and a pass with
    one row each and with two, and the exact cost is computed only for these.
    """
    count = len(wishes)
    twice_s = cost([(wish.slot, wish.depth, 2) for wish in wishes])
    if _cannot_pay(wishes, plain_s, twice_s):
        return []
    row_s = max(twice_s - plain_s, 1e-9) / count
    runs = _runs(wishes, range(count))
    run_of, ends = [length for length in runs for _ in range(length)], [*accumulate(runs)]
    pass_s = max(plain_s - count * row_s, 0.0) / len(runs)
    found: list[tuple[float, int, Sequence[int]]] = []
    """Tokens per second, the other length, and the indexes of the streams that get it, ascending."""
    sums = [[0.0, *accumulate(wish.gains[: _useful(wish, MAX_STREAM_ROWS)])] for wish in wishes]
    longest, levels = max(map(len, sums)), _LEVELS if count <= MAX_FINE_STREAMS else _FEWER_LEVELS
    of_one_row = [wish.allows(1.0) for wish in wishes]
    for length in sorted({min(level, longest) for level in levels}) if longest > 1 else ():
        gains = [each[length - 1] if length <= len(each) else each[-1] for each in sums]
        order = sorted(range(count), key=gains.__getitem__, reverse=True)
        num_gaining = count - gains.count(0.0)
        sizes = {*(1 << bits for bits in range(num_gaining.bit_length())), num_gaining, count}
        groups: list[Sequence[int]] = [sorted(order[:size]) for size in sizes - {0}]
        groups += [range(each[0], each[-1] + 1) for each in groups if each[-1] - each[0] >= len(each)]
        groups += [range(end - run, end) for end, run in zip(ends, runs, strict=True)] if len(runs) > 1 else []
        for places in groups:
            extra = (length - 1) * len(places)
            if count + extra <= most:
                num_more = _num_more_passes(wishes, places, run_of)
                num_more += any(wishes[place].room < length for place in places)  # it stays shorter than the rest
                took_s = plain_s + extra * row_s + pass_s * num_more
                allowed = of_one_row.copy()
                for place in places:
                    allowed[place] = wishes[place].allows(1 + gains[place])
                if took_s <= min(allowed) * plain_s:
                    total = count + sum([gains[place] for place in places])
                    found.append((total / took_s, length, places))
    found.sort(key=lambda each: -each[0])
    return [_padded(wishes, length, places) for _, length, places in found[:MAX_EXACT_SHAPES]]


def _runs(wishes: Sequence[Wish], places: Sequence[int]) -> list[int]:
    """The lengths of runs of consecutive slots."""
    slots = [wishes[place].slot for place in places]
    ends = [at for at, (early, late) in enumerate(pairwise(slots), start=1) if late != early + 1]
    return [end - start for start, end in pairwise([0, *ends, len(slots)])]


def _num_more_passes(wishes: Sequence[Wish], places: Sequence[int], run_of: Sequence[int]) -> int:
    """Additional passes for longer rows at these places: one per run, unless all of the run's streams are as long."""
    count, start = 0, 0
    for length in _runs(wishes, places):
        count += length != run_of[places[start]]
        start += length
    return count


def _padded(wishes: Sequence[Wish], length: int, places: Sequence[int]) -> list[Rows]:
    """That many rows for the streams at these places, with padding where they can use fewer; one for the others."""
    shape, chosen = [], set(places)
    for place, wish in enumerate(wishes):
        if place not in chosen:
            shape.append(Rows())
            continue
        num_rows = 1 + _useful(wish, length)
        shape.append(Rows(num_rows, max(0, min(length, wish.room) - num_rows)))
    return shape


def _useful(wish: Wish, length: int, bar: float = 0.0) -> int:
    """Rows beyond the first whose expected gain reaches `bar`."""
    gains = wish.gains[: min(length, wish.room) - 1]
    return next((place for place, gain in enumerate(gains) if gain <= 0 or gain < bar), len(gains))
