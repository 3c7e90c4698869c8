"""The work that measures a speed: prompts of two lengths, with an answer after each. Pure functions.

Long enough for a clock, short enough for many rounds within the requested time. Knows no model and no process.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import geometric_mean
from typing import NamedTuple

import msgspec

from localllm.tuning.comparing import Rates

SHALLOW = 128
"""Tokens of the short prompt: a question."""
DEPTHS = (4096, 2048, 1024, 512, 256)
"""Tokens of the long prompt: a document, a conversation."""
ANSWERS = (256, 128, 64, 32, 16)
SPARE = 16
"""Tokens of a slot that stay unused."""
RUNS = 64
"""Runs that should fit into the whole time: a run is one measurement of one candidate."""
LEAST_ANSWER_S = 0.15
"""Shorter answers are not timed precisely enough."""
DEEPER = 1.5
"""A token of a long prompt may take this many times as long as one of a short prompt."""
STEP = 509
"""Tokens between the starts of two prompts, so that no two share a long prefix."""


class Work(msgspec.Struct, frozen=True):
    """One run."""

    depths: tuple[int, ...]
    """Tokens of its prompts."""
    answer: int
    """Tokens of each answer."""

    def seconds(self, speed: Rates) -> float:
        """Its approximate duration."""
        prompts = sum(depth / speed.prompt * (DEEPER if depth > SHALLOW else 1.0) for depth in self.depths)
        return prompts + len(self.depths) * self.answer / speed.answer


class RequestTiming(NamedTuple):
    """Duration of one request."""

    prompt_tokens: int
    prompt_s: float
    answer_tokens: int
    """After the first."""
    answer_s: float


def work_for(speed: Rates, ctx: int, total_s: float) -> Work:
    """The longest prompts that leave time for enough runs, and answers long enough to be timed."""
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
    """The `number`-th prompt of `depth` tokens, cut out of a longer text. `repeats`: its last third repeats its start,
    as in a request to edit a text, where guessed tokens are right."""
    own = depth - depth // 3 if repeats else depth
    start = number * STEP % len(text)
    first = [text[(start + index) % len(text)] for index in range(own)]
    return tuple(first + first[: depth - own])


def rates_of(timed: Sequence[RequestTiming]) -> Rates:
    """Rates of one run: geometric means over its requests, so that every depth has equal weight."""
    return Rates(
        geometric_mean([each.prompt_tokens / max(each.prompt_s, 1e-9) for each in timed]),
        geometric_mean([each.answer_tokens / max(each.answer_s, 1e-9) for each in timed]),
    )
