"""The cost of KV cache layouts and types with 16 streams, and the gain of compacting a unified cache.

    python -m benchmarks.kv_layouts MODEL.gguf [--rounds N]

Measures decoding only, through `LlamaBackend`: 16 slots of 700 tokens each, as different prompts (cells of their own)
or as one shared prompt (`copy`: shared cells in a unified cache). The tokens do not affect the speed, so they are
computed once and put into every slot. Steps alternate, since the machine's speed changes. Compaction: one stream of 700
tokens whose cells come after 16,100 freed ones.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.results import save
from localllm.engine.backend import Segment
from localllm.llama import library
from localllm.llama.backend import LlamaBackend, open_backend
from localllm.llama.context import Batching, KvMemory
from localllm.llama.model import LlamaModel
from localllm.llama.probes import selftest

SLOTS, PROMPT, CTX, THREADS, STEPS = 16, 700, 1024, 2, 3
GONE = 23
"""Slots with PROMPT tokens each, in place of a long request of 16,100 tokens."""
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "partitioned f16": {},
    "unified f16": {"num_cells": SLOTS * CTX},
    "partitioned q8_0": {"kv_type": "q8_0"},
    "partitioned q4_0": {"kv_type": "q4_0"},
}


def prefill(backend: LlamaBackend, slot: int) -> None:
    tokens = np.random.default_rng(0).integers(1000, 5000, PROMPT).tolist()
    for start in range(0, PROMPT, 256):
        backend.decoder.decode([Segment(slot, start, tokens[start : start + 256], num_outputs=1)])


def spread(backend: LlamaBackend, slots: range, *, shared: bool) -> None:
    """Copy the content of slot 0 to these slots."""
    state = backend.cells.save(0)
    for slot in slots:
        if shared:
            backend.cells.copy(0, slot, PROMPT)
        else:
            backend.cells.restore(slot, state, PROMPT)


def step_s(backend: LlamaBackend, slots: range) -> float:
    """Median seconds of a step with one token per slot; the slots hold PROMPT tokens before and after."""
    times = []
    for number in range(STEPS):
        started_s = time.perf_counter()
        backend.decoder.decode([Segment(slot, PROMPT + number, [1234 + slot], num_outputs=1) for slot in slots])
        times.append(time.perf_counter() - started_s)
    for slot in slots:
        backend.cells.truncate(slot, PROMPT)
    return statistics.median(times)


def layouts(loaded: library.Library, model: LlamaModel, rounds: int) -> dict[str, float]:
    backends = {
        name: open_backend(loaded, model, KvMemory(CTX, SLOTS, **settings), Batching(512), threads=THREADS)
        for name, settings in CONFIGURATIONS.items()
    }
    everybody = range(SLOTS)
    for backend in backends.values():
        prefill(backend, 0)
    times: dict[str, list[float]] = {}
    for prompts, shared in (("different", False), ("shared", True)):
        for backend in backends.values():
            spread(backend, range(1, SLOTS), shared=shared)
            step_s(backend, everybody)  # copies are moved with the first step
        for _ in range(rounds):
            for name, backend in backends.items():
                times.setdefault(f"{name}, {prompts}", []).append(step_s(backend, everybody))
    for backend in backends.values():
        backend.free()
    return {name: round(SLOTS / statistics.median(each), 1) for name, each in times.items()}


def compaction(loaded: library.Library, model: LlamaModel, rounds: int) -> dict[str, float]:
    slots = GONE + 1
    backend = open_backend(loaded, model, KvMemory(CTX, slots, num_cells=slots * CTX), Batching(512), threads=THREADS)
    prefill(backend, 0)
    alone = range(GONE, slots)
    spread(backend, range(1, slots), shared=False)
    times: dict[str, list[float]] = {}
    for _ in range(rounds):
        times.setdefault("others there", []).append(step_s(backend, alone))
    for slot in range(GONE):
        backend.cells.truncate(slot, 0)
    for _ in range(rounds):
        times.setdefault("others gone", []).append(step_s(backend, alone))
    started_s = time.perf_counter()
    backend.cells.restore(GONE, backend.cells.save(GONE), PROMPT)
    compacting_s = time.perf_counter() - started_s
    for _ in range(rounds):
        times.setdefault("compacted", []).append(step_s(backend, alone))
    backend.free()
    rates = {name: round(1 / statistics.median(each), 1) for name, each in times.items()}
    return {**rates, "compacting_ms": round(1000 * compacting_s, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("model", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        loaded = library.load(selftest.choose(Path(folder)).choice)
    model = LlamaModel(loaded, arguments.model, gpu_layers=0, devices=(), must_offload=False)
    figures = {
        "tokens_per_s": layouts(loaded, model, arguments.rounds),
        "compaction_tokens_per_s": compaction(loaded, model, arguments.rounds),
    }
    save(f"kv_layouts-{arguments.model.stem}", figures)


if __name__ == "__main__":
    main()
