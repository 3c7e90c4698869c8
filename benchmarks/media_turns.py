"""The second turn about a picture on every kind of memory, against llama-server: how much sooner its first token comes.

    python -m benchmarks.media_turns [--rounds 5] [--tiles 4] [--peer PYTHONPATH]

Text models are those of `tests.models.families`, widened (random weights); the projector is random and of SigLIP-B's
size. llama-server is its code in the package xllamacpp, which may lie in a folder of its own (`--peer`). Both servers
run at the same time and are asked by turns. Prints seconds, medians over the rounds, and first turn by second turn.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from benchmarks.kv_memories import WIDE
from benchmarks.media import TILE, Messages, Server, picture, question, serving
from benchmarks.random_projector import write_random_projector
from tests.models import families
from tests.models.maker import write_llama
from tests.models.tokenizers import CHATML


def write_attention(path: Path, *, chat_template: str) -> Path:
    return write_llama(
        path, n_embd=WIDE["N_EMBD"], n_ff=WIDE["N_FF"], n_head=WIDE["N_HEAD"], n_kv=WIDE["N_KV"], ctx=WIDE["N_CTX"],
        chat_template=chat_template,
    )  # fmt: skip


WRITERS: dict[str, Callable[..., Path]] = {
    "attention": write_attention,
    "sliding window": families.write_sliding_window,
    "hybrid": families.write_hybrid,
    "recurrent": families.write_recurrent,
}


def client_of(server: Server) -> httpx.Client:
    """One for all questions: to make one takes as long as a short second turn."""
    headers = {"Authorization": f"Bearer {server.key}"} if server.key else {}
    return httpx.Client(base_url=server.url.removesuffix("/v1"), headers=headers, timeout=1200)


def answered_s(client: httpx.Client, messages: Messages) -> float:
    """Time until an answer of one token."""
    body = {"messages": messages, "max_tokens": 1, "temperature": 0, "ignore_eos": True}
    data = json.dumps(body).encode()
    began = time.monotonic()
    reply = client.post("/v1/chat/completions", content=data, headers={"Content-Type": "application/json"})
    if reply.status_code != 200:
        raise SystemExit(reply.text)
    return time.monotonic() - began


def two_turns(client: httpx.Client, seed: int, size: tuple[int, int]) -> tuple[float, float]:
    image = picture(seed, *size)
    first_s = answered_s(client, question(image))
    return first_s, answered_s(client, question(image, "You are helpful.", "A thing.", "Which color?"))


def measure(model: Path, projector: Path, home: Path, size: tuple[int, int], rounds: int) -> dict[str, Any]:
    turns: dict[str, list[tuple[float, float]]] = {"ours": [], "theirs": []}
    with serving("ours", model, projector, home) as ours, serving("theirs", model, projector, home) as theirs:
        clients = {"ours": client_of(ours), "theirs": client_of(theirs)}
        for client in clients.values():  # loads the projector
            two_turns(client, 0, size)
        for seed in range(1, rounds + 1):
            for name, client in clients.items():
                turns[name].append(two_turns(client, seed, size))
    figures = {}
    for name, found in turns.items():
        first_s, second_s = (statistics.median(each) for each in zip(*found, strict=True))
        ratio = statistics.median(first / second for first, second in found)
        figures[name] = {"first turn": round(first_s, 3), "second turn": round(second_s, 3), "ratio": round(ratio, 1)}
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tiles", type=int, default=4, help="tiles of the picture, beside an overview")
    parser.add_argument("--peer", default="", help="folder of the package xllamacpp")
    given = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), given.peer)))
    for name, value in WIDE.items():
        setattr(families, name, value)
    for memory, write in WRITERS.items():
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            model = write(folder / "model.gguf", chat_template=CHATML)
            projector = folder / "mmproj-random.gguf"
            write_random_projector(projector, output_width=WIDE["N_EMBD"], tile=TILE, tiles=given.tiles)
            size = (TILE * given.tiles, TILE)
            print(memory, json.dumps(measure(model, projector, folder / "home", size, given.rounds)), flush=True)


if __name__ == "__main__":
    main()
