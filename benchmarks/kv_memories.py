"""A chat of six turns on every kind of memory: the share computed again, and the cost of a checkpoint.

    python -m benchmarks.kv_memories PEERS

Uses the models of `tests.models.families`, widened (14 to 35 M parameters, random weights). Every turn repeats the
whole chat; the benchmark counts the share of repeated tokens that localllm, and llama-server with its defaults, compute
again. A checkpoint is timed after 1,024 tokens.
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

import httpx

from benchmarks.embeddings import llama_server
from benchmarks.results import save
from localllm import LLM
from localllm.engine.backend import Segment
from localllm.llama import library
from localllm.llama.backend import open_backend
from localllm.llama.context import Batching, KvMemory
from localllm.llama.model import LlamaModel
from localllm.llama.probes import selftest
from localllm.types import Message, SamplingParams
from localllm.types.load_options import LoadOptions
from tests.models import families
from tests.models.tokenizers import CHATML

TURNS, ANSWER, THREADS, CTX, FILLED = 6, 24, 2, 4096, 1024
WIDE = {
    "N_EMBD": 1024, "N_FF": 4096, "N_HEAD": 16, "N_KV": 4, "N_CTX": CTX, "SLIDING_WINDOW": 512,
    "STATE_SIZE": 16, "TIME_STEP_RANK": 64,
}  # fmt: skip
WRITERS: dict[str, Callable[..., Path]] = {
    "sliding window": families.write_sliding_window,
    "recurrent": families.write_recurrent,
    "hybrid": families.write_hybrid,
}
Ask = Callable[[list[dict[str, str]]], tuple[str, int, int]]
"""Messages -> the answer, the number of prompt tokens, and how many of them were cached."""


def computed_again(ask: Ask) -> float:
    """The share of repeated tokens that are computed again in a chat."""
    rng = random.Random(0)
    messages: list[dict[str, str]] = [{"role": "system", "content": "You know everything about mills."}]
    before = repeated = again = 0
    for _ in range(TURNS):
        question = " ".join(rng.choices(["wheat", "water", "stone", "miller", "wind", "sack", "flour"], k=25))
        messages.append({"role": "user", "content": question})
        answer, prompt_tokens, known = ask(messages)
        if before:
            repeated += before
            again += max(0, before - known)
        before = prompt_tokens
        messages.append({"role": "assistant", "content": answer})
    return round(again / repeated, 3)


def ours(llm: LLM) -> Ask:
    params = SamplingParams(temperature=0, max_tokens=ANSWER)

    def ask(messages: list[dict[str, str]]) -> tuple[str, int, int]:
        answer = llm.chat([Message(each["role"], each["content"]) for each in messages], params=params)
        usage = answer.finish.usage
        return answer.text, usage.prompt_tokens, usage.cached_tokens

    return ask


def theirs(url: str) -> Ask:
    def ask(messages: list[dict[str, str]]) -> tuple[str, int, int]:
        body = {"messages": messages, "temperature": 0, "max_tokens": ANSWER}
        reply = httpx.post(f"{url}/v1/chat/completions", json=body, timeout=300).json()
        known = reply["usage"]["prompt_tokens_details"]["cached_tokens"]
        return reply["choices"][0]["message"]["content"], reply["usage"]["prompt_tokens"], known

    return ask


def checkpoint_costs(loaded: library.Library, path: Path) -> dict[str, float]:
    """The cost of a checkpoint and of returning to it, compared to computing 64 tokens."""
    model = LlamaModel(loaded, path, gpu_layers=0, devices=(), must_offload=False)
    backend = open_backend(loaded, model, KvMemory(CTX, 1), Batching(512), threads=THREADS)
    for start in range(0, FILLED, 256):
        backend.decoder.decode([Segment(0, start, [40] * 256, num_outputs=1)])
    times: dict[str, list[float]] = {"checkpoint_ms": [], "rewind_ms": [], "64_tokens_ms": []}
    for _ in range(5):
        moments = [time.perf_counter()]
        state = backend.cells.checkpoint(0)
        moments.append(time.perf_counter())
        backend.decoder.decode([Segment(0, FILLED, [41] * 64, num_outputs=1)])
        moments.append(time.perf_counter())
        backend.cells.rewind(0, state, FILLED)
        moments.append(time.perf_counter())
        for name, index in (("checkpoint_ms", 0), ("64_tokens_ms", 1), ("rewind_ms", 2)):
            times[name].append(1000 * (moments[index + 1] - moments[index]))
    costs = {name: round(statistics.median(each), 2) for name, each in times.items()}
    backend.free()
    model.close()
    return {"checkpoint_mb": round(len(state) / 1e6, 2), **costs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("peers", type=Path)
    peers: Path = parser.parse_args().peers.resolve()
    for name, value in WIDE.items():
        setattr(families, name, value)
    figures: dict[str, dict[str, Any]] = {}
    options = LoadOptions(ctx=CTX, slots=1, threads=THREADS)
    with tempfile.TemporaryDirectory() as folder:
        loaded = library.load(selftest.choose(Path(folder)).choice)
        for kind, write in WRITERS.items():
            path = write(Path(folder) / "model.gguf", chat_template=CHATML)
            figures[kind] = {"model_mb": round(path.stat().st_size / 1e6), **checkpoint_costs(loaded, path)}
            with LLM(path, options=options) as llm:
                figures[kind]["computed_again"] = computed_again(ours(llm))
            try:
                with llama_server(peers, path, ["--jinja", "-np", "1"], "none", embeds=False) as url:
                    figures[kind]["computed_again_by_llama_server"] = computed_again(theirs(url))
            except (AssertionError, KeyError, httpx.HTTPError) as error:
                figures[kind]["llama_server"] = repr(error)[:200]
            print(kind, figures[kind], flush=True)
    save("kv_memories", figures)


if __name__ == "__main__":
    main()
