"""Machines as in the tables of benchmarks/log: what a step takes by passes, rows and the tokens these look at.

They split a batch as llama.cpp does, written down anew here, so that the cost model is not tested against itself.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from hypothesis import strategies as st

from localllm.engine.backend import Segment
from localllm.engine.scheduling.cost import TILE, Part, StepCost
from tests.fakes import FakeBackend


class Machine(NamedTuple):
    """Seconds for one of each."""

    a_pass: float
    row: float
    look: float
    """Of a row at one token, outside of a tile."""
    tiled_look: float

    def seconds(self, parts: Sequence[Part]) -> float:
        """In each pass every sequence of a run of neighbouring slots has as many rows as the shortest of them."""
        left = {slot: [depth, rows] for slot, depth, rows in parts}
        total = 0.0
        while left:
            run = [min(left)]
            while run[-1] + 1 in left:
                run.append(run[-1] + 1)
            rows = min(min(left[slot][1] for slot in run), max(1, 512 // len(run)))
            total += self.a_pass
            for slot in run:
                look = self.tiled_look if rows >= TILE else self.look
                total += rows * self.row + look * rows * (left[slot][0] + rows / 2)
                left[slot] = [left[slot][0] + rows, left[slot][1] - rows]
                if left[slot][1] == 0:
                    del left[slot]
        return total

    def known(self) -> StepCost:
        """A cost model that has learned this machine."""
        cost = StepCost()
        cost._model.rates = self
        cost._model.is_measured = True
        return cost


XEON = Machine(0.023, 0.0044, 10e-6, 2.7e-6)
"""2026-11-21, 135 M, with flash attention: 64 rows behind 1,358 tokens take 547 ms, 56 take 1,196."""
AMX = Machine(0.008, 0.00072, 4.7e-6, 0.5e-6)
"""The same model where matrices are computed by tiles: 1,390 tokens/s, 123 in one stream."""
SLOW = Machine(0.08, 0.014, 30e-6, 8e-6)
"""A tile takes longer than two steps may, even behind nothing."""
GPU = Machine(0.005, 0.00005, 2e-8, 1e-8)
MACHINES = st.builds(
    lambda a_pass, rows, looks, gain: Machine(
        a_pass, a_pass / rows, a_pass / rows / looks, a_pass / rows / looks / gain
    ),
    st.floats(0.001, 0.5),
    st.floats(2, 100),
    st.floats(200, 20_000),
    st.floats(1, 5),
)
"""A pass costs 2 to 100 rows, a row as much as 200 to 20,000 looked-at tokens, up to 5 times cheaper ones in a tile."""


class Takes(Protocol):
    """What a step takes."""

    def seconds(self, parts: Sequence[Part], /) -> float: ...


class MachineBackend(FakeBackend):
    """Takes as long as a machine, by a clock of its own; a copy takes its time with the next decode, as llama.cpp's."""

    def __init__(
        self, machine: Takes, *, noise: float = 0.0, outliers: float = 0.0, copy_s: float = 0.0, num_slots: int = 8
    ) -> None:
        """`noise`: of a step's time, in parts of it; `outliers`: how often it takes 2 to 10 times as long."""
        super().__init__(num_slots=num_slots, slot_capacity=8192, batch_capacity=512)
        self.now_s = 0.0
        self.steps_s: list[float] = []
        self._machine = machine
        self._noise, self._outliers, self._copy_s = noise, outliers, copy_s
        self._random = random.Random(0)
        self._copying_s = 0.0

    def copy(self, source: int, slot: int, length: int) -> None:
        super().copy(source, slot, length)
        self._copying_s += self._copy_s

    def decode(self, segments: Sequence[Segment], *, within_s: float | None = None) -> bool:
        is_whole = super().decode(segments, within_s=within_s)
        seconds = self._machine.seconds(
            [(each.slot, each.start, len(each.tokens) + each.num_padding) for each in segments]
        )
        seconds *= math.exp(self._random.gauss(0, self._noise))
        if self._random.random() < self._outliers:
            seconds *= self._random.uniform(2, 10)
        self.steps_s.append(seconds)
        self.now_s += seconds + self._copying_s
        self._copying_s = 0.0
        return is_whole
