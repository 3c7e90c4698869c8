"""The engine's decode steps against the raw library's, on the same file, slots and threads; in turns.

    python -m benchmarks.decode PEERS

The engine decodes 1 and 8 sequences of 72-token prompts, greedy and with top_p, and 4 of 8 slots with gaps between
them; llama-batched-bench does the same without sampling or text. Prints tokens/s, the medians of the ratios, and the
time of a step outside of `llama_decode`, which unlike in `step_overhead` is measured with a real model.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
import time
from collections import abc
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import numpy as np

from benchmarks.peers import MODEL
from benchmarks.results import save
from localllm.engine.backend import Segment
from localllm.engine.building import build_engine
from localllm.engine.requests.sequence import Sequence
from localllm.engine.requests.terms import Ending, Request
from localllm.engine.sampling import native
from localllm.engine.sampling.sampler import Sampler
from localllm.llama import backend as backends
from localllm.llama import library
from localllm.llama.backend import LlamaBackend, open_backend
from localllm.llama.context import Batching, KvMemory
from localllm.llama.decoder import LlamaDecoder
from localllm.llama.model import LlamaModel
from localllm.llama.probes import selftest
from localllm.types import ResolvedSampling

CTX, THREADS, PROMPT, OUT = 512, 2, 72, 96
GREEDY = ResolvedSampling(temperature=0)
TOP_P = ResolvedSampling(temperature=0.8, top_p=0.95, top_k=0, min_p=0)


class TimedDecoder(LlamaDecoder):
    """A decoder that adds up the seconds of `decode`."""

    decoding_s = 0.0

    def decode(self, segments: abc.Sequence[Segment], *, within_s: float | None = None) -> bool:
        started = time.perf_counter()
        is_whole = super().decode(segments, within_s=within_s)
        self.decoding_s += time.perf_counter() - started
        return is_whole


class Rate(NamedTuple):
    """Figures of a run of decode steps."""

    tokens_per_s: float
    outside_ms: float
    """Milliseconds per step outside of `decode`."""


def engine_rate(
    backend: LlamaBackend, sampler: Sampler, num: int, sampling: ResolvedSampling, *, gaps: bool = False
) -> Rate:
    """Measure steps in which every sequence gets one token; with `gaps`, only every other slot is used."""
    engine, decoder = build_engine(backend, lambda _: None, sampler=sampler), backend.decoder
    assert isinstance(decoder, TimedDecoder)
    rng = np.random.default_rng(num)
    for id in range(2 * num if gaps else num):
        prompt = rng.integers(1000, 5000, PROMPT).tolist()
        engine.submit(
            Sequence(Request(id, prompt, sampling=sampling, max_tokens=OUT + 64, ending=Ending(ignore_eos=True)))
        )
    while not engine.scheduler.running or any(each.progress.num_pending > 1 for each in engine.scheduler.running):
        engine.step()
    for id in range(1, 2 * num, 2) if gaps else ():
        engine.cancel(id)
    for _ in range(8):
        engine.step()
    started, before_s = time.perf_counter(), decoder.decoding_s
    for _ in range(OUT):
        engine.step()
    seconds = time.perf_counter() - started
    outside_s = seconds - (decoder.decoding_s - before_s)
    assert len(engine.scheduler.running) == num
    for each in list(engine.scheduler.running):
        engine.cancel(each.id)
    engine.step()
    return Rate(num * OUT / seconds, outside_s / OUT * 1e3)


def raw(peers: Path, model: Path, num: int, prompt: int, out: int, threads: int = THREADS) -> dict[str, float]:
    """llama-batched-bench's figures for `num` sequences: seconds and rates of prompts, answers and both."""
    command = [
        peers / "bin/llama-batched-bench", "-m", model, "-c", str((prompt + out) * num), "-npp", str(prompt),
        "-ntg", str(out), "-npl", str(num), "-t", str(threads), "-tb", str(threads), "--output-format", "jsonl",
    ]  # fmt: skip
    done = subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True)
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("{")]
    figures: dict[str, float] = json.loads(line)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("peers", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    model_path: Path = arguments.peers / MODEL
    with tempfile.TemporaryDirectory() as folder:
        loaded = library.load(selftest.choose(Path(folder)).choice)
    model = LlamaModel(loaded, model_path, gpu_layers=0, devices=(), must_offload=False)
    with mock.patch.object(backends, "LlamaDecoder", TimedDecoder):
        backend = open_backend(loaded, model, KvMemory(CTX, 8), Batching(512), threads=THREADS)
    sampler = native.load(threads=THREADS, team=loaded.team)
    figures: dict[str, list[float]] = {}
    outside: dict[str, list[float]] = {}
    for _ in range(arguments.rounds):
        for num, name, sampling, gaps in (
            (1, "1 greedy", GREEDY, False),
            (8, "8 greedy", GREEDY, False),
            (8, "8 top_p", TOP_P, False),
            (4, "4 in a row", GREEDY, False),
            (4, "4 with gaps", GREEDY, True),
        ):
            if num in (1, 8):  # before each, since the machine's speed changes within a minute
                figures.setdefault(f"raw, {name}", []).append(
                    raw(arguments.peers, model_path, num, PROMPT, OUT)["speed_tg"]
                )
            rate = engine_rate(backend, sampler, num, sampling, gaps=gaps)
            figures.setdefault(name, []).append(rate.tokens_per_s)
            outside.setdefault(name, []).append(rate.outside_ms)

    def ratio(mine: str, theirs: str) -> float:
        return round(statistics.median(a / b for a, b in zip(figures[mine], figures[theirs], strict=True)), 3)

    save(
        f"decode-{model_path.stem}",
        {
            "tokens_per_s": {name: round(statistics.median(rates), 1) for name, rates in figures.items()},
            "ratios": {
                **{name: ratio(name, f"raw, {name}") for name in ("1 greedy", "8 greedy", "8 top_p")},
                "gaps": ratio("4 with gaps", "4 in a row"),
            },
            "outside_llama_decode_ms": {name: round(statistics.median(each), 3) for name, each in outside.items()},
        },
    )


if __name__ == "__main__":
    main()
