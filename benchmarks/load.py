"""Generates load on any OpenAI-style server: streamed chats on several connections; prints one line of JSON.

    python -m benchmarks.load http://127.0.0.1:11435 --scenario distinct --concurrency 8 --requests 16

distinct: all prompts differ. shared: one long system message. turns: chats of four turns. uneven: the same, with
answers of half to one and a half times `--max-tokens`. stall: a long prompt arrives beside four streams. One connection
per request, with plain asyncio streams, to leave the CPU to the server. Loopback only. Knows nothing of localllm.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import random
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple
from urllib.parse import urlsplit

Messages = list[dict[str, str]]
NUM_TURNS = 4
STALL_STREAMS = 4
STALL_AFTER_TOKENS = 40
"""Tokens of the first stream before the long prompt arrives."""
_WORDS = """
    time year people way day man thing woman life child world school state family student group country problem hand
    part place case week company system program question work government number night point home water room mother
""".split()


def text(num_words: int, seed: int) -> str:
    chooser = random.Random(seed)
    return " ".join(chooser.choice(_WORDS) for _ in range(num_words))


def user(content: str) -> dict[str, str]:
    return {"role": "user", "content": content}


class Timed(NamedTuple):
    """One answer; times are seconds since the request was sent."""

    token_times_s: list[float]
    total_s: float
    text: str
    usage: dict[str, Any]

    @property
    def cached_tokens(self) -> int:
        return int((self.usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0))

    @property
    def ttft_s(self) -> float:
        return self.token_times_s[0] if self.token_times_s else self.total_s

    @property
    def tpot_s(self) -> float:
        return (self.total_s - self.ttft_s) / max(int(self.usage["completion_tokens"]) - 1, 1)

    @property
    def longest_gap_s(self) -> float:
        return max((after - before for before, after in itertools.pairwise(self.token_times_s)), default=0.0)


class Server:
    """A server, and the common part of all requests."""

    def __init__(self, url: str, model: str, key: str, extra: dict[str, Any]) -> None:
        parts = urlsplit(url)
        if parts.hostname not in ("127.0.0.1", "localhost", "::1"):
            raise SystemExit("this load generator aims at servers on this machine only")
        self.host, self.port = parts.hostname, parts.port or 80
        self._head = {"Host": f"{parts.hostname}:{self.port}", "Authorization": f"Bearer {key}", "Connection": "close"}
        self._body = {
            "model": model,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
            **extra,
        }

    async def events(self, messages: Messages, max_tokens: int) -> AsyncIterator[dict[str, Any]]:
        """The stream's chunks. Only SSE lines begin with `data:`; HTTP's chunk sizes do not."""
        body = json.dumps({**self._body, "messages": messages, "max_tokens": max_tokens}).encode()
        head = {**self._head, "Content-Type": "application/json", "Content-Length": str(len(body))}
        lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
        reader, writer = await asyncio.open_connection(self.host, self.port, limit=1 << 24)
        try:
            writer.write(f"POST /v1/chat/completions HTTP/1.1\r\n{lines}\r\n".encode() + body)
            status = await reader.readline()
            if b" 200 " not in status:
                raise RuntimeError(
                    f"{status.decode().strip()}: {(await reader.read()).decode(errors='replace')[-500:]}"
                )
            while line := await reader.readline():
                if line.startswith(b"data: {"):
                    yield json.loads(line[6:])
        finally:
            writer.close()

    async def ask(
        self, messages: Messages, max_tokens: int, on_token: Callable[[int], None] = lambda _number: None
    ) -> Timed:
        started = time.perf_counter()
        times: list[float] = []
        parts: list[str] = []
        usage: dict[str, Any] = {}
        async for event in self.events(messages, max_tokens):
            if "error" in event:
                raise RuntimeError(f"the stream ended with {event['error']}")
            usage = event.get("usage") or usage
            for choice in event.get("choices", ()):
                if piece := choice["delta"].get("content"):
                    times.append(time.perf_counter() - started)
                    parts.append(piece)
                    on_token(len(times))
        return Timed(times, time.perf_counter() - started, "".join(parts), usage)


class Plan(NamedTuple):
    """Options from the command line."""

    server: Server
    concurrency: int
    requests: int
    prompt_tokens: int
    max_tokens: int
    seed: int


async def distinct(plan: Plan, number: int) -> list[Timed]:
    return [await plan.server.ask([user(text(plan.prompt_tokens, plan.seed + number))], plan.max_tokens)]


async def shared(plan: Plan, number: int) -> list[Timed]:
    system = {"role": "system", "content": text(plan.prompt_tokens, plan.seed)}
    return [await plan.server.ask([system, user(text(12, plan.seed + number + 1))], plan.max_tokens)]


async def turns(plan: Plan, number: int, *, spread: float = 0.0) -> list[Timed]:
    messages, answers = [user(text(plan.prompt_tokens, plan.seed + number))], []
    lengths = random.Random(plan.seed + number)
    for turn in range(NUM_TURNS):
        answers.append(
            await plan.server.ask(messages, round(plan.max_tokens * lengths.uniform(1 - spread, 1 + spread)))
        )
        messages += [{"role": "assistant", "content": answers[-1].text}, user(text(16, 1000 * turn + number))]
    return answers


async def uneven(plan: Plan, number: int) -> list[Timed]:
    """As real answers are: those of equal length keep all chats in step with each other."""
    return await turns(plan, number, spread=0.5)


async def many(plan: Plan, job: Callable[[Plan, int], Awaitable[list[Timed]]]) -> dict[str, Any]:
    """Run `requests` jobs, `concurrency` at a time."""
    gate = asyncio.Semaphore(plan.concurrency)

    async def gated(number: int) -> list[Timed]:
        async with gate:
            return await job(plan, number)

    started = time.perf_counter()
    jobs = await asyncio.gather(*map(gated, range(plan.requests)))
    wall_s = time.perf_counter() - started
    answers = [answer for answers in jobs for answer in answers]
    num_tokens = sum(answer.usage["completion_tokens"] for answer in answers)
    return {
        "answers": len(answers),
        "prompt_tokens": round(statistics.mean(answer.usage["prompt_tokens"] for answer in answers), 1),
        "tokens_per_s": round(num_tokens / wall_s, 1),
        "ttft_p50_ms": round(1e3 * statistics.median(answer.ttft_s for answer in answers), 1),
        "ttft_max_ms": round(1e3 * max(answer.ttft_s for answer in answers), 1),
        "tpot_p50_ms": round(1e3 * statistics.median(answer.tpot_s for answer in answers), 2),
        "gap_max_ms": round(1e3 * max((answer.longest_gap_s for answer in answers), default=0.0), 1),
        "wall_s": round(wall_s, 2),
        "computed_again": computed_again(jobs),
    }


def computed_again(jobs: list[list[Timed]]) -> float:
    """The share of a turn's repeated tokens (of earlier turns and answers) that was not cached."""
    repeated = again = 0
    for answers in jobs:
        for previous, answer in itertools.pairwise(answers):
            known = previous.usage["prompt_tokens"] + previous.usage["completion_tokens"]
            repeated += known
            again += max(0, known - answer.cached_tokens)
    return round(again / repeated, 3) if repeated else 0.0


