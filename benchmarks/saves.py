"""The cost of saving a KV state, and its effect on streams and copies.

    python -m benchmarks.saves save              a state of 2,048 tokens of an 8B-like cache (128 KiB a token)
    python -m benchmarks.saves gaps              the longest gap of four streams while four other slots are saved,
                                                 without and after a pause in which nothing is computed
    python -m benchmarks.saves moves MODEL.gguf   a save, a restore, a copy with the next decode and through a state
    python -m benchmarks.saves outputs MODEL.gguf   buffers and resident memory by rows of logits

Each runs with buffers from the pool and with fresh memory, in turns. Weights are random and small; only the cache is
realistic.
"""

from __future__ import annotations

import argparse
import gc
import re
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from gguf.constants import GGMLQuantizationType

from localllm.engine.backend import Segment, State
from localllm.engine.building import build_engine
from localllm.engine.cache.kvcache import Tiers
from localllm.engine.engine import Engine, StepOutput
from localllm.engine.requests.sequence import Sequence
from localllm.engine.requests.terms import Ending, Request
from localllm.engine.sampling.native import load
from localllm.llama import library
from localllm.llama.backend import LlamaBackend, open_backend
from localllm.llama.context import Attention, Batching, KvMemory
from localllm.llama.model import LlamaModel
from localllm.llama.probes import selftest
from localllm.types import ResolvedSampling
from tests.models.maker import write_llama

TOKENS, STREAMED, THREADS, RAM_BYTES = 2048, 200, 2, 2 * 2**30
LENGTHS = 256, 2048, 8000
WAYS = {"pool": RAM_BYTES, "fresh": 0}


def eight_b_like(folder: Path) -> Path:
    """A model with 32 layers of 8 heads of 128 numbers: 128 KiB of F16 keys and values per token."""
    return write_llama(
        folder / "wide.gguf", n_layer=32, n_embd=1024, n_ff=64, n_head=8, n_kv=8, ctx=8192,
        dtype=GGMLQuantizationType.Q4_0,
    )  # fmt: skip


def fill(backend: LlamaBackend, slot: int, num_tokens: int) -> None:
    size = backend.decoder.batch_capacity
    for start in range(0, num_tokens, size):
        tokens = [300 + place % 17 for place in range(start, min(start + size, num_tokens))]
        backend.decoder.decode([Segment(slot, start, tokens, num_outputs=int(start + size >= num_tokens))])


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    started_s = time.perf_counter()
    result = work()
    return 1000 * (time.perf_counter() - started_s), result


def faults() -> int:
    return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt


def wait_until_ready(backend: LlamaBackend) -> float:
    return timed(lambda: [None for _ in iter(backend.cells._states.pool.prepare, 0)])[0]


def measure_save(lib: library.Library, path: Path) -> None:
    model = LlamaModel(lib, path, gpu_layers=0, devices=(), must_offload=False)
    for _ in range(2):
        for way, states_bytes in WAYS.items():
            backend = open_backend(
                lib,
                model,
                KvMemory(TOKENS + 256, 2, states_bytes=states_bytes),
                Batching(512),
                threads=THREADS,
                attention=Attention("on"),
            )
            fill(backend, 0, TOKENS)
            preparing_ms = wait_until_ready(backend)
            line = []
            for _ in range(4):
                before = faults()
                ms, state = timed(lambda: backend.cells.save(0))  # noqa: B023  called at once
                line.append(f"{ms:.0f} ms ({faults() - before} faults)")
                size = len(state)
                del state
            sizing_ms, _ = timed(lambda: backend.cells.state_bytes(0))  # noqa: B023
            print(f"{way}: {size / 2**20:.0f} MiB, saves {', '.join(line)}; size asked in {sizing_ms:.2f} ms;",
                  f"made ready in {preparing_ms:.0f} ms", flush=True)  # fmt: skip
            backend.free()
    model.close()


