"""The savings of KV reuse: the engine with and without it, on the same requests, in turns.

    python -m benchmarks.kv_reuse MODEL.gguf

Burst: 16 concurrent requests on 8 slots, which share 700 tokens and generate 16. Chats: 12 chats of four turns on 8
slots; each turn has 60 tokens and generates 24, and follows the last answer immediately. Prints tokens/s, the time
until all requests of the burst have their first token, and the share of repeated prompt tokens that was computed again.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.results import save
from localllm.engine.building import build_engine
from localllm.engine.cache.kvcache import Tiers
from localllm.engine.engine import StepOutput
from localllm.engine.requests.sequence import Sequence
from localllm.engine.requests.terms import Ending, Request
from localllm.engine.sampling import native
from localllm.llama import library
from localllm.llama.backend import LlamaBackend, open_backend
from localllm.llama.context import Batching, KvMemory
from localllm.llama.model import LlamaModel
from localllm.llama.probes import selftest
from localllm.types import ResolvedSampling

SLOTS, CTX, THREADS, ROUNDS = 8, 2048, 2, 3
GREEDY = ResolvedSampling(temperature=0)


class Forgetful:
    """A wrapper of the backend that takes no prefix from a running slot."""

    def __init__(self, backend: LlamaBackend) -> None:
        self._backend = backend
        self.can_rewind = False

    def __getattr__(self, name: str) -> object:
        return getattr(self._backend, name)


class Run:
    """One engine, and the times of its requests' first tokens."""

    def __init__(self, backend: LlamaBackend, *, reuses: bool) -> None:
        self.engine = build_engine(
            backend if reuses else Forgetful(backend),  # type: ignore[arg-type]
            self._take,
            sampler=native.load(threads=THREADS),
            tiers=Tiers(2**31 if reuses else 0),
        )
        self.first_s: dict[int, float] = {}
        self.ended: list[int] = []
        self.requests: dict[int, Sequence] = {}
        self._reuses = reuses
        self.started_s = time.perf_counter()

    def _take(self, output: StepOutput) -> None:
        assert not output.failures, output.failures
        for id, delta in output.deltas:
            self.first_s.setdefault(id, time.perf_counter() - self.started_s)
            if delta.finish is not None:
                self.ended.append(id)

    def ask(self, prompt: list[int], max_tokens: int) -> int:
        id = len(self.requests)
        self.requests[id] = Sequence(
            Request(id, prompt, sampling=GREEDY, max_tokens=max_tokens, ending=Ending(ignore_eos=True))
        )
        self.engine.submit(self.requests[id])
        return id

    def step(self) -> None:
        """Run one step; without reuse, then clear slots without a running request."""
        self.engine.step()
        busy = {request.slot for request in self.engine.scheduler.running}
        for slot in set() if self._reuses else set(range(SLOTS)) - busy:
            self.engine.kv.cut(slot, 0)

    @property
    def num_generated(self) -> int:
        return sum(request.progress.num_generated for request in self.requests.values())

    def tokens_per_s(self) -> float:
        return round(self.num_generated / (time.perf_counter() - self.started_s), 1)


def burst(backend: LlamaBackend, *, reuses: bool) -> dict[str, float]:
    rng, run = np.random.default_rng(0), Run(backend, reuses=reuses)
    prefix = rng.integers(1000, 5000, 700).tolist()
    for _ in range(16):
        run.ask([*prefix, *rng.integers(1000, 5000, 20).tolist()], 16)
    run.step()
    while run.engine.scheduler.has_work:
        run.step()
    return {"tokens_per_s": run.tokens_per_s(), "all_first_tokens_s": round(max(run.first_s.values()), 2)}


def chats(backend: LlamaBackend, *, reuses: bool) -> dict[str, float]:
    rng, run = np.random.default_rng(1), Run(backend, reuses=reuses)
    chat_of = {run.ask(rng.integers(1000, 5000, 60).tolist(), 24): number for number in range(12)}
    turns = dict.fromkeys(range(12), 1)
    repeated = computed_again = 0
    while len(run.ended) < 48:
        run.step()
        for id in [id for id in run.ended if id in chat_of]:
            number, request = chat_of.pop(id), run.requests[id]
            if turns[number] < 4:
                turns[number] += 1
                chat_of[run.ask([*request.progress.tokens, *rng.integers(1000, 5000, 60).tolist()], 24)] = number
    for request in run.requests.values():
        known = request.progress.num_prompt - 60
        repeated += known
        computed_again += max(0, known - request.progress.num_cached)
    return {"tokens_per_s": run.tokens_per_s(), "computed_again": round(computed_again / repeated, 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("model", type=Path)
    path = parser.parse_args().model
    with tempfile.TemporaryDirectory() as folder:
        loaded = library.load(selftest.choose(Path(folder)).choice)
    model = LlamaModel(loaded, path, gpu_layers=0, devices=(), must_offload=False)
    backend = open_backend(loaded, model, KvMemory(CTX, SLOTS), Batching(512), threads=THREADS)
    figures: dict[str, dict[str, list[dict[str, float]]]] = {}
    for _ in range(ROUNDS):
        for scenario in (burst, chats):
            for reuses in (True, False):
                way = figures.setdefault(scenario.__name__, {}).setdefault("reused" if reuses else "fresh", [])
                way.append(scenario(backend, reuses=reuses))
    save(f"kv_reuse-{path.stem}", {"rounds": figures})


if __name__ == "__main__":
    main()