async def stall(plan: Plan) -> dict[str, Any]:
    """Gaps between tokens of running streams before and while a long prompt is computed, and that prompt's TTFT."""
    alone = await plan.server.ask([user(text(plan.prompt_tokens, plan.seed + 77))], 2)
    warm, arrived, answered = asyncio.Event(), [0.0], [float("inf")]

    async def stream(number: int) -> list[float]:
        times: list[float] = []

        def on_token(count: int) -> None:
            times.append(time.perf_counter())
            if count == STALL_AFTER_TOKENS:
                warm.set()

        await plan.server.ask([user(text(24, plan.seed + number))], plan.max_tokens, on_token)
        return times

    async def intrude() -> Timed:
        await warm.wait()
        arrived[0] = time.perf_counter()
        answer = await plan.server.ask([user(text(plan.prompt_tokens, plan.seed + 99))], 2)
        answered[0] = time.perf_counter()
        return answer

    streaming = asyncio.gather(*map(stream, range(STALL_STREAMS)))
    intruder = await intrude()
    before, during = [], []
    for times in await streaming:
        for previous, now in itertools.pairwise(times):
            if now < arrived[0]:
                before.append(now - previous)
            elif previous < answered[0]:
                during.append(now - previous)
    return {
        "gap_p50_before_ms": round(1e3 * statistics.median(before), 1),
        "gap_p50_during_ms": round(1e3 * statistics.median(during), 1),
        "gap_max_during_ms": round(1e3 * max(during), 1),
        "ttft_alone_s": round(alone.ttft_s, 2),
        "ttft_among_streams_s": round(intruder.ttft_s, 2),
    }


JOBS: dict[str, Callable[[Plan, int], Awaitable[list[Timed]]]] = {
    "distinct": distinct,
    "shared": shared,
    "turns": turns,
    "uneven": uneven,
}


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("url")
    parser.add_argument("--model", default="m")
    parser.add_argument("--key", default="none")
    parser.add_argument("--scenario", choices=(*JOBS, "stall"), default="distinct")
    parser.add_argument("--concurrency", type=int, default=1)
    parser.add_argument("--requests", type=int, default=8)
    parser.add_argument("--prompt-tokens", type=int, default=64)
    parser.add_argument("--max-tokens", type=int, default=96)
    parser.add_argument("--seed", type=int, default=0, help="0: a new one each run, so that no cache helps")
    parser.add_argument("--extra", default="{}", help="JSON added to every request")
    asked = parser.parse_args()
    plan = Plan(
        Server(asked.url, asked.model, asked.key, json.loads(asked.extra)),
        asked.concurrency,
        asked.requests,
        asked.prompt_tokens,
        asked.max_tokens,
        asked.seed or random.randrange(1 << 30),
    )
    await plan.server.ask([user("warm up")], 4)
    figures = await (stall(plan) if asked.scenario == "stall" else many(plan, JOBS[asked.scenario]))
    print(json.dumps({"scenario": asked.scenario, "concurrency": asked.concurrency, **figures}))


if __name__ == "__main__":
    asyncio.run(main())