def measure_gaps(lib: library.Library, path: Path) -> None:
    model = LlamaModel(lib, path, gpu_layers=0, devices=(), must_offload=False)
    for way, pauses in (("pool", False), ("pool", True), ("fresh", False)):
        backend = open_backend(
            lib,
            model,
            KvMemory(TOKENS + 256, 8, states_bytes=WAYS[way]),
            Batching(512),
            threads=THREADS,
            attention=Attention("on"),
        )
        print(f"{way}{' after a pause' if pauses else ''}: " + gaps(backend, pauses=pauses), flush=True)
        backend.free()
        gc.collect()
    model.close()


def run_out(engine: Engine) -> None:
    while engine.scheduler.has_work:
        engine.step()


def gaps(backend: LlamaBackend, *, pauses: bool) -> str:
    greedy = ResolvedSampling(temperature=0)

    def emit(output: StepOutput) -> None:
        assert not output.failures, output.failures

    engine = build_engine(backend, emit, sampler=load(threads=THREADS), tiers=Tiers(RAM_BYTES))
    for id in range(4):
        prompt = [10 + id + 20 * (place % 7) for place in range(TOKENS)]
        engine.submit(Sequence(Request(id, prompt, sampling=greedy, max_tokens=1)))
    engine.step()
    run_out(engine)
    if pauses:
        backend.decoder.rest()
        wait_until_ready(backend)
    streams = [
        Sequence(Request(id, [id % 50 + 150], sampling=greedy, max_tokens=STREAMED, ending=Ending(ignore_eos=True)))
        for id in range(100, 104)
    ]
    for stream in streams:
        engine.submit(stream)
    token_times(engine, streams, 20)
    stamps, saving_ms = [], []
    save = backend.cells.save

    def timed_save(slot: int) -> State:
        state: State
        ms, state = timed(lambda: save(slot))
        saving_ms.append(ms)
        return state

    backend.cells.save = timed_save  # type: ignore[method-assign]
    for id in range(200, 204):  # each takes, and keeps, a slot that holds 2,048 tokens
        streams.append(
            Sequence(Request(id, [id % 50 + 200], sampling=greedy, max_tokens=STREAMED, ending=Ending(ignore_eos=True)))
        )
        engine.submit(streams[-1])
        stamps += token_times(engine, streams[:4], 20)
    longest = max(after - before for before, after in pairwise(stamps))
    quiet = max(after - before for before, after in pairwise(token_times(engine, streams, 40)))
    run_out(engine)
    saves = ", ".join(f"{ms:.0f}" for ms in saving_ms)
    return f"saves of {saves} ms, longest gap {1000 * longest:.0f} ms, then without saves {1000 * quiet:.0f} ms"


def token_times(engine: Engine, streams: list[Sequence], count: int) -> list[float]:
    """End times of the next `count` steps in which each stream got a token."""
    times: list[float] = []
    while len(times) < count:
        before = [stream.progress.num_generated for stream in streams]
        engine.step()
        assert engine.scheduler.has_work, "the streams ended"
        if all(stream.progress.num_generated > had for stream, had in zip(streams, before, strict=True)):
            times.append(time.perf_counter())
    return times


