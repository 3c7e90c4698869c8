"""How many tokens a draft model should guess: the number that gives most tokens per second, counting its own time.

A guessed token costs time of the draft, for all streams together, and one row of the target for each. So the best
length is chosen before anything is drafted, from how often guesses are right, and drafting stops earlier where a guess
is unlikely to stand. Pure: knows nothing of models, sequences or clocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from localllm.engine.scheduling.cost import Part
from localllm.engine.scheduling.rows import MAX_STREAM_ROWS, MOST_ROWS, Cost

LENGTHS = (1, 2, 3, 5, 7, 11, 15)
"""Draft lengths to consider."""
MIN_SPEEDUP = 1.02
"""Minimum gain in tokens per second over not drafting, as a factor: measurements are not exact."""


MAX_CHANCE = 0.98
"""Upper bound for the probability of a guess."""


class Stream(NamedTuple):
    """A stream of the next step."""

    slot: int
    depth: int
    """Number of tokens before the rows of this stream."""
    chance: float
    """Probability that a guess is accepted; 0: this stream wants no draft."""
    most: int
    """Maximum number of guesses for this stream."""


class Length(NamedTuple):
    """Which streams get drafts, how long they are, and what that is expected to gain."""

    num_tokens: int
    places: frozenset[int]
    """Indexes of the streams that get drafts."""
    rate: float
    """Expected tokens per second, all streams together."""
    steps_s: tuple[float, ...]
    """Duration of a target step with 0, 1, 2 ... guesses for each of these streams."""

    def more_s(self, num_guesses: int, num_more: int) -> float:
        """Time that `num_more` further guesses add to a step, per stream."""
        both = self.steps_s[num_guesses + num_more] - self.steps_s[num_guesses]
        return both / len(self.places)


def best_length(
    streams: Sequence[Stream],
    cost: Cost,
    draft_s: Callable[[int, int], float],
    *,
    invested_s: float = 0.0,
    are_equal: bool = False,
) -> Length | None:
    """The best choice over all streams, given in slot order. None: nothing pays.

    `cost`: seconds of a step of the target; `draft_s`: seconds of the draft for that many streams and
    guesses for each.
    `invested_s`: additional time that each step must recover. `are_equal`: a step has several rows per stream only if
    all have the same number and their slots are consecutive.
    """
    if are_equal and streams[-1].slot - streams[0].slot >= len(streams):
        return None
    plain_s = cost([(stream.slot, stream.depth, 1) for stream in streams])
    willing = sorted(
        (place for place, stream in enumerate(streams) if stream.chance > 0 and stream.most > 0),
        key=lambda place: -streams[place].chance,
    )
    best, best_rate = None, MIN_SPEEDUP * len(streams) / plain_s
    if not willing or _most(streams) <= best_rate * (plain_s + draft_s(1, 1)):
        return None
    for count in sorted({len(willing), (len(willing) + 1) // 2} - {0}, reverse=True):
        places = frozenset(willing[:count])
        for length in LENGTHS:
            if length > _longest(len(streams)):
                break
            took_s = max(cost(_parts(streams, places, length, are_equal)), plain_s)  # untried shapes look cheap
            total = len(streams) + sum([_expected(streams[place], length) for place in places])
            rate = total / (took_s + draft_s(count, length) + invested_s)
            if rate > best_rate:
                best, best_rate = Length(length, places, rate, ()), rate
    if best is None:
        return None
    longest = min(max([streams[place].most for place in best.places]), _longest(len(streams)))
    steps_s = [cost(_parts(streams, best.places, length, are_equal)) for length in range(1, longest + 1)]
    return best._replace(steps_s=(plain_s, *[max(each_s, plain_s) for each_s in steps_s]))


def _longest(num_streams: int) -> int:
    """Maximum number of guesses per stream in a step of this many streams."""
    return (MAX_STREAM_ROWS if num_streams == 1 else MOST_ROWS) - 1


def _most(streams: Sequence[Stream]) -> float:
    """Upper bound for the expected tokens of a step, with any number of guesses."""
    return sum([1 / (1 - min(stream.chance, MAX_CHANCE)) for stream in streams])


def _parts(streams: Sequence[Stream], places: frozenset[int], length: int, are_equal: bool) -> list[Part]:
    """Parts of a step with `length` guesses for the streams at these places."""
    if are_equal:
        num_rows = 1 + min(length, max([streams[place].most for place in places]))
        return [(stream.slot, stream.depth, num_rows) for stream in streams]
    return [
        (stream.slot, stream.depth, 1 + (min(length, stream.most) if place in places else 0))
        for place, stream in enumerate(streams)
    ]


def _expected(stream: Stream, length: int) -> float:
    """Expected number of accepted tokens among `length` guesses."""
    right, total = 1.0, 0.0
    for _ in range(min(length, stream.most)):
        right *= stream.chance
        total += right
    return total
