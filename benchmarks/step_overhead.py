"""Time per step outside the arithmetic: the engine and its sampler on a backend that computes nothing.

    python -m benchmarks.step_overhead

Prints microseconds per decode step at 1, 8 and 32 slots with 152,000 logits each, drawn in several ways; the
step's frame is encoded and decoded as between worker and parent.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from benchmarks.results import save
from localllm.engine.backend import Segment, State
from localllm.engine.engine import Engine, StepOutput
from localllm.engine.sampling import native
from localllm.engine.sequence import Sequence as Request
from localllm.types import ResolvedSampling
from localllm.worker.messages import Deltas, up_decoder

WARM_UP_STEPS = 20
STEPS = 100
VOCAB = 152_000
ROUNDS = 5


class NoArithmetic:
    """A backend that takes every batch and always gives the same logits, every slot its own."""

    batch_capacity = ubatch_capacity = max_outputs = 512
    slot_capacity = 1 << 20
    can_rewind = True
    can_shift = wants_dense = can_be_interrupted = False
    num_nodes, lost_s = 0, 0.0
    num_cells: int | None = None
    tile = grain = 64

    def __init__(self, num_slots: int) -> None:
        self.num_slots = num_slots
        self._rows: npt.NDArray[np.float32] = (
            np.random.default_rng(0).normal(0, 3, (num_slots, VOCAB)).astype(np.float32)
        )
        self._outputs = [[row] for row in self._rows]

    def length(self, slot: int) -> int:
        return 0

    def truncate(self, slot: int, length: int) -> None: ...

    def copy(self, source: int, slot: int, length: int) -> None: ...

    def save(self, slot: int) -> State:
        return b""

    def state_bytes(self, slot: int) -> int:
        return 1

    def restore(self, slot: int, state: State, length: int) -> None: ...

    def least(self, slot: int) -> int:
        return 0

    def checkpoint(self, slot: int) -> State:
        return b""

    def rewind(self, slot: int, state: State, length: int) -> None: ...

    def scrub(self) -> None: ...

    def shift(self, slot: int, keep: int, drop: int) -> None: ...

    def set_threads(self, threads: int) -> None: ...

    def decode(self, segments: Sequence[Segment], *, within_s: float | None = None) -> bool:
        return True

    def interrupt(self, within_s: float) -> None: ...

    def clear_interrupts(self) -> None: ...

    def logits(self, index: int) -> Sequence[npt.NDArray[np.float32]]:
        return self._outputs[index]

    def spelled(self, token: int) -> bytes:
        return b"x"

    def token_bytes(self, token: int) -> bytes:
        return b"x"

    def ends_generation(self, token: int) -> bool:
        return False


def microseconds_per_step(num_slots: int, sampling: ResolvedSampling) -> float:
    """The best of several rounds of steps in which every slot decodes one token."""
    encoder = msgspec.msgpack.Encoder()

    def through_a_frame(output: StepOutput) -> None:
        up_decoder.decode(encoder.encode(Deltas(output.step, tuple(output.deltas))))

    engine = Engine(NoArithmetic(num_slots), through_a_frame, sampler=native.load(threads=os.cpu_count() or 1))
    for id in range(num_slots):
        engine.submit(Request(id, [1] * 8, sampling=sampling, stop=("\n\n",), ignore_eos=True))
    for _ in range(WARM_UP_STEPS):
        engine.step()
    best = float("inf")
    for _ in range(ROUNDS):
        started = time.perf_counter()
        for _ in range(STEPS):
            engine.step()
        best = min(best, time.perf_counter() - started)
    return round(best / STEPS * 1e6, 1)


WAYS = {
    "greedy": ResolvedSampling(temperature=0),
    "defaults": ResolvedSampling(),
    "temperature": ResolvedSampling(temperature=1, top_k=0, top_p=1, min_p=0),
    "top_p": ResolvedSampling(temperature=0.8, top_k=0, top_p=0.95, min_p=0),
}


def main() -> None:
    save("step_overhead", {way: {str(n): microseconds_per_step(n, WAYS[way]) for n in (1, 8, 32)} for way in WAYS})


if __name__ == "__main__":
    main()
