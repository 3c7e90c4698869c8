"""What steps of streams take with several rows each, learned on the run for each shape of the batch.

A step's cost model knows a pass and a row. Few rows are not like many: the first may cost nothing, since the weights
are read anyway, or as much as a pass, where the kernels for one row are much better than those for two. So what each
shape really took is kept beside what the model says, as a factor. Pure: knows nothing of clocks or sequences.
"""

from __future__ import annotations

import math
from collections.abc import Sequence as Many

from localllm.engine.scheduling.rows import Cost, Part, passes

SLOWER, FASTER = 0.1, 0.4
"""How much of the error of a shape a step changes that took longer than predicted, and one that took less: what holds a
step up is others' work."""
FIRST = 0.5
"""As much as the first one does."""
EAGER = math.log(1.25)
"""Where no streams of that number ever had several rows, these are taken to cost less than the model says, once."""
EVEN = 0.2
"""Likewise where slower and quicker ones count alike."""
LARGEST = math.log(2.0)
"""An error beyond that is an accident of one step: another program had the cores."""
FORGETTING = 0.995
"""How much stays of what shapes cost beyond the plain one, at each step of that: what is not tried is not learned."""
MOST_SHAPES = 512
"""Remembered, those of the last steps."""

_Shape = tuple[int, int]
"""Passes over the weights, and rows of all streams together."""


class RowCost:
    """A `Cost`."""

    def __init__(self, base: Cost) -> None:
        """`base`: what the model says, in any unit."""
        self._base = base
        self._errors: dict[int, dict[_Shape, float]] = {}
        """Number of streams -> shape -> the logarithm of what it took for what the model says."""
        self._num_shapes = 0
        self._measured: dict[tuple[int, _Shape], float] = {}
        """Of streams and shape, what it took of late for what the model says: slow ones count as quick ones do."""

    def __call__(self, parts: Many[Part]) -> float:
        return self._base(parts) * math.exp(self._error(len(parts), _shape(parts)))

    def measured(self, parts: Many[Part]) -> float:
        """The mean of late where that shape was measured: dearer than what is hoped for, never cheaper."""
        found = self._measured.get((len(parts), _shape(parts)))
        return self(parts) if found is None else max(self(parts), self._base(parts) * math.exp(found))

    def knows(self, num_streams: int) -> bool:
        """Whether a step of so many was measured: what it costs is in seconds then."""
        return num_streams in self._errors

    def observe(self, parts: Many[Part], seconds: float) -> None:
        """A step of these streams took so long."""
        count, shape = len(parts), _shape(parts)
        known = self._error(count, shape)
        of_streams = self._errors.setdefault(count, {})
        error = math.log(max(seconds, 1e-9) / self._base(parts))
        key = count, shape
        mean = self._measured.pop(key, error)
        self._measured[key] = mean + EVEN * (min(error, mean + LARGEST) - mean)
        if len(self._measured) > MOST_SHAPES:
            del self._measured[next(iter(self._measured))]
        if of_streams:
            error = max(-LARGEST, min(LARGEST, error - known))
            gain = SLOWER if error > 0 else FASTER
            error = known + error * (gain if shape in of_streams else FIRST)
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
        """Of that shape, or of the one that is most like it and was tried."""
        of_streams = self._errors.get(num_streams)
        if not of_streams:
            return 0.0
        error = of_streams.get(shape)
        if error is None:
            num_passes, num_rows = shape
            likeliest = min(of_streams, key=lambda other: (abs(other[0] - num_passes), abs(other[1] - num_rows)))
            error = of_streams[likeliest]
            if len(of_streams) == 1 and likeliest == (1, num_streams):
                error -= EAGER
        return error

    def _forget(self, kept: int) -> None:
        """The shape that was not met for longest, of another number of streams if there is one."""
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
    return 1 if is_even else passes(parts), sum(rows)
