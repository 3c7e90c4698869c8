"""The cost of tools that are not called: time per token of free text with ten tools and without, in turns.

    python -m benchmarks.tools PEERS [--model demo|large] [--streams N] [--rounds N]

Both compute as much, because without tools, their text is in the system message. Answers have `OUT` tokens, greedy,
over HTTP. `first_ms` is the time until the first piece.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
from pathlib import Path
from typing import Any

from benchmarks.load import Server, Timed, text, user
from benchmarks.peers import MODEL, UNGUESSED
from benchmarks.results import save
from benchmarks.serving import SLOTS, THREADS
from localllm.client.api import Client
from localllm.client.sidecar import Sidecar

OUT, CTX = 128, 2048
DEMO = Path(__file__).parents[1] / "localllm/data/demo.gguf"
PARAMETERS = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "kind": {"enum": ["file", "folder"]}, "depth": {"type": "integer"}},
    "required": ["path"],
}
TOOLS = [
    {"type": "function", "function": {"name": f"tool_{number}", "description": "A tool.", "parameters": PARAMETERS}}
    for number in range(10)
]


async def answers(server: Server, streams: int, seed: int, system: str) -> list[Timed]:
    first = [{"role": "system", "content": system}]
    asked = (server.ask([*first, user(f"Tell a story about {text(12, seed + each)}")], OUT) for each in range(streams))
    return list(await asyncio.gather(*asked))


def measure(model: Path, streams: int, rounds: int) -> dict[str, float]:
    options = [str(model), f"--slots={SLOTS}", f"--ctx={CTX}", f"--threads={THREADS}", "--log-level=warning", UNGUESSED]
    rows: list[dict[str, float]] = []
    with Sidecar.start(options) as ours:
        with Client(ours.url, ours.token or "") as client:
            opening = client.tokenize(ours.ready.model or "", "<tool_call>", add_special=False)
        length: dict[str, Any] = {"min_tokens": OUT, "chat_template_kwargs": {"enable_thinking": False}}
        if len(opening) == 1:
            length["logit_bias"] = {str(opening[0]): -100}  # no calls, whose tokens would be forced
        for number in range(rounds + 1):
            row: dict[str, float] = {}
            for name, extra, system in (
                ("free", length, f"Tools: {json.dumps(TOOLS)}"),
                ("tools", {**length, "tools": TOOLS}, "You tell stories."),
            ):
                server = Server(ours.url, ours.ready.model or "", ours.token or "", extra)
                run = asyncio.run(answers(server, streams, 100 * number, system))
                row[f"{name}_ms"] = 1e3 * statistics.median(each.tpot_s for each in run)
                row[f"{name}_first_ms"] = 1e3 * statistics.median(each.ttft_s for each in run)
            row["ratio"] = row["tools_ms"] / row["free_ms"]
            if number:
                rows.append(row)  # in the first round, the grammar is compiled
    return {key: round(statistics.median(row[key] for row in rows), 3) for key in rows[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("peers", type=Path)
    parser.add_argument("--model", choices=("demo", "large"), default="demo")
    parser.add_argument("--streams", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    model = DEMO if chosen.model == "demo" else chosen.peers.resolve() / MODEL
    figures: dict[str, Any] = measure(model, chosen.streams, chosen.rounds)
    save(f"tools-{chosen.model}-{chosen.streams}", figures)


if __name__ == "__main__":
    main()
