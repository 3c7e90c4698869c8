"""Python per step outside the arithmetic: the engine on a backend that computes nothing.

    python -m benchmarks.step_overhead

Prints microseconds per decode step at 1, 8 and 32 slots, for the engine alone and with its frame encoded and decoded
as between worker and parent.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from benchmarks.results import save
from localllm.engine.backend import Segment
from localllm.engine.engine import Engine, StepOutput
from localllm.engine.sequence import Sequence as Request
from localllm.types import ResolvedSampling
from localllm.worker.messages import Deltas, up_decoder

WARM_UP_STEPS = 200
STEPS = 2000
ROUNDS = 5


class NoArithmetic:
    """A backend that takes every batch and always samples the letter x."""

    batch_capacity = 512
    slot_capacity = 1 << 20

    def __init__(self, num_slots: int) -> None:
        self.num_slots = num_slots

    def open(self, slot: int, sampling: ResolvedSampling) -> None: ...

    def close(self, slot: int) -> None: ...

    def decode(self, segments: Sequence[Segment]) -> None: ...

    def sample(self, index: int) -> int:
        return 120

    def token_bytes(self, token: int) -> bytes:
        return b"x"

    def ends_generation(self, token: int) -> bool:
        return False


def microseconds_per_step(num_slots: int, *, with_frames: bool) -> float:
    """The best of several rounds of steps in which every slot decodes one token."""
    encoder = msgspec.msgpack.Encoder()

    def drop(output: StepOutput) -> None: ...

    def through_a_frame(output: StepOutput) -> None:
        up_decoder.decode(encoder.encode(Deltas(output.step, tuple(output.deltas))))

    engine = Engine(NoArithmetic(num_slots), through_a_frame if with_frames else drop)
    for id in range(num_slots):
        engine.submit(Request(id, [1] * 8, sampling=ResolvedSampling(), stop=("\n\n",)))
    for _ in range(WARM_UP_STEPS):
        engine.step()
    best = float("inf")
    for _ in range(ROUNDS):
        started = time.perf_counter()
        for _ in range(STEPS):
            engine.step()
        best = min(best, time.perf_counter() - started)
    return round(best / STEPS * 1e6, 1)


def main() -> None:
    figures = {
        "engine_us_per_step": {str(n): microseconds_per_step(n, with_frames=False) for n in (1, 8, 32)},
        "engine_and_frame_us_per_step": {str(n): microseconds_per_step(n, with_frames=True) for n in (1, 8, 32)},
    }
    save("step_overhead", figures)


if __name__ == "__main__":
    main()
