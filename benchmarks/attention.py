"""Gains and costs of flash attention: milliseconds per step with and without it, by rows and depth.

    python -m benchmarks.attention MODEL.gguf [--rounds N] [--threads N] [--depths 0,300,1400,3500]

Uses `LlamaBackend` with two contexts in one process. Steps alternate between them, since the machine's speed changes.
The tokens do not affect the speed, so one slot is computed and copied.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.results import save
from localllm.engine.backend import Segment
from localllm.llama import library
from localllm.llama.backend import LlamaBackend, open_backend
from localllm.llama.context import Attention, Batching, KvMemory
from localllm.llama.model import LlamaModel
from localllm.llama.probes import selftest
from localllm.types import FlashAttn

SLOTS = 8
MODES: tuple[FlashAttn, ...] = ("on", "off")
SHAPES = ((1, 1), (1, 8), (1, 32), (1, 64), (1, 512), (2, 1), (4, 1), (8, 1), (8, 8))
"""(slots, rows of each)."""


def tokens(count: int) -> list[int]:
    return [int(token) for token in np.random.default_rng(0).integers(100, 900, count)]


def fill(backend: LlamaBackend, start: int, depth: int) -> None:
    """Fill slot 0 from `start` to `depth` tokens, and copy it to all others."""
    for begin in range(start, depth, 512):
        backend.decoder.decode([Segment(0, begin, tokens(min(512, depth - begin)), num_outputs=1)])
    for slot in range(1, SLOTS):
        backend.cells.copy(0, slot, depth)
    step_s(backend, depth, SLOTS, 1)  # moves the copies


def step_s(backend: LlamaBackend, depth: int, slots: int, rows: int) -> float:
    """Seconds for a step with `rows` rows in each of `slots` slots, which hold `depth` tokens before and after."""
    segments = [Segment(slot, depth, tokens(rows), num_outputs=1) for slot in range(slots)]
    started_s = time.perf_counter()
    backend.decoder.decode(segments)
    took_s = time.perf_counter() - started_s
    for slot in range(slots):
        backend.cells.truncate(slot, depth)
    return took_s


def compare(backends: Sequence[LlamaBackend], depth: int, rounds: int) -> dict[str, str]:
    """`slots x rows` -> milliseconds with / without, and their ratio."""
    figures = {}
    for slots, rows in SHAPES:
        times: list[list[float]] = [[], []]
        for _ in range(rounds):
            for backend, mine in zip(backends, times, strict=True):
                mine.append(1000 * step_s(backend, depth, slots, rows))
        with_ms, without_ms = (statistics.median(mine) for mine in times)
        figures[f"{slots}x{rows}"] = f"{with_ms:.1f} / {without_ms:.1f} ({with_ms / without_ms:.2f})"
        print(depth, f"{slots}x{rows}", figures[f"{slots}x{rows}"], flush=True)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("model", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--depths", default="0,300,1400,3500")
    arguments = parser.parse_args()
    depths = [int(depth) for depth in arguments.depths.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        loaded = library.load(selftest.choose(Path(folder)).choice)
    model = LlamaModel(loaded, arguments.model, gpu_layers=0, devices=(), must_offload=False)
    ctx = depths[-1] + 520
    backends = [
        open_backend(
            loaded, model, KvMemory(ctx, SLOTS), Batching(512), threads=arguments.threads, attention=Attention(mode)
        )
        for mode in MODES
    ]
    figures, before = {}, 0
    for depth in depths:
        for backend in backends:
            fill(backend, before, depth)
        figures[str(depth)] = compare(backends, depth, arguments.rounds)
        before = depth
    for backend in backends:
        backend.free()
    save(f"attention-{arguments.model.stem}", {"ms_on_off": figures})


if __name__ == "__main__":
    main()
