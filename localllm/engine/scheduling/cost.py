"""The cost of computing, learned while running: time is a sum of amounts of work, each at its own rate.

One rule serves steps, texts and scored prompts. A prediction's error is attributed to each amount by its share of the
predicted time: rates stay positive, and what took no part keeps its rate. Knows nothing of what is computed next or of
how much time there is.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from collections.abc import Sequence as Many
from operator import mul

ASSUMED_TOKEN_S = 1 / 240
"""Before anything is measured: the rate of a 1.2 B model on two cores."""
ASSUMED_PASS = 8
"""Cost of a pass over the weights, in tokens, until it is measured. This and the two below only start the learning: the
first measured step scales all rates alike."""
ASSUMED_LOOK = 1 / 1000
"""Cost, for a row outside a tile, of each token that it attends to."""
ASSUMED_TILED_LOOK = 1 / 2000
MAX_SLOWDOWN = 4.0
"""Work that took longer than this many times its prediction was held up by something else; it counts as this many."""
FASTER_GAIN = 0.7
"""Share of the error that is learned where work took less time than predicted; where it took more, all of it."""
UNTRIED = 0.98
"""Factor by which the rate of tiles falls with every prompt step without one: what is never tried is never learned."""
TILE = 64
"""Rows of one sequence in one pass from which on llama.cpp's flash attention is fast."""


class CostModel:
    """Seconds for amounts of work; `rates` are seconds per unit."""

    def __init__(self, assumed: Many[float]) -> None:
        self.rates = tuple(assumed)
        self.is_measured = False
        """Whether anything was observed; until then `rates` are assumptions."""

    def seconds(self, amounts: Many[float]) -> float:
        return float(sum(map(mul, self.rates, amounts)))

    def observe(self, amounts: Many[float], seconds: float) -> None:
        """These amounts took `seconds`. Slower than predicted is learned at once, faster gradually."""
        times = list(map(mul, self.rates, amounts))
        predicted = sum(times)
        ratio = max(seconds, 1e-9) / predicted
        if not self.is_measured:
            self.is_measured = True
            self.rates = tuple([rate * ratio for rate in self.rates])
            return
        error = math.log(min(ratio, MAX_SLOWDOWN)) if ratio > 1 else FASTER_GAIN * math.log(ratio)
        error *= predicted / sum(map(mul, times, times))
        self.rates = tuple([rate * math.exp(error * time) for rate, time in zip(self.rates, times, strict=True)])


Part = tuple[int, int, int]
"""Part of a step: a sequence's slot, how many tokens precede its rows, and how many rows it has."""


def passes(parts: Many[Part], ubatch_tokens: int = sys.maxsize) -> Iterator[tuple[Many[Part], int]]:
    """The passes over the weights in a partitioned cache: the parts computed together, and how many rows of each.

    For ascending slots, as `llama_batch_allocr::split_equal` of llama.cpp splits a batch: one pass computes equally
    many rows of adjacent slots.
    """
    while parts:
        first_slot = parts[0][0]
        together = [part for place, part in enumerate(parts) if part[0] == first_slot + place]
        rows = max(1, min(min([part[2] for part in together]), ubatch_tokens // len(together)))
        yield together, rows
        unfinished = [(slot, depth + rows, num - rows) for slot, depth, num in together if num > rows]
        parts = [*unfinished, *parts[len(together) :]]


class StepCost:
    """Cost of a step: passes over the weights, rows, and the tokens that rows attend to, inside or outside a tile."""

    def __init__(self, *, tile: int = TILE, grain: int = TILE, ubatch_tokens: int = 512) -> None:
        """`grain`: for more rows of a sequence than a tile, multiples of this are computed without waste."""
        self.tile = tile
        self.grain = grain
        self._ubatch_tokens = ubatch_tokens
        assumed = (ASSUMED_PASS, 1, ASSUMED_LOOK, ASSUMED_TILED_LOOK)
        self._model = CostModel([ASSUMED_TOKEN_S * each for each in assumed])

    @property
    def is_measured(self) -> bool:
        """Whether a step was observed; until then costs are assumptions."""
        return self._model.is_measured

    @property
    def pass_s(self) -> float:
        """One pass over the weights."""
        return self._model.rates[0]

    def seconds(self, parts: Many[Part]) -> float:
        """Predicted, for parts in slot order."""
        return self._model.seconds(self._amounts(parts)) if parts else 0.0

    def observe(self, parts: Many[Part], seconds: float) -> None:
        """A step of these parts took `seconds`. A row outside a tile never costs less than one inside."""
        amounts = self._amounts(parts)
        self._model.observe(amounts, seconds)
        if amounts[1] > len(parts):
            a_pass, a_row, look, tiled_look = self._model.rates
            if not amounts[3]:
                tiled_look *= UNTRIED
            if look * amounts[2] > tiled_look * amounts[3]:  # the rate that this step informs less follows the other
                tiled_look = min(tiled_look, look)
            else:
                look = max(look, tiled_look)
            self._model.rates = a_pass, a_row, look, tiled_look

    def _amounts(self, parts: Many[Part]) -> tuple[float, float, float, float]:
        """Passes, rows, and tokens that rows attend to: outside tiles, and in tiles."""
        slots, depths, rows_of_each = zip(*parts, strict=True)
        if rows_of_each.count(1) == len(parts) == slots[-1] - slots[0] + 1:  # the usual case: streams only
            return 1, len(parts), sum(depths) + len(parts) / 2, 0.0
        num_passes, num_rows, looked, tiled_looked = 0, 0, 0.0, 0.0
        for together, rows in passes(parts, self._ubatch_tokens):
            looks = rows * (sum([part[1] for part in together]) + len(together) * rows / 2)
            if rows >= self.tile:
                tiled_looked += looks
            else:
                looked += looks
            num_passes += 1
            num_rows += rows * len(together)
        return num_passes, num_rows, looked, tiled_looked
