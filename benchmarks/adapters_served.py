"""Streams under several LoRA adapters at once over HTTP, against llama-server with the same files; by turns.

    python -m benchmarks.adapters_served PEERS [--model FILE] [--streams 8] [--requests 24] [--rounds 3]

PEERS is the folder of `benchmarks.peers`. Both servers get eight random adapters of the model's shapes and the same
requests, which name one adapter each by `lora: [{"id", "scale"}]`, by turns; `--streams` of them run at a time. Prints
tokens per second of both, their ratio, and the longest wait of a stream: for its first token, and between two.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from benchmarks.adapters import write_adapter
from benchmarks.load import Server, Timed, text, user
from benchmarks.peer_server import started
from benchmarks.peers import MODEL, UNGUESSED
from benchmarks.results import save
from localllm.client.sidecar import Sidecar
from localllm.gguf.header import read_header

COUNTS = (0, 1, 2, 4, 8)
CTX, THREADS, WORDS = 1024, 2, 40


class Measured(NamedTuple):
    """One round on one server."""

    tokens_per_s: float
    ttft_max_s: float
    gap_max_s: float


class Peer(NamedTuple):
    """One of the two servers."""

    url: str
    key: str
    model: str

    def under(self, adapter: int | None) -> Server:
        """Its chats under an adapter, by number; `None`: under none."""
        named = [] if adapter is None else [{"id": adapter, "scale": 1.0}]
        return Server(self.url, self.model, self.key, {"lora": named, "ignore_eos": True})


class Load(NamedTuple):
    """How much is asked."""

    streams: int
    requests: int
    tokens: int


async def measure(peer: Peer, count: int, load: Load, seed: int) -> Measured:
    """`load.requests` answers under `count` adapters by turns."""
    gate = asyncio.Semaphore(load.streams)

    async def one(number: int) -> Timed:
        server = peer.under(number % count if count else None)
        async with gate:
            return await server.ask([user(text(WORDS, seed + number))], load.tokens)

    began_s = time.perf_counter()
    answers = await asyncio.gather(*map(one, range(load.requests)))
    seconds = time.perf_counter() - began_s
    num_tokens = sum(answer.usage["completion_tokens"] for answer in answers)
    return Measured(
        num_tokens / seconds,
        max(answer.ttft_s for answer in answers),
        max(answer.longest_gap_s for answer in answers),
    )


def table(found: dict[tuple[str, int], list[Measured]]) -> dict[str, dict[str, float]]:
    """Prints a line for each number of adapters; returns its figures."""
    figures: dict[str, dict[str, float]] = {}
    print("adapters   tokens/s: theirs    ours   ratio   longest wait, first token and gap, s: theirs          ours")
    for count in COUNTS:
        theirs, ours = found["llama-server", count], found["localllm", count]
        speeds = [statistics.median(each.tokens_per_s for each in rounds) for rounds in (theirs, ours)]
        waits = [
            (max(each.ttft_max_s for each in rounds), max(each.gap_max_s for each in rounds))
            for rounds in (theirs, ours)
        ]
        print(
            f"{count:8} {speeds[0]:18.1f} {speeds[1]:7.1f} {speeds[1] / speeds[0]:7.2f}"
            f" {waits[0][0]:49.2f} {waits[0][1]:5.2f} {waits[1][0]:7.2f} {waits[1][1]:5.2f}",
            flush=True,
        )
        figures[str(count)] = {
            "theirs_tokens_per_s": speeds[0],
            "ours_tokens_per_s": speeds[1],
            "theirs_ttft_max_s": waits[0][0],
            "ours_ttft_max_s": waits[1][0],
            "theirs_gap_max_s": waits[0][1],
            "ours_gap_max_s": waits[1][1],
        }
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("peers", type=Path)
    parser.add_argument("--model", type=Path, help="instead of the random one of PEERS")
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--requests", type=int, default=24)
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rank", type=int, default=16)
    given = parser.parse_args()
    peers: Path = given.peers.resolve()
    model: Path = (given.model or peers / MODEL).resolve()
    load = Load(given.streams, given.requests, given.tokens)
    with tempfile.TemporaryDirectory() as folder:
        header = read_header(model)
        files = [
            write_adapter(Path(folder) / f"{number}.gguf", header, rank=given.rank, seed=number)
            for number in range(max(COUNTS))
        ]
        theirs = ["-np", load.streams, "-c", load.streams * CTX, "-t", THREADS, "--lora-init-without-apply"]
        theirs += ["--lora", ",".join(str(file) for file in files)]
        ours = [str(model), f"--slots={load.streams}", f"--ctx={CTX}", f"--threads={THREADS}", "--log-level=warning"]
        ours += [f"--lora={','.join(str(file) for file in files)}", UNGUESSED]
        found: dict[tuple[str, int], list[Measured]] = defaultdict(list)
        with started(peers, model, *theirs) as url, Sidecar.start(ours) as sidecar:
            both = {
                "llama-server": Peer(url, "none", model.stem),
                "localllm": Peer(sidecar.url, sidecar.token or "", model.stem),
            }
            for _ in range(given.rounds):
                for count in COUNTS:
                    seed = random.randrange(1 << 30)
                    for name, peer in both.items():
                        found[name, count].append(asyncio.run(measure(peer, count, load, seed)))
        figures = table(found)
    save(f"adapters-served-{model.stem}", {"load": load._asdict(), "rounds": given.rounds, "adapters": figures})


if __name__ == "__main__":
    main()
