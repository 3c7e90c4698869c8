"""The cost of steps in which streams have several rows, learned while running for each shape of the batch.

A step's cost model knows passes and rows. But a few rows are not like many: the first additional one may cost nothing,
since the weights are read anyway, or as much as a pass, where the kernels for one row are much better than those for
two. So the measured cost of each shape is kept as a factor on the model's. The model does not learn from such steps:
what it says of prompts would be several times too much (benchmarks/log/scheduling.md#one-cost-model-with-guesses).
Knows nothing of clocks or sequences.
"""

from __future__ import annotations

import math
from collections.abc import Sequence as Many

from localllm.engine.scheduling.cost import Part
from localllm.engine.scheduling.rows import Cost, count_passes

SLOWER_GAIN, FASTER_GAIN = 0.1, 0.4
"""Weight of one step's error for its shape, where it took longer than predicted and where it took less: a slow step was
usually held up by other work."""
FIRST_GAIN = 0.5
"""Weight of the first measurement of a shape."""
UNTRIED_BONUS = math.log(1.25)
"""Bonus for untried shapes: until streams of that number ever had several rows, they are assumed to cost this much less
than the model says, so that they are tried once."""
MEAN_GAIN = 0.2
"""Weight of one step in the plain mean, where slow and fast steps count alike."""
MAX_LOG_ERROR = math.log(2.0)
"""Maximum error that one step may show; more is an accident, such as another program on the cores."""
FORGETTING = 0.995
"""Decay, at each plain step, of the extra cost learned for other shapes, so that they are tried again."""
MOST_SHAPES = 512
"""Maximum number of shapes remembered; the least recently used are forgotten."""

_Shape = tuple[int, int]
"""Passes over the weights, and rows of all streams together."""


class RowCost:
    """Learned cost of a step in which streams have several rows. Implements `Cost`."""

    def __init__(self, base: Cost) -> None:
        """`base`: the model's cost, in any unit."""
        self._base = base
        self._errors: dict[int, dict[_Shape, float]] = {}
        """Number of streams -> shape -> logarithm of measured over predicted cost, optimistic."""
        self._num_shapes = 0
        self._measured: dict[tuple[int, _Shape], float] = {}
        """(Number of streams, shape) -> the recent mean of the same, with slow and fast steps alike."""

    def __call__(self, parts: Many[Part]) -> float:
        return self._base(parts) * math.exp(self._error(len(parts), _shape(parts)))

    def measured(self, parts: Many[Part]) -> float:
        """Recent mean cost of a step of this shape, at least the optimistic cost; that alone, if never measured."""
        found = self._measured.get((len(parts), _shape(parts)))
        return self(parts) if found is None else max(self(parts), self._base(parts) * math.exp(found))

    def knows(self, num_streams: int) -> bool:
        """Whether a step of this many streams was measured, so that its cost is in seconds."""
        return num_streams in self._errors

    def lacks_one_row(self, num_streams: int) -> bool:
        """Whether this many streams were measured with several rows each only, so that nobody knows what these add."""
        return num_streams in self._errors and (1, num_streams) not in self._errors[num_streams]

    def observe(self, parts: Many[Part], seconds: float) -> None:
        """Record that a step of these parts took `seconds`."""
        count, shape = len(parts), _shape(parts)
        known = self._error(count, shape)
        of_streams = self._errors.setdefault(count, {})
        error = math.log(max(seconds, 1e-9) / self._base(parts))
        key = count, shape
        mean = self._measured.pop(key, error)
        self._measured[key] = mean + MEAN_GAIN * (min(error, mean + MAX_LOG_ERROR) - mean)
        if len(self._measured) > MOST_SHAPES:
            del self._measured[next(iter(self._measured))]
        is_first_of_one_row = shape == (1, count) and shape not in of_streams
        if of_streams and not is_first_of_one_row:  # what others are compared with must not be a guess from them
            error = max(-MAX_LOG_ERROR, min(MAX_LOG_ERROR, error - known))
            gain = SLOWER_GAIN if error > 0 else FASTER_GAIN
            error = known + error * (gain if shape in of_streams else FIRST_GAIN)
        self._num_shapes += shape not in of_streams
        of_streams.pop(shape, None)
        of_streams[shape] = error
        if shape == (1, count):
            for other, its_error in of_streams.items():
                if its_error > error:
                    of_streams[other] = error + FORGETTING * (its_error - error)
        if self._num_shapes > MOST_SHAPES:
            self._forget(count)

    def _error(self, num_streams: int, shape: _Shape) -> float:
        """Learned error of this shape, or of the most similar one that was tried."""
        of_streams = self._errors.get(num_streams)
        if not of_streams:
            return 0.0
        error = of_streams.get(shape)
        if error is None:
            num_passes, num_rows = shape
            likeliest = min(of_streams, key=lambda other: (abs(other[0] - num_passes), abs(other[1] - num_rows)))
            error = of_streams[likeliest]
            if len(of_streams) == 1 and likeliest == (1, num_streams):
                error -= UNTRIED_BONUS
        return error

    def _forget(self, kept: int) -> None:
        """Drop the least recently used shape, of another number of streams if there is one."""
        num_streams = next((number for number in self._errors if number != kept), kept)
        of_streams = self._errors[num_streams]
        del of_streams[next(iter(of_streams))]
        self._num_shapes -= 1
        if not of_streams:
            del self._errors[num_streams]


def _shape(parts: Many[Part]) -> _Shape:
    rows = [part[2] for part in parts]
    first, last = parts[0][0], parts[-1][0]
    is_even = rows.count(rows[0]) == len(rows) == last - first + 1
    return 1 if is_even else count_passes(parts), sum(rows)
