"""How many tokens a draft model should guess: what gives most tokens a second, its own time counted.

A guessed token costs one decode of the draft for all streams together and a row of the target for each. So the best
length is found before anything is drafted, by how often guesses are right, and drafting stops earlier where what was
guessed is unlikely to stand. Pure: knows nothing of models, sequences or clocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from localllm.engine.scheduling.rows import LONGEST, MOST_ROWS, Cost, Part

LENGTHS = (1, 2, 3, 5, 7, 11, 15)
"""To try."""
MARGIN = 1.02
"""So many times as many tokens a second as without have to be expected: what is measured is not exact."""


SURE = 0.98
"""No guess is surer."""


class Stream(NamedTuple):
    """One that streams in the next step."""

    slot: int
    depth: int
    """Tokens before its rows."""
    chance: float
    """Of a guess to be right; 0: no draft is wanted for it."""
    most: int
    """Tokens that may be guessed for it."""


class Length(NamedTuple):
    """What pays."""

    num_tokens: int
    places: frozenset[int]
    """Of the streams that get them."""
    rate: float
    """Tokens a second to expect, of all streams together."""
    row_s: float
    """What one more row of a stream costs."""


def best_length(
    streams: Sequence[Stream], cost: Cost, draft_s: Callable[[int], float], *, invested_s: float = 0.0
) -> Length | None:
    """Of all streams, in order of slots. None: nothing pays.

    `cost` says in seconds what a step of the target takes, `draft_s` what one decode of the draft for so many streams
    takes. `invested_s`: what each step has to earn besides.
    """
    plain_s = cost([(stream.slot, stream.depth, 1) for stream in streams])
    willing = sorted(
        (place for place, stream in enumerate(streams) if stream.chance > 0 and stream.most > 0),
        key=lambda place: -streams[place].chance,
    )
    best, best_rate = None, MARGIN * len(streams) / plain_s
    if not willing or _most(streams) <= best_rate * (plain_s + draft_s(1)):
        return None
    for count in sorted({len(willing), (len(willing) + 1) // 2} - {0}, reverse=True):
        places = frozenset(willing[:count])
        each_s = draft_s(count)
        for length in LENGTHS:
            if length >= (LONGEST if len(streams) == 1 else MOST_ROWS):
                break
            parts = [_part(stream, length if place in places else 0) for place, stream in enumerate(streams)]
            took_s = max(cost(parts), plain_s)  # what was never tried is taken for cheap
            total = len(streams) + sum([_expected(streams[place], length) for place in places])
            rate = total / (took_s + length * each_s + invested_s)
            if rate > best_rate:
                row_s = max(0.0, took_s - plain_s) / (length * count)
                best, best_rate = Length(length, places, rate, row_s), rate
    return best


def _most(streams: Sequence[Stream]) -> float:
    """Tokens of a step if any number were guessed."""
    return sum([1 / (1 - min(stream.chance, SURE)) for stream in streams])


def _part(stream: Stream, length: int) -> Part:
    return (stream.slot, stream.depth, 1 + min(length, stream.most))


def _expected(stream: Stream, length: int) -> float:
    """Tokens of so many guesses."""
    right, total = 1.0, 0.0
    for _ in range(min(length, stream.most)):
        right *= stream.chance
        total += right
    return total
