"""Time per step outside the arithmetic: the engine and its sampler on a backend that computes nothing.

    python -m benchmarks.step_overhead

Prints microseconds per decode step at 1, 8 and 32 slots with 152,000 logits each, with several ways of sampling; the
frame of each step is encoded and decoded, as between worker and parent. "beside the decode" is the part that an
asynchronous backend hides: the results of a step are sent while the device computes the next one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from benchmarks.results import save
from localllm.engine.backend import Segment, State
from localllm.engine.building import build_engine
from localllm.engine.engine import Engine, StepOutput
from localllm.engine.media import Extent
from localllm.engine.requests.adapters import AdapterSet
from localllm.engine.requests.sequence import Sequence as Running
from localllm.engine.requests.terms import Ending, ReportOptions, Request
from localllm.engine.sampling import native
from localllm.types import ResolvedSampling
from localllm.worker.messages import Deltas, up_decoder

WARM_UP_STEPS = 20
STEPS = 100
VOCAB = 152_000
ROUNDS = 5


class NoArithmetic:
    """A backend that accepts every batch and always returns the same logits, different ones for each slot."""

    batch_capacity = ubatch_capacity = max_outputs = 512
    slot_capacity = 1 << 20
    max_rollback, rolls_back_equals = 512, False
    can_rewind = True
    can_shift = wants_dense = can_be_interrupted = is_asynchronous = False
    num_nodes, lost_s = 0, 0.0
    num_cells: int | None = None
    tile = grain = 64

    def __init__(self, num_slots: int) -> None:
        self.num_slots = num_slots
        self._rows: npt.NDArray[np.float32] = (
            np.random.default_rng(0).normal(0, 3, (num_slots, VOCAB)).astype(np.float32)
        )
        self._outputs = [[row] for row in self._rows]

    @property
    def decoder(self) -> NoArithmetic:
        return self

    @property
    def cells(self) -> NoArithmetic:
        return self

    @property
    def vocab(self) -> NoArithmetic:
        return self

    def length(self, slot: int) -> int:
        return 0

    def truncate(self, slot: int, length: int) -> None: ...

    def copy(self, source: int, slot: int, length: int) -> None: ...

    def save(self, slot: int) -> State:
        return b""

    def state_bytes(self, slot: int) -> int:
        return 1

    def restore(self, slot: int, state: State, length: int, extents: Sequence[Extent] = ()) -> None: ...

    def least(self, slot: int) -> int:
        return 0

    def checkpoint(self, slot: int) -> State:
        return b""

    def rewind(self, slot: int, state: State, length: int) -> None: ...

    def scrub(self) -> None: ...

    def shift(self, slot: int, keep: int, drop: int) -> None: ...

    def set_threads(self, threads: int) -> None: ...

    def use_adapters(self, adapters: AdapterSet) -> bool:
        return False

    adapter_status = None

    def decode(self, segments: Sequence[Segment], *, within_s: float | None = None) -> bool:
        return True

    def rest(self) -> None: ...

    def interrupt(self, within_s: float) -> None: ...

    def clear_interrupts(self) -> None: ...

    def synchronize(self) -> None: ...

    def logits(self, index: int) -> Sequence[npt.NDArray[np.float32]]:
        return self._outputs[index]

    def spelled(self, token: int) -> bytes:
        return b"x"

    def token_bytes(self, token: int) -> bytes:
        return b"x"

    def ends_generation(self, token: int) -> bool:
        return False


class Queueing(NoArithmetic):
    """Measures the time between `decode` and the wait for its result."""

    is_asynchronous = True
    began_s = beside_s = 0.0

    def decode(self, segments: Sequence[Segment], *, within_s: float | None = None) -> bool:
        self.began_s = time.perf_counter()
        return True

    def synchronize(self) -> None:
        self.beside_s += time.perf_counter() - self.began_s


class Way(NamedTuple):
    """A way of sampling, and of reporting tokens."""

    sampling: ResolvedSampling
    stop: tuple[str, ...] = ("\n\n",)
    logprobs: int | None = None


def microseconds_per_step(num_slots: int, way: Way) -> float:
    """Time of a step in which every slot decodes one token: the best of several rounds."""
    engine = _engine(NoArithmetic(num_slots), way)
    best = float("inf")
    for _ in range(ROUNDS):
        started = time.perf_counter()
        for _ in range(STEPS):
            engine.step()
        best = min(best, time.perf_counter() - started)
    return round(best / STEPS * 1e6, 1)


def microseconds_beside(num_slots: int, way: Way) -> float:
    """Time of a step's work while the device computes: the best of several rounds."""
    backend = Queueing(num_slots)
    engine = _engine(backend, way)
    best = float("inf")
    for _ in range(ROUNDS):
        backend.beside_s = 0.0
        for _ in range(STEPS):
            engine.step()
        best = min(best, backend.beside_s)
    return round(best / STEPS * 1e6, 1)


def _engine(backend: NoArithmetic, way: Way) -> Engine:
    """An engine in which every slot decodes."""
    encoder = msgspec.msgpack.Encoder()

    def through_a_frame(output: StepOutput) -> None:
        up_decoder.decode(encoder.encode(Deltas(output.step, tuple(output.deltas))))

    engine = build_engine(backend, through_a_frame, sampler=native.load(threads=os.cpu_count() or 1))
    for id in range(backend.num_slots):
        ending, reported = Ending(stop=way.stop, ignore_eos=True), ReportOptions(logprobs=way.logprobs)
        request = Running(Request(id, [1] * 8, sampling=way.sampling, ending=ending, reported=reported))
        engine.submit(request)
    for _ in range(WARM_UP_STEPS):
        engine.step()
    return engine


WAYS = {
    "greedy": Way(ResolvedSampling(temperature=0)),
    "greedy, no stop string": Way(ResolvedSampling(temperature=0), stop=()),
    "greedy, log-probabilities": Way(ResolvedSampling(temperature=0), stop=(), logprobs=5),
    "defaults": Way(ResolvedSampling()),
    "temperature": Way(ResolvedSampling(temperature=1, top_k=0, top_p=1, min_p=0)),
    "top_p": Way(ResolvedSampling(temperature=0.8, top_k=0, top_p=0.95, min_p=0)),
}


def main() -> None:
    results: dict[str, dict[str, float]] = {}
    for name, way in WAYS.items():
        results[name] = {str(n): microseconds_per_step(n, way) for n in (1, 8, 32)}
        results[f"{name}, beside the decode"] = {str(n): microseconds_beside(n, way) for n in (1, 8, 32)}
    save("step_overhead", results)


if __name__ == "__main__":
    main()