def measure_moves(lib: library.Library, path: Path) -> None:
    """Time moves of states; a copy is timed with the next decode of its target slot, less such a decode alone."""
    model = LlamaModel(lib, path, gpu_layers=0, devices=(), must_offload=False)
    states: dict[int, bytes] = {}
    for capacity in (8192, 32768):
        backend = open_backend(
            lib,
            model,
            KvMemory(capacity, 2, states_bytes=RAM_BYTES),
            Batching(512),
            threads=THREADS,
            attention=Attention("on"),
        )
        held = 0
        for length in LENGTHS:
            if length in states:
                backend.cells.restore(0, states[length], length)
            else:
                computing_ms, _ = timed(lambda: extend(backend, held, length))  # noqa: B023  called at once
                print(f"computed {held} to {length}: {1000 * computing_ms / (length - held):.0f} us a token")
                states[length] = bytes(backend.cells.save(0))
            held = length
            backend.cells.restore(1, states[length], length)
            backend.cells._states.expect(backend.cells._tails.lengths)
            wait_until_ready(backend)
            times: dict[str, list[float]] = {"save": [], "restore": [], "cells": [], "state": [], "decode": []}
            for _ in range(5):
                for way in times:
                    if way == "decode":
                        backend.cells.truncate(1, length - 1)
                    ms, _ = timed(lambda: moved(backend, way, states[length], length))  # noqa: B023
                    times[way].append(ms)
            one = {way: statistics.median(values) for way, values in times.items()}
            print(
                f"{capacity} cells, {length} tokens, {len(states[length]) / 2**20:.1f} MiB: save {one['save']:.2f} ms, "
                f"restore {one['restore']:.2f} ms; copy: with the next decode {one['cells'] - one['decode']:.1f} ms, "
                f"through a state {one['state'] - one['decode']:.1f} ms; a decode {one['decode']:.1f} ms",
                flush=True,
            )
        backend.free()
    model.close()


def extend(backend: LlamaBackend, start: int, end: int) -> None:
    for first in range(start, end, 512):
        last = min(first + 512, end)
        backend.decoder.decode([Segment(0, first, [300] * (last - first), num_outputs=1)])


def moved(backend: LlamaBackend, way: str, state: State, length: int) -> None:
    memory, api = backend.context.memory, backend.context.api
    if way == "save":
        backend.cells.save(0)
        return
    if way == "restore":
        backend.cells.restore(1, state, length)
        return
    if way == "cells":
        api.llama_memory_seq_rm(memory, 1, -1, -1)
        api.llama_memory_seq_cp(memory, 0, 1, -1, -1)
        backend.cells._tails.lengths[1] = length
    elif way == "state":
        backend.cells.restore(1, backend.cells.save(0), length)
    backend.cells.truncate(1, length - 1)
    backend.decoder.decode([Segment(1, length - 1, [300], num_outputs=1)])


def measure_outputs(lib: library.Library, path: Path, rows: int) -> None:
    """Measure one number of rows per process, because touched memory stays resident."""
    model = LlamaModel(lib, path, gpu_layers=0, devices=(), must_offload=False)
    mark = lib.log.mark()
    backend = open_backend(
        lib,
        model,
        KvMemory(8192, 4),
        Batching(512, max_outputs=rows or None),
        threads=THREADS,
        attention=Attention("on"),
    )
    sizes = [found[0] for line in lib.log.lines_since(mark) if (found := re.search(r"\w+ buffer size.*", line))]
    fill(backend, 0, 1024)
    status = Path("/proc/self/status").read_text("ascii")
    resident = int(re.search(r"VmRSS:\s+(\d+)", status)[1]) // 1024  # type: ignore[index]
    count, started_s = min(rows or 512, 512) - 3, time.perf_counter()
    done = 0
    while done + count <= 660:
        backend.decoder.decode([Segment(1, done, [300] * count, num_outputs=count)])
        done += count
    rate = done / (time.perf_counter() - started_s)
    print(f"{rows or 'all'} rows: {'; '.join(sizes)}; resident {resident} MiB; {rate:.0f} scored tokens/s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("what", choices=["save", "gaps", "moves", "outputs"])
    parser.add_argument("model", nargs="?", type=Path)
    parser.add_argument("--rows", type=int, default=0, help="rows of logits; 0: all")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        lib = library.load(selftest.choose(Path(folder)).choice, plugin_dir=None, verbose=False)
        if arguments.what == "outputs":
            measure_outputs(lib, arguments.model, arguments.rows)
        elif arguments.what == "moves":
            measure_moves(lib, arguments.model)
        else:
            path = eight_b_like(Path(folder))
            (measure_save if arguments.what == "save" else measure_gaps)(lib, path)


if __name__ == "__main__":
    main()
