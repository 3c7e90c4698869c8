"""The cost of structured answers: against localllm's free text, and llama-server's structured answers; in turns.

    python -m benchmarks.structure PEERS [--model demo|large] [--part speed|first|compile] [--streams N] [--rounds N]
        [--only SCHEMA]

speed: time per token for five schemas, greedy, `OUT` tokens each. Both servers run at the same time, and requests go to
one at a time: idle servers sleep. Texts differ, but not in length. "names and signs" is the share of tokens outside of
values; an unconstrained document would need as many tokens, at the speed of free text.
first: the additional wait of a model's first structured request, for the tokenizer. compile: the additional wait of a
new schema over a repeated one, for the tests' corpus. All figures go to one file.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.load import Server, text, user
from benchmarks.peers import MODEL, UNGUESSED
from benchmarks.results import RESULTS, save
from benchmarks.serving import SLOTS, THREADS, llama_server
from benchmarks.structure_schemas import SCHEMAS, Schema
from localllm.client.api import Client
from localllm.client.sidecar import Sidecar

OUT, CTX = 96, 2048
DEMO = Path(__file__).parents[1] / "localllm/data/demo.gguf"
SETTLED_S = 0.3
"""Pause between servers, so that the last step of one does not slow the next."""
NAME = "structure"
Count = Callable[[str], int]
"""The tokens of a text."""
_LEAVES = re.compile(r'"(?:[^"\\]|\\.)*"(?!\s*:)|-?\d[\d.eE+-]*|true|false|null')


def asking(schema: Schema | None) -> dict[str, Any]:
    """The fields of a request for a document of this schema, or for free text of the same length."""
    if schema is None:
        return {"ignore_eos": True}
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "document", "schema": schema}}}


class Answer(NamedTuple):
    """The pieces of an answer: seconds since the request, and text."""

    pieces: list[tuple[float, str]]
    num_tokens: int

    @property
    def text(self) -> str:
        return "".join(piece for _, piece in self.pieces)

    def token_s(self, count: Count) -> float:
        """Seconds per token after the first piece."""
        (began_s, first), (ended_s, _) = self.pieces[0], self.pieces[-1]
        return (ended_s - began_s) / max(1, self.num_tokens - count(first))


async def answer(server: Server, seed: int, max_tokens: int = OUT) -> Answer:
    asked_s, pieces, num_tokens = time.perf_counter(), [], 0
    async for event in server.events([user(f"Write JSON about {text(24, seed)}")], max_tokens):
        num_tokens = (event.get("usage") or {}).get("completion_tokens", num_tokens)
        for choice in event.get("choices", ()):
            if piece := choice["delta"].get("content"):
                pieces.append((time.perf_counter() - asked_s, piece))
    return Answer(pieces, num_tokens)


async def answers(server: Server, streams: int, seed: int) -> list[Answer]:
    return list(await asyncio.gather(*(answer(server, seed + number) for number in range(streams))))


def token_ms(run: list[Answer], count: Count) -> float:
    """Milliseconds per token of the median stream."""
    return 1e3 * statistics.median(each.token_s(count) for each in run)


def speed(model: Path, peers: Path, streams: int, rounds: int, only: str) -> dict[str, Any]:
    options = [str(model), f"--slots={SLOTS}", f"--ctx={CTX}", f"--threads={THREADS}", "--log-level=warning", UNGUESSED]
    figures: dict[str, Any] = {}
    with llama_server(peers, model, CTX) as theirs, Sidecar.start(options) as ours:
        client = Client(ours.url, ours.token or "")

        def count(piece: str) -> int:
            return len(client.tokenize(ours.ready.model or "", piece, add_special=False)) if piece else 0

        def run(url: str, key: str, schema: Schema | None, seed: int) -> list[Answer]:
            done = asyncio.run(answers(Server(url, model.stem, key, asking(schema)), streams, seed))
            time.sleep(SETTLED_S)
            return done

        for name, schema in SCHEMAS.items():
            if only not in name:
                continue
            rows: list[dict[str, float]] = []
            for number in range(rounds + 1):
                seed = random.randrange(1 << 30)
                free = run(ours.url, ours.token or "", None, seed)
                mine = run(ours.url, ours.token or "", schema, seed)
                peer = run(theirs, "none", schema, seed)
                if not number:
                    continue  # in the first round, both compile the schema
                row = {
                    "free_ms": token_ms(free, count),
                    "structured_ms": token_ms(mine, count),
                    "llama_server_ms": token_ms(peer, count),
                    "forced": statistics.mean(forced_share(each.text, count) for each in mine),
                    "tokens": statistics.mean(each.num_tokens for each in mine),
                }
                row["of_free"] = row["structured_ms"] / row["free_ms"]
                row["of_llama_server"] = row["structured_ms"] / row["llama_server_ms"]
                rows.append(row)
            figures[name] = {key: round(statistics.median(row[key] for row in rows), 3) for key in rows[0]}
            print(f"{streams} x {name:13}", shown(figures[name]), flush=True)
    return figures


def shown(row: dict[str, float]) -> str:
    return (
        f"free {row['free_ms']:.2f} ms, structured {row['structured_ms']:.2f} ({row['of_free']:.2f}), "
        f"llama-server {row['llama_server_ms']:.2f} ({row['of_llama_server']:.2f}), names and signs {row['forced']:.0%}"
    )


def forced_share(document: str, count: Count) -> float:
    whole = count(document)
    values = sum(count(leaf) for leaf in _LEAVES.findall(document))
    return max(0.0, 1 - values / whole) if whole else 0.0


def first(model: Path, rounds: int) -> dict[str, Any]:
    """Time to the first token of a model's first request, in ms."""
    found: dict[str, list[float]] = {"free": [], "structured": []}
    options = [str(model), f"--slots={SLOTS}", f"--ctx={CTX}", f"--threads={THREADS}", "--log-level=warning", UNGUESSED]
    for number in range(rounds):
        for name, schema in (("free", None), ("structured", SCHEMAS["flat"])):
            with Sidecar.start(options) as ours:
                server = Server(ours.url, model.stem, ours.token or "", asking(schema))
                found[name].append(1e3 * asyncio.run(answer(server, number)).pieces[0][0])
    medians = {f"{name}_ms": round(statistics.median(times), 1) for name, times in found.items()}
    return {**medians, "longer_ms": round(medians["structured_ms"] - medians["free_ms"], 1)}


