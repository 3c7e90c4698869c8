"""Gains and costs of guesses on memories that can roll back only a few rows: sliding windows, recurrent states.

    python -m benchmarks.rollback [--streams 1 4] [--rounds N] [--only KIND]

With random weights, in this process, in turns: each answer is computed without guesses, and with a prediction whose
tokens are each right with a given probability. Prints ratios of milliseconds per token (above 1: faster with guesses).
For recurrent memories, also prints the cost of snapshots for steps and prompts without guesses (below 1: slower).
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gguf import GGMLQuantizationType

from benchmarks.results import save
from localllm.engine.backend import Segment
from localllm.engine.building import build_engine
from localllm.engine.engine import Engine
from localllm.engine.requests.sequence import Sequence
from localllm.engine.requests.terms import Ending, Request
from localllm.engine.scheduling.pace import StepLimits
from localllm.engine.speculation.guesser import Experience, Guesser, Speculator
from localllm.engine.speculation.proposers import Proposers
from localllm.llama import library
from localllm.llama.backend import LlamaBackend, open_backend
from localllm.llama.context import Batching, KvMemory
from localllm.llama.model import LlamaModel
from localllm.llama.probes import selftest
from localllm.types import ResolvedSampling, Speculative
from tests.models import families

CTX, THREADS, SLOTS, OUT, SNAPSHOTS = 2048, 2, 4, 96, 7
PROMPT = 700
"""Prompt length in tokens: longer than the window."""
CHANCES = (0.0, 0.6, 0.8, 0.95)
WIDE = {"N_EMBD": 1024, "N_FF": 4096, "N_HEAD": 16, "N_KV": 4, "N_CTX": CTX, "SLIDING_WINDOW": 512}
GATED = families.GatedShape(
    n_layer=8, n_embd=1024, n_ff=3072, n_head=8, n_kv=2, head_size=128, state_size=128, n_state_heads=16,
    dtype=GGMLQuantizationType.Q8_0,
)  # fmt: skip
WRITERS: dict[str, Callable[[Path], Path]] = {
    "sliding window": families.write_sliding_window,
    "gated delta": lambda path: families.write_gated_delta(path, shape=GATED),
    "short convolution": families.write_short_conv,
}


def prompts(count: int) -> list[list[int]]:
    chooser = random.Random(1)
    return [[chooser.randrange(5, 90) for _ in range(PROMPT)] for _ in range(count)]


def answers(engine: Engine, asked: list[list[int]], guessers: list[Guesser | None]) -> Any:
    """The tokens of each answer, and the milliseconds per token after all prompts are computed."""
    for slot in range(SLOTS):
        engine.kv.cut(slot, 0)
    made = []
    for id, (prompt, guesser) in enumerate(zip(asked, guessers, strict=True)):
        one = Sequence(
            Request(
                id, prompt, sampling=ResolvedSampling(temperature=0), max_tokens=OUT, ending=Ending(ignore_eos=True)
            )
        )
        one.drawing.guesser = guesser
        engine.submit(one)
        made.append(one)
    engine.step()
    while any(one.progress.num_generated == 0 for one in made):
        engine.step()
    before, started = sum(one.progress.num_generated for one in made), time.perf_counter()
    while engine.scheduler.has_work:
        engine.step()
    computed = sum(one.progress.num_generated for one in made) - before
    return [one.progress.tokens[PROMPT:] for one in made], 1000 * (time.perf_counter() - started) / computed


def predicted(tokens: list[int], chance: float, seed: int) -> list[int]:
    chooser = random.Random(seed)
    return [token if chooser.random() < chance else chooser.randrange(5, 90) for token in tokens]


def gains(backend: LlamaBackend, streams: int, rounds: int) -> dict[str, float]:
    """Speedups from guesses, by their probability of being right."""
    engine, experience = (
        build_engine(backend, lambda _: None, proposers=Proposers(Speculator()), limits=StepLimits(60)),
        Experience(),
    )
    asked = prompts(streams)
    plain, _ = answers(engine, asked, [None] * streams)
    ratios: dict[str, list[float]] = {str(chance): [] for chance in CHANCES}
    for turn in range(rounds):
        for chance in CHANCES:
            guessers: list[Guesser | None] = [
                Guesser(Speculative(sources=("prediction",)), experience, prediction=predicted(each, chance, turn))
                for each in plain
            ]
            _, without_ms = answers(engine, asked, [None] * streams)
            _, with_ms = answers(engine, asked, guessers)
            if turn:  # in the first round, the cost of rows is learned
                ratios[str(chance)].append(without_ms / with_ms)
    return {chance: round(statistics.median(each), 2) for chance, each in ratios.items()}


def snapshot_costs(with_them: LlamaBackend, without: LlamaBackend, rounds: int) -> dict[str, float]:
    """Ratios of times without and with snapshots, for a prompt of 512 tokens and single steps."""
    prompt, times = prompts(1)[0][:512], dict[str, list[float]]()
    for _ in range(rounds):
        for name, backend in (("without", without), ("with", with_them)):
            backend.cells.truncate(0, 0)
            started = time.perf_counter()
            backend.decoder.decode([Segment(0, 0, prompt, 1)])
            backend.decoder.synchronize()
            times.setdefault(f"prompt {name}", []).append(time.perf_counter() - started)
            for place in range(12):
                started = time.perf_counter()
                backend.decoder.decode([Segment(0, len(prompt) + place, [7], 1)])
                backend.decoder.synchronize()
                times.setdefault(f"step {name}", []).append(time.perf_counter() - started)
    middle = {name: statistics.median(each) for name, each in times.items()}
    return {name: round(middle[f"{name} without"] / middle[f"{name} with"], 3) for name in ("prompt", "step")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--streams", type=int, nargs="+", default=[1, SLOTS])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="memories with this in their name")
    given = parser.parse_args()
    for name, value in WIDE.items():
        setattr(families, name, value)
    figures: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        loaded = library.load(selftest.choose(Path(folder)).choice)
        for kind, write in WRITERS.items():
            if given.only not in kind:
                continue
            path = write(Path(folder) / f"{kind}.gguf")
            model = LlamaModel(loaded, path, gpu_layers=0, devices=(), must_offload=False)
            backend, without = [
                open_backend(loaded, model, KvMemory(CTX, SLOTS, snapshots=snapshots), Batching(512), threads=THREADS)
                for snapshots in (SNAPSHOTS, 0)
            ]
            figures[kind] = {"model_mb": round(path.stat().st_size / 1e6), "max_rollback": backend.cells.max_rollback}
            if backend.cells.rolls_back_equals:
                figures[kind]["snapshots"] = snapshot_costs(backend, without, 2 * given.rounds)
            for streams in given.streams:
                figures[kind][f"{streams} streams"] = gains(backend, streams, given.rounds)
            print(kind, figures[kind], flush=True)
            backend.free()
            without.free()
            model.close()
    save("rollback", figures)


if __name__ == "__main__":
    main()
