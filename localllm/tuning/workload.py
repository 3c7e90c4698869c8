"""What is computed to measure a speed: prompts of two lengths, and an answer behind each. Pure functions.

Long enough for a clock, short enough for many rounds within the time that was asked for. Knows no model and no process.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from localllm.tuning.comparing import Rates

SHALLOW = 128
"""Tokens of the short prompt: a question."""
DEPTHS = (4096, 2048, 1024, 512, 256)
"""Of the long one: a document, a conversation."""
ANSWERS = (256, 128, 64, 32, 16)
SPARE = 16
"""Tokens of a slot that nothing is computed in."""
RUNS = 64
"""That should fit into the whole time: a run is one measurement of one candidate."""
LEAST_ANSWER_S = 0.15
"""An answer that is over sooner tells little."""
DEEPER = 1.5
"""A long prompt's tokens may take so many times a short one's."""
STEP = 509
"""Tokens between the beginnings of two prompts: no two begin alike for long."""


class Work(msgspec.Struct, frozen=True):
    """One run."""

    depths: tuple[int, ...]
    """Tokens of its prompts."""
    answer: int
    """Tokens of each answer."""

    def seconds(self, speed: Rates) -> float:
        """That it will take about."""
        prompts = sum(depth / speed.prompt * (DEEPER if depth > SHALLOW else 1.0) for depth in self.depths)
        return prompts + len(self.depths) * self.answer / speed.answer


class Timed(NamedTuple):
    """What one request took."""

    prompt_tokens: int
    prompt_s: float
    answer_tokens: int
    """After the first."""
    answer_s: float


def work_for(speed: Rates, ctx: int, total_s: float) -> Work:
    """The longest prompts with which there are enough runs, and answers that are long enough to be timed."""
    room, run_s = ctx - SPARE, total_s / RUNS
    shallow = min(SHALLOW, max(8, room // 2))
    wanted = next((size for size in reversed(ANSWERS) if size / speed.answer >= LEAST_ANSWER_S), ANSWERS[0])
    answer = max(4, min(wanted, room - shallow))
    while answer > ANSWERS[-1] and Work((shallow,), answer).seconds(speed) > run_s:
        answer //= 2
    for deep in DEPTHS:
        work = Work((shallow, deep), answer)
        if shallow < deep <= room - answer and work.seconds(speed) <= run_s:
            return work
    return Work((shallow,), answer)


def prompt_tokens(text: Sequence[int], depth: int, number: int, *, repeats: bool) -> tuple[int, ...]:
    """The `number`-th prompt of so many tokens, cut out of a longer text. `repeats`: its last third says again what it
    began with, as where somebody wants a text back: that is when guessed tokens are right.
    """
    own = depth - depth // 3 if repeats else depth
    start = number * STEP % len(text)
    first = [text[(start + index) % len(text)] for index in range(own)]
    return tuple(first + first[: depth - own])


def rates_of(timed: Sequence[Timed]) -> Rates:
    """Of one run: geometric means over its requests, so that no depth counts more than another."""
    return Rates(
        _mean([each.prompt_tokens / max(each.prompt_s, 1e-9) for each in timed]),
        _mean([each.answer_tokens / max(each.answer_s, 1e-9) for each in timed]),
    )


def _mean(values: Sequence[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, values)))
