"""Texts per second through `/v1/embeddings`, against llama-server on the same file and threads; in turns.

    python -m benchmarks.embeddings PEERS [--model encoder|causal] [--texts N] [--rounds N] [--flags NAME]

PEERS is the folder of `benchmarks.peers`. Texts have 32 to 256 tokens, each length equally likely, and come as clients
send them: all in one request, or an eighth from each of 8 clients; vectors are in base64, as OpenAI's client requests
them. All texts are new in every round. Both servers run at the same time, and requests go to one at a time. Prints
medians and their ratio (above 1: localllm is better), and the maximum distance between the vectors of both servers.
"""

from __future__ import annotations

import argparse
import base64
import random
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import gguf
import httpx
import numpy as np
import numpy.typing as npt

from benchmarks.peer_server import started
from benchmarks.peers import MODEL
from benchmarks.random_bert import ENCODER
from benchmarks.results import save
from localllm.client.sidecar import Sidecar

THREADS, CLIENTS = 2, 8
SHORTEST, LONGEST = 32, 256
MODELS = {"encoder": ENCODER, "causal": MODEL}
POOLING = {"encoder": "mean", "causal": "last"}
FLAGS = {
    "plain": [],
    "np 1": ["-np", "1", "-b", "512", "-ub", "512"],
    "np 8": ["-np", "8", "-b", "512", "-ub", "512"],
    "np 8, 2048": ["-np", "8", "-b", "2048", "-ub", "2048"],
}
"""Common options of llama-server; `plain` has its defaults of 4 slots and batches of 512."""

Vectors = npt.NDArray[np.float32]


def llama_server(
    peers: Path, model: Path, flags: list[str], pooling: str, *, embeds: bool = True
) -> AbstractContextManager[str]:
    """Run llama-server with room for the longest text in each slot; yields its URL."""
    embedding = ("--embeddings", "--pooling", pooling) if embeds else ()
    return started(peers, model, "-c", 8 * 512, *flags, *embedding, "-t", THREADS)


def words_of(model: Path) -> list[str]:
    """Words that are a single token after a space."""
    tokens = gguf.GGUFReader(model).fields["tokenizer.ggml.tokens"].contents()
    starts = "\u0120\u2581"  # how byte-level and SentencePiece vocabularies write a space before a word
    words = [token[1:] for token in tokens if token[0] in starts and len(token) > 1]
    return [word for word in words if word.isascii() and word.isalpha() and word.islower() and len(word) > 2]


def texts_for(words: list[str], number: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(rng.choices(words, k=rng.randint(SHORTEST, LONGEST) - 2)) for _ in range(number)]


def ask(url: str, key: str, model: str, texts: list[str]) -> tuple[Vectors, int]:
    """The vectors and the number of tokens."""
    body = {"model": model, "input": texts, "encoding_format": "base64"}
    done = httpx.post(f"{url}/v1/embeddings", json=body, headers={"Authorization": f"Bearer {key}"}, timeout=600)
    assert done.status_code == 200, done.text
    reply = done.json()
    items = sorted(reply["data"], key=lambda item: item["index"])
    vectors = [np.frombuffer(base64.b64decode(item["embedding"]), dtype=np.float32) for item in items]
    return np.stack(vectors), reply["usage"]["prompt_tokens"]


def measure(url: str, key: str, model: str, texts: list[str], clients: int) -> tuple[Vectors, dict[str, float]]:
    parts = [texts[start::clients] for start in range(clients)]
    started_s = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        answers = list(pool.map(lambda part: ask(url, key, model, part), parts))
    seconds = time.perf_counter() - started_s
    vectors = np.empty((len(texts), answers[0][0].shape[1]), np.float32)
    for start, (some, _) in enumerate(answers):
        vectors[start::clients] = some
    tokens = sum(number for _, number in answers)
    return vectors, {"texts_per_s": len(texts) / seconds, "tokens_per_s": tokens / seconds}


def compare(
    theirs: str, ours: Sidecar, model: str, words: list[str], number: int, clients: int, rounds: int
) -> dict[str, Any]:
    runs: dict[str, list[dict[str, float]]] = {"llama-server": [], "localllm": []}
    apart, ratios = 0.0, list[float]()
    servers = {"llama-server": (theirs, "none"), "localllm": (ours.url, ours.token or "")}
    for number_of_round in range(rounds):
        texts = texts_for(words, number, random.randrange(1 << 30))  # the same for both, other ones every round
        vectors = {}
        for name in sorted(servers, reverse=number_of_round % 2 == 0):
            vectors[name], figures = measure(*servers[name], model, texts, clients)
            runs[name].append(figures)
        ratios.append(runs["localllm"][-1]["texts_per_s"] / runs["llama-server"][-1]["texts_per_s"])
        cosines = (vectors["localllm"] * vectors["llama-server"]).sum(axis=1)
        apart = max(apart, float(1 - cosines.min()))
    medians = {
        name: {figure: round(statistics.median(each[figure] for each in figures), 2) for figure in figures[0]}
        for name, figures in runs.items()
    }
    each = [round(ratio, 2) for ratio in ratios]
    # Ratios of neighbouring runs, since the machine's speed changes from minute to minute.
    return {"ratio": round(statistics.median(ratios), 3), "ratios": each, "cosine_apart": round(apart, 6), **medians}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("peers", type=Path)
    parser.add_argument("--model", choices=sorted(MODELS), default="encoder")
    parser.add_argument("--texts", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--flags", choices=sorted(FLAGS), action="append", help="options of llama-server; default: all")
    parser.add_argument("--clients", type=int, choices=(1, CLIENTS), action="append", help="default: both")
    arguments = parser.parse_args()
    peers: Path = arguments.peers.resolve()
    model, pooling = peers / MODELS[arguments.model], POOLING[arguments.model]
    words = words_of(model)
    options = [str(model), f"--threads={THREADS}", f"--pooling={pooling}", "--slots=1", "--log-level=warning"]
    figures: dict[str, Any] = {}
    with Sidecar.start(options) as ours:
        for name in arguments.flags or FLAGS:
            with llama_server(peers, model, FLAGS[name], pooling) as theirs:
                warm = texts_for(words, 2, 0)
                for url, key in ((theirs, "none"), (ours.url, ours.token or "")):
                    ask(url, key, model.stem, warm)
                for clients in arguments.clients or (1, CLIENTS):
                    way = f"{clients} client{'s' * (clients > 1)}, llama-server {name}"
                    figures[way] = compare(theirs, ours, model.stem, words, arguments.texts, clients, arguments.rounds)
                    print(way, figures[way], flush=True)
    save(f"embeddings-{model.stem}", {"texts": arguments.texts, "rounds": arguments.rounds, "ways": figures})


if __name__ == "__main__":
    main()
