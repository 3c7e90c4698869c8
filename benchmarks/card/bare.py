"""The library without a server or sampling: the ceiling that serving is compared with. Knows no requests."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from localllm.engine.backend import Segment
from localllm.gguf import read_model_info
from localllm.llama import library
from localllm.llama.backend import LlamaBackend, open_backend
from localllm.llama.context import Attention, Batching, KvMemory
from localllm.llama.library import Library
from localllm.llama.model import LlamaModel
from localllm.llama.probes import selftest
from localllm.llama.spread import Spread
from localllm.planning.plan import plan
from localllm.types.load_options import LoadOptions

REPEATS = 24
BATCH = 2048


def loaded(data_dir: Path) -> Library:
    """The llama.cpp in use, in this process."""
    return library.load(selftest.choose(data_dir).choice)


@contextlib.contextmanager
def opened(lib: Library, path: Path, options: LoadOptions) -> Iterator[LlamaBackend]:
    """A context with the placement that a worker would be given."""
    placement = plan(read_model_info(path), options, lib.devices())
    model = LlamaModel(
        lib,
        path,
        gpu_layers=placement.gpu_layers,
        devices=placement.devices,
        must_offload=placement.must_offload,
        spread=Spread(tensor_split=placement.tensor_split, overrides=placement.overrides, mmap=options.mmap),
    )
    backend = open_backend(
        lib,
        model,
        KvMemory(placement.ctx, placement.slots, kv_type=options.kv_type),
        Batching(BATCH, ubatch_tokens=placement.ubatch_tokens, max_outputs=max(placement.max_outputs, 64)),
        threads=options.threads or 2,
        attention=Attention("on" if placement.flash_attn == "auto" else placement.flash_attn),
    )
    try:
        yield backend
    finally:
        backend.free()
        model.close()


def step_ms(backend: LlamaBackend, slots: int, depth: int, rows: int = 1) -> float:
    """Median time of a step that adds `rows` tokens to each slot, behind `depth` tokens of context."""
    _fill(backend, slots, depth)
    times = []
    for repeat in range(REPEATS + 2):
        start = depth + repeat * rows
        tokens = _tokens(slots, rows, repeat)
        began = time.perf_counter()
        backend.decoder.decode([Segment(slot, start, tokens[slot], rows) for slot in range(slots)])
        backend.decoder.synchronize()
        times.append(1e3 * (time.perf_counter() - began))
    _drop(backend, slots)
    return statistics.median(times[2:])


def prefill_ms(backend: LlamaBackend, num_tokens: int) -> float:
    """Fastest of three times for a prompt of this length, alone."""
    times = []
    for _ in range(3):
        began = time.perf_counter()
        _fill(backend, 1, num_tokens)
        times.append(1e3 * (time.perf_counter() - began))
        _drop(backend, 1)
    return min(times)


def _fill(backend: LlamaBackend, slots: int, depth: int) -> None:
    for slot in range(slots):
        for start in range(0, depth, BATCH):
            count = min(BATCH, depth - start)
            backend.decoder.decode([Segment(slot, start, _tokens(1, count, start)[0], 1)])
    backend.decoder.synchronize()


def _drop(backend: LlamaBackend, slots: int) -> None:
    for slot in range(slots):
        backend.cells.truncate(slot, 0)


def _tokens(slots: int, count: int, seed: int) -> list[list[int]]:
    drawn: list[list[int]] = np.random.default_rng(seed).integers(300, 1900, (slots, count)).tolist()
    return drawn
