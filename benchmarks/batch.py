"""`LLM.generate` and `localllm batch` against the model's process: what each short prompt costs beside the computing.

    python -m benchmarks.batch [MODEL] [--prompts N]

CPU time of this process, which asks, and of its children: the model's worker, which computes, and its own children.
Both are of the same seconds, so that the load of the machine changes their share little; wall time says nothing on a
busy one. Where all cores compute, the worker's share is the share of the engine's own rate that a batch can have.
Linux only.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import os
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from localllm import AsyncLLM
from localllm.batches.lines import BatchLine, of_batch_class, with_model
from localllm.batches.results import Reply, ResultFile
from localllm.batches.running import Tally, run, taking
from localllm.server.line_server import LineServer
from localllm.settings import config

MAX_TOKENS, SLOTS = 16, 8
WARM_UP = 16
SHARED = "You are a patient teacher. Explain things in short words, with one example, and never guess. " * 40
"""An instruction of about 700 tokens."""


class CpuTimes(NamedTuple):
    """CPU seconds of this process, and of all its descendants."""

    own: float
    others: float


def chats(count: int, *, shared: bool) -> list[list[dict[str, str]]]:
    """Short prompts, with or without a long instruction that all share."""
    system = [{"role": "system", "content": SHARED}] if shared else []
    return [[*system, {"role": "user", "content": f"What is {n} plus {n % 7}?"}] for n in range(count)]


def _tree(pid: int) -> Iterator[int]:
    yield pid
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in children.read_text().split():
            yield from _tree(int(child))


def _cpu() -> CpuTimes:
    used = [0.0, 0.0]
    for pid in _tree(os.getpid()):
        for thread in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            used[pid != os.getpid()] += int(thread.read_text().split()[0]) / 1e9
    return CpuTimes(*used)


async def _measured(name: str, count: int, ask: Callable[[int], Awaitable[None]]) -> None:
    await ask(WARM_UP)
    before = _cpu()
    await ask(count)
    after = _cpu()
    own, others = (1000 * (then - now) / count for then, now in zip(after, before, strict=True))
    print(f"  {name:9} {own:7.2f} here  {others:8.2f} in the worker  share {others / (own + others):.3f}")


async def generated(model: str, count: int, *, shared: bool) -> None:
    """By `AsyncLLM.generate`."""
    async with AsyncLLM(model, slots=SLOTS) as llm:

        async def ask(number: int) -> None:
            async for _ in llm.generate(chats(number, shared=shared), max_tokens=MAX_TOKENS, temperature=0):
                pass

        await _measured("generate", count, ask)


async def batched(model: str, count: int, *, shared: bool) -> None:
    """As `localllm batch` does, without reading a file."""
    async with LineServer(config.load({"slots": SLOTS}), model, lambda _: None) as server:

        def lines(number: int) -> Iterator[BatchLine]:
            for index, messages in enumerate(chats(number, shared=shared)):
                body = json.dumps({"messages": messages, "max_tokens": MAX_TOKENS, "temperature": 0}).encode()
                yield with_model(BatchLine(index, str(index), "/v1/chat/completions", body, ""), server.model)

        def send(line: BatchLine) -> Awaitable[Reply]:
            return server.send(line._replace(body=of_batch_class(line)))

        async def ask(number: int) -> None:
            results = ResultFile(io.BytesIO())
            await run(taking(lines(number)), send, results.add, concurrency=2 * SLOTS, tally=Tally())

        await _measured("batch", count, ask)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("model", nargs="?", default="demo")
    parser.add_argument("--prompts", type=int, default=400)
    args = parser.parse_args()
    for shared in (False, True):
        print(f"{'700 shared tokens' if shared else 'short'}, {SLOTS} slots, CPU ms per prompt:")
        for measure in (generated, batched):
            asyncio.run(measure(args.model, args.prompts, shared=shared))


if __name__ == "__main__":
    main()
