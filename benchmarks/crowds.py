"""What the library alone takes for crowds of requests: every step planned in advance, no sampling, no server.

    python -m benchmarks.crowds MODEL.gguf shared --requests 16 --prefix 700 --message 17 --out 16
    python -m benchmarks.crowds MODEL.gguf turns --requests 12 --prefix 205 --message 27 --out 24

shared: the prefix is computed once and copied; then in each wave all slots compute their messages in one batch, and
their answers together. turns: all slots go through the turns of a chat together, and the time is scaled to `requests`
chats, as if no slot ever waited. Both are better than what a scheduler can do that does not know what comes. Prints one
line of JSON.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.load import NUM_TURNS
from localllm.engine.backend import Segment
from localllm.llama import library
from localllm.llama.backend import LlamaBackend, open_backend
from localllm.llama.context import Batching, KvMemory
from localllm.llama.model import LlamaModel
from localllm.llama.probes import selftest

SLOTS, BATCH = 8, 2048


class Crowd:
    """Steps of all slots, of random tokens."""

    def __init__(self, backend: LlamaBackend) -> None:
        self._backend = backend
        self._random = np.random.default_rng(0)
        self.depth = 0
        """Tokens that every slot holds; the slots are always equally long."""

    def compute(self, num_tokens: int, slots: int = SLOTS) -> None:
        """The next tokens of the first `slots` slots, in whole batches, with logits of the last of each."""
        while num_tokens:
            count = min(num_tokens, BATCH // slots)
            tokens = self._random.integers(1000, 5000, (slots, count)).tolist()
            self._backend.decoder.decode([Segment(slot, self.depth, tokens[slot], 1) for slot in range(slots)])
            self._backend.decoder.synchronize()
            self.depth += count
            num_tokens -= count

    def answer(self, num_tokens: int) -> None:
        """The first token of an answer comes with its prompt."""
        for _ in range(num_tokens - 1):
            self.compute(1)

    def back_to(self, depth: int) -> None:
        for slot in range(SLOTS):
            self._backend.cells.truncate(slot, depth)
        self.depth = depth


def shared(backend: LlamaBackend, *, requests: int, prefix: int, message: int, out: int) -> dict[str, float]:
    crowd = Crowd(backend)
    started = time.perf_counter()
    crowd.compute(prefix, slots=1)
    for slot in range(1, SLOTS):
        backend.cells.copy(0, slot, prefix)
    last_first = 0.0
    for _ in range(requests // SLOTS):
        crowd.back_to(prefix)
        crowd.compute(message)
        last_first = time.perf_counter()
        crowd.answer(out)
    seconds = time.perf_counter() - started
    return {"tokens_per_s": requests * out / seconds, "ttft_max_ms": 1e3 * (last_first - started)}


def turns(backend: LlamaBackend, *, requests: int, prefix: int, message: int, out: int) -> dict[str, float]:
    crowd = Crowd(backend)
    started = time.perf_counter()
    for turn in range(NUM_TURNS):
        crowd.compute(message if turn else prefix)
        crowd.answer(out)  # its last token is computed with the next message, which counts it
    seconds = (time.perf_counter() - started) * requests / SLOTS
    return {"tokens_per_s": requests * NUM_TURNS * out / seconds}


KINDS = {"shared": shared, "turns": turns}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("model", type=Path)
    parser.add_argument("kind", choices=KINDS)
    for name in ("requests", "prefix", "message", "out"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--threads", type=int, default=2)
    arguments = vars(parser.parse_args())
    path, kind, threads = arguments.pop("model"), arguments.pop("kind"), arguments.pop("threads")
    with tempfile.TemporaryDirectory() as folder:
        loaded = library.load(selftest.choose(Path(folder)).choice)
    model = LlamaModel(loaded, path, gpu_layers=0, devices=(), must_offload=False)
    longest = arguments["prefix"] + NUM_TURNS * (arguments["message"] + arguments["out"])
    backend = open_backend(loaded, model, KvMemory(longest, SLOTS), Batching(BATCH, ubatch_tokens=512), threads=threads)
    print(json.dumps({name: round(figure, 1) for name, figure in KINDS[kind](backend, **arguments).items()}))


if __name__ == "__main__":
    main()
