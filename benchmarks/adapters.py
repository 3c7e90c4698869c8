"""Streams under several sets of adapters at once, against the same streams without any.

    python -m benchmarks.adapters model.gguf --streams 8 --tokens 64 --rounds 3

Writes random adapters of the model's shapes, then answers by turns under 0, 1, 2, 4 and 8 of them. Prints tokens for
each second of CPU time as a share of those without adapters, changes of the set, and the longest wait of a stream, in
seconds. One thread.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import numpy as np
from gguf import GGUFWriter

from localllm.engine.building import build_engine
from localllm.engine.cache.domain import Domain
from localllm.engine.engine import StepOutput
from localllm.engine.requests.adapters import NO_ADAPTERS, AdapterSet, ScaledAdapter
from localllm.engine.requests.sequence import Sequence
from localllm.engine.requests.terms import Ending, Request, Reuse
from localllm.gguf.header import Header, read_header
from localllm.gguf.kinds import text_of
from localllm.llama import library
from localllm.llama.backend import LlamaBackend, open_backend
from localllm.llama.context import Batching, KvMemory
from localllm.llama.model import LlamaModel
from localllm.llama.probes import selftest
from localllm.settings.config import Settings
from localllm.types import ResolvedSampling

GREEDY = ResolvedSampling(temperature=0)
MATRICES = ("attn_q", "attn_k", "attn_v", "attn_output")
PROMPT_TOKENS = 16


class Measured(NamedTuple):
    """One round."""

    tokens_per_cpu_s: float
    num_switches: int
    longest_wait_s: float


def write_adapter(path: Path, base: Header, *, rank: int, seed: int) -> Path:
    """Small random changes of the attention of every layer."""
    random = np.random.default_rng(seed)
    writer = GGUFWriter(path, text_of(base, "general.architecture") or "")
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", float(rank))
    for tensor in base.tensors:
        if len(tensor.dims) == 2 and any(f".{name}.weight" in tensor.name for name in MATRICES):
            rows, columns = tensor.dims
            a = random.normal(0, rows**-0.5, (rank, rows)).astype(np.float32)
            b = random.normal(0, 0.02 * rank**-0.5, (columns, rank)).astype(np.float32)
            writer.add_tensor(f"{tensor.name}.lora_a", a)
            writer.add_tensor(f"{tensor.name}.lora_b", b)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


class Streams:
    """Answers on one engine."""

    def __init__(self, backend: LlamaBackend) -> None:
        self.engine = build_engine(backend, self)
        self._backend = backend
        self._last_s: dict[int, float] = {}
        self._longest_s: dict[int, float] = defaultdict(float)
        self._num = 0

    def __call__(self, output: StepOutput) -> None:
        now_s = time.perf_counter()
        for id, delta in output.deltas:
            if id in self._last_s and delta.num_tokens:
                self._longest_s[id] = max(self._longest_s[id], now_s - self._last_s[id])
            self._last_s[id] = now_s

    @property
    def _num_switches(self) -> int:
        status = self._backend.adapters.status
        return 0 if status is None else status.switches

    def measure(self, sets: list[AdapterSet], tokens: int) -> Measured:
        """One answer under each of these sets, at once."""
        self._longest_s.clear()
        before = self._num_switches
        for adapters in sets:
            self._num += 1
            prompt = [3 + (self._num * 7 + at) % 500 for at in range(PROMPT_TOKENS)]
            reuse = Reuse(cache_prompt=False, domain=Domain.of(cache_salt="", adapters=adapters))
            request = Request(
                self._num,
                prompt,
                sampling=GREEDY,
                max_tokens=tokens,
                adapters=adapters,
                reuse=reuse,
                ending=Ending(ignore_eos=True),
            )
            self.engine.submit(Sequence(request))
        began_s = time.process_time()
        self.engine.step()
        while self.engine.scheduler.has_work:
            self.engine.step()
        seconds = time.process_time() - began_s
        switches = self._num_switches - before
        return Measured(len(sets) * tokens / seconds, switches, max(self._longest_s.values()))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("model", type=Path)
    arguments.add_argument("--streams", type=int, default=8)
    arguments.add_argument("--tokens", type=int, default=64)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--rank", type=int, default=16)
    given = arguments.parse_args()
    choice = selftest.choose(Settings().data_dir).choice
    loaded = library.load(choice, plugin_dir=None, verbose=False)
    model = LlamaModel(loaded, given.model, gpu_layers=0, devices=(), must_offload=False)
    backend = open_backend(loaded, model, KvMemory(512, given.streams), Batching(512), threads=1)
    with tempfile.TemporaryDirectory() as folder:
        header = read_header(given.model)
        for number in range(given.streams):
            path = write_adapter(Path(folder) / f"{number}.gguf", header, rank=given.rank, seed=number)
            backend.adapters.know(str(number), path, path.stat().st_size)
        streams, found = Streams(backend), defaultdict[int, list[Measured]](list)
        for _ in range(given.rounds):
            for count in (0, 1, 2, 4, 8):
                if count <= given.streams:
                    names = [str(each % count) for each in range(given.streams)] if count else []
                    sets: list[AdapterSet] = [(ScaledAdapter(name, 1.0),) for name in names]
                    found[count].append(streams.measure(sets or [NO_ADAPTERS] * given.streams, given.tokens))
    print("adapters   tokens/CPU s   share   changes   longest wait")
    plain = statistics.median(each.tokens_per_cpu_s for each in found[0])
    for count, rounds in found.items():
        speed = statistics.median(each.tokens_per_cpu_s for each in rounds)
        changes = statistics.median(each.num_switches for each in rounds)
        wait_s = max(each.longest_wait_s for each in rounds)
        print(f"{count:8} {speed:14.1f} {speed / plain:7.2f} {changes:9.0f} {wait_s:14.3f}")
    backend.free()
    model.close()


if __name__ == "__main__":
    main()
