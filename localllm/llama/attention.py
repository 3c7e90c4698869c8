"""Whether flash attention is the faster one for a model on this CPU: a pure function of what was measured.

The time of a row grows linearly with what is before it, so two depths say what it is at any other. Conversations are
taken to be of all lengths alike (as many between 256 and 512 tokens as between 2,048 and 4,096), with prompts and
decoding equally important. Knows nothing of llama.cpp; `attention_probe.py` measures.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

LEAST_DEPTH = 256
"""Of the conversations that count."""
MARGIN = 1.05
"""How many times as fast attention has to be without flash attention: with it memory is smaller, and quantized."""
NOISY_SPREAD = 0.15
"""More than this between the two fastest of equal passes: something else used the CPU meanwhile."""
MAX_ATTEMPTS = 3
"""Measurements that were noisy are made again at later loads, so many in all."""


class Point(msgspec.Struct, frozen=True):
    """Seconds of a pass behind `depth` tokens, with flash attention and without."""

    depth: int
    decode_with_s: float
    decode_without_s: float
    prompt_with_s: float
    prompt_without_s: float


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement."""

    points: tuple[Point, ...] = ()
    """By depth; none: a pass takes too long to measure."""
    spread: float = 0.0
    """How far apart equal passes were, as a share of their time."""
    attempts: int = 1
    """This measurement included."""
    took_s: float = 0.0

    @property
    def is_noisy(self) -> bool:
        return not self.points or self.spread > NOISY_SPREAD

    @property
    def is_final(self) -> bool:
        return not self.is_noisy or self.attempts >= MAX_ATTEMPTS


class Choice(NamedTuple):
    """What is used, and why."""

    flash: bool
    reason: str


def choose(figures: Figures, ctx: int) -> Choice:
    """For slots of `ctx` tokens."""
    if not figures.points:
        return Choice(
            True, "this model is too slow here to measure attention in a second, and with it memory is smaller"
        )
    without = gain_without(figures.points, ctx)
    again = "" if figures.is_final else "; something else used the CPU, so a later load measures again"
    return Choice(without <= MARGIN + figures.spread, describe(figures.points) + again)


def gain_without(points: Sequence[Point], ctx: int) -> float:
    """How many times as fast conversations of up to `ctx` tokens are without flash attention."""
    depths = [LEAST_DEPTH]
    while 2 * depths[-1] <= ctx:
        depths.append(2 * depths[-1])
    gains = []
    for depth in depths:
        gains.append(math.log(_at(points, depth, "decode_with_s") / _at(points, depth, "decode_without_s")))
        gains.append(math.log(_at(points, depth, "prompt_with_s") / _at(points, depth, "prompt_without_s")))
    return math.exp(statistics.fmean(gains))


def describe(points: Sequence[Point]) -> str:
    """How many times as fast it is with flash attention, for people."""
    parts = [
        f"prompts {point.prompt_without_s / point.prompt_with_s:.2f} x, "
        f"decoding {point.decode_without_s / point.decode_with_s:.2f} x as fast behind {point.depth:,} tokens"
        for point in points
    ]
    return f"measured here: with flash attention {'; '.join(parts)}"


def merged(before: Figures | None, now: Figures) -> Figures:
    """Of two measurements the less noisy one, with both counted."""
    if before is None:
        return now
    better = now if not before.points or (now.points and now.spread <= before.spread) else before
    return msgspec.structs.replace(better, attempts=before.attempts + now.attempts)


def spread(series: Sequence[Sequence[float]]) -> float:
    """Of each series of equal passes, how much longer the second fastest took than the fastest; their mean."""
    return statistics.fmean(fastest[1] / fastest[0] - 1 for fastest in (sorted(times) for times in series))


def _at(points: Sequence[Point], depth: int, field: str) -> float:
    """Seconds behind `depth` tokens, on the line through what was measured; never less than nearest to nothing."""
    first, last = points[0], points[-1]
    begin_s, end_s = getattr(first, field), getattr(last, field)
    if last.depth == first.depth:
        return float(begin_s)
    slope = max(0.0, (end_s - begin_s) / (last.depth - first.depth))  # longer behind less can only be noise
    return float(max(begin_s + slope * (depth - first.depth), 0.5 * begin_s))