def compiling(model: Path, most: int) -> dict[str, Any]:
    """The additional time of each schema's first use over its second, in ms."""
    from tests.schemas import corpus  # the schemas of one test suite are enough

    chosen = corpus()
    random.Random(1).shuffle(chosen)
    options = [str(model), "--slots=1", f"--ctx={CTX}", f"--threads={THREADS}", "--log-level=warning", UNGUESSED]
    times: list[float] = []
    num_refused = 0
    with Sidecar.start(options) as ours:

        def ask(schema: Any) -> float:
            server = Server(ours.url, model.stem, ours.token or "", asking(schema))
            return asyncio.run(answer(server, 0, max_tokens=1)).pieces[0][0]

        ask(SCHEMAS["flat"])
        for schema in chosen[:most]:
            try:
                fresh = ask(schema)
            except RuntimeError:
                num_refused += 1
                continue
            times.append(1e3 * max(0.0, fresh - min(ask(schema), ask(schema))))
    times.sort()
    return {
        "schemas": len(times),
        "refused": num_refused,
        "p50_ms": round(statistics.median(times), 2),
        "p99_ms": round(times[int(0.99 * len(times))], 2),
        "max_ms": round(times[-1], 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("peers", type=Path)
    parser.add_argument("--model", choices=("demo", "large"), default="large")
    parser.add_argument("--part", choices=("speed", "first", "compile"), default="speed")
    parser.add_argument("--streams", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="schemas with this in their name, for --part speed")
    parser.add_argument("--schemas", type=int, default=400, help="number of schemas of the corpus, for --part compile")
    asked = parser.parse_args()
    peers: Path = asked.peers.resolve()
    model = DEMO if asked.model == "demo" else peers / MODEL
    if asked.part == "speed":
        part, found = f"{asked.streams} streams", speed(model, peers, asked.streams, asked.rounds, asked.only)
    elif asked.part == "first":
        part, found = "first request", first(model, asked.rounds)
    else:
        part, found = "compile", compiling(model, asked.schemas)
    file = RESULTS / f"{NAME}.json"
    figures = json.loads(file.read_text("utf-8")) if file.exists() else {}
    figures.pop("machine", None)
    figures.setdefault(model.stem, {}).setdefault(part, {}).update(found)
    save(NAME, figures)


if __name__ == "__main__":
    main()
