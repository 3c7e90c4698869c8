"""Decides from measurements whether a model is faster with flash attention on this CPU; all functions are pure.

The time of a pass grows linearly with the number of cached tokens, so two depths give the time at any depth. All
doublings of a conversation's length are taken as equally frequent (256 to 512 tokens as often as 2,048 to 4,096), and
prompts and decoding as equally important. Knows nothing of llama.cpp; `flash_attention_probe` measures.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import ClassVar, Literal, NamedTuple

import msgspec

from localllm.measuring.paired import Gain, disturbance
from localllm.measuring.repeated import Repeated

MIN_DEPTH = 256
"""Shortest conversation that counts."""
MARGIN = 1.05
"""Speed-up needed to give up flash attention, which saves memory, or to reverse the choice of an earlier load."""
CLEARER = 0.5
"""A repeated measurement may reverse the choice only if its spread is at most this share of the earlier one's. A
reversal makes saved conversations useless, since their cached values are laid out differently."""


class Point(msgspec.Struct, frozen=True):
    """Seconds of a pass after `depth` cached tokens, with flash attention and without."""

    depth: int
    decode_with_s: float
    decode_without_s: float
    prompt_with_s: float
    prompt_without_s: float


_SECONDS = Point.__struct_fields__[1:]


class Figures(Repeated, frozen=True, kw_only=True):
    """One measurement. A noisy one is repeated at later loads."""

    NOISY_SPREAD: ClassVar[float] = 0.15

    points: tuple[Point, ...] = ()
    """In order of depth; empty if measuring would have taken too long."""
    took_s: float = 0.0
    obstacle: Literal["", "busy", "memory"] = ""
    """Why there are no points, if not because the model is slow."""

    @property
    def is_noisy(self) -> bool:
        return not self.points or self.spread > self.NOISY_SPREAD


class Choice(NamedTuple):
    """Whether flash attention is used, and why."""

    flash: bool
    reason: str


def choose(figures: Figures, ctx: int) -> Choice:
    """For slots of `ctx` tokens."""
    later = "" if figures.is_final else ", so a later load measures again"
    if not figures.points:
        why = {
            "": "this model is too slow here for a short measurement",
            "busy": f"something else used the CPU while this was measured{later}",
            "memory": f"there was too little memory to measure{later}",
        }[figures.obstacle]
        return Choice(True, f"{why}; flash attention saves memory")
    without = Gain(math.log(gain_without(figures.points, ctx)), math.log1p(figures.spread))
    again = later and f"; something else used the CPU{later}"
    return Choice(not without.is_above(MARGIN), describe(figures.points) + again)


def gain_without(points: Sequence[Point], ctx: int) -> float:
    """Speed without flash attention relative to speed with it, over conversations of up to `ctx` tokens."""
    depths = [MIN_DEPTH]
    while 2 * depths[-1] <= ctx:
        depths.append(2 * depths[-1])
    gains = []
    for depth in depths:
        gains.append(_at(points, depth, "decode_with_s") / _at(points, depth, "decode_without_s"))
        gains.append(_at(points, depth, "prompt_with_s") / _at(points, depth, "prompt_without_s"))
    return statistics.geometric_mean(gains)


def describe(points: Sequence[Point]) -> str:
    """Speed with flash attention relative to speed without it, for people."""
    parts = [
        f"prompts {point.prompt_without_s / point.prompt_with_s:.2f} x, "
        f"decoding {point.decode_without_s / point.decode_with_s:.2f} x as fast behind {point.depth:,} tokens"
        for point in points
    ]
    return f"measured here: with flash attention {'; '.join(parts)}"


def merged(before: Figures | None, now: Figures, ctx: int) -> Figures:
    """The figures to go by after another measurement, with both counted.

    If both lead to the same choice for slots of `ctx` tokens, the less noisy ones; a choice is reversed on clear
    evidence only.
    """
    if before is None:
        return now
    if not now.points:
        better = before
    elif choose(before, ctx).flash == choose(now, ctx).flash:
        better = now.clearer(before) if before.points else now
    else:
        better = now if _reverses(before, now, ctx) else before
    return better.with_attempts_of(before, now)


def fastest(one: Figures, other: Figures) -> Figures:
    """Of two measurements made one after the other; other work only ever makes a pass slower."""
    if not one.points or not other.points:
        return Figures(took_s=one.took_s + other.took_s, obstacle=one.obstacle or other.obstacle)
    points = tuple(
        Point(first.depth, *(min(getattr(first, name), getattr(second, name)) for name in _SECONDS))
        for first, second in zip(one.points, other.points, strict=True)
    )
    return Figures(points=points, spread=max(one.spread, other.spread), took_s=one.took_s + other.took_s)


def _reverses(before: Figures, now: Figures, ctx: int) -> bool:
    if before.points and now.spread > CLEARER * before.spread:
        return False
    return not choose(now, ctx).flash or gain_without(now.points, ctx) < 1 / MARGIN


def spread(series: Sequence[Sequence[float]]) -> float:
    """How much longer the typical pass took than the fastest, averaged over all series of equal passes."""
    return statistics.fmean(map(disturbance, series))


def _at(points: Sequence[Point], depth: int, field: str) -> float:
    """Seconds after `depth` cached tokens, on the line through the points; at least half of the shallow point's."""
    first, last = points[0], points[-1]
    begin_s, end_s = getattr(first, field), getattr(last, field)
    if last.depth == first.depth:
        return float(begin_s)
    slope = max(0.0, (end_s - begin_s) / (last.depth - first.depth))  # a negative slope is noise
    return float(max(begin_s + slope * (depth - first.depth), 0.5 * begin_s))
