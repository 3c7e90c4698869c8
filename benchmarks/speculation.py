"""What guesses gain and cost: against ours without, and against llama-server with its n-grams; in turns, over HTTP.

    python -m benchmarks.speculation PEERS [--streams 1 8] [--rounds N] [--only SCENARIO] [--model FILE]

PEERS is what `benchmarks.peers` built. Random weights copy nothing, so the model is made: it has the shape and the time of
a step of the other benchmarks' (193 M, Q8_0), but each token is followed by a certain other one, in one long cycle. So
what comes is known, every matrix is multiplied as ever, and how much of the answer stands in the prompt is up to us: the
prompt is the answer with changes. Each answer is checked to be that of the cycle. Which tokens are guessed and
whether they are computed is left to each server.

    random   nothing of the answer is in the prompt            hostile  every few tokens of it a wrong one: guesses miss
    edit     a file that comes back with a few changes         json     of 11 tokens 8 are keys that were there before
    quotes   48 tokens of a quote, 16 of one's own, by turns

Prints milliseconds a token, of the median stream, and ratios (above 1: ours with guesses is faster).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import gguf
import httpx
import numpy as np

from benchmarks.peers import run, unpack_source
from benchmarks.random_model import write_random_model
from benchmarks.results import save
from localllm.client.sidecar import Sidecar

SLOTS, THREADS, CTX, OUT = 8, 2, 2048, 192
KINDS = 8000
"""Tokens in the cycle."""
SETTLED_S = 0.1
MODEL = "models/cycle135m-Q8_0.gguf"
PEER_OPTIONS = {
    "llama-server": ["--spec-type", "ngram-simple"],
    "llama-server, short": [
        "--spec-type", "ngram-simple", "--spec-ngram-simple-size-n", "3", "--spec-ngram-simple-size-m", "7",
    ],
}  # fmt: skip
"""As it is, and with n-grams as short as ours: it takes 12 tokens to find a place, and guesses 48, by itself."""

Change = Callable[[list[int], random.Random, list[int]], list[int]]
"""The answer to what the prompt has of it; other tokens are from the last list."""


def nothing(answer: list[int], chooser: random.Random, others: list[int]) -> list[int]:
    return [chooser.choice(others) for _ in answer]


def hostile(answer: list[int], chooser: random.Random, others: list[int]) -> list[int]:
    """Three to five right ones, then a wrong one."""
    changed, until = [], 4
    for token in answer:
        until -= 1
        changed.append(token if until else chooser.choice(others))
        until = until or chooser.randrange(4, 7)
    return changed


def edit(answer: list[int], chooser: random.Random, others: list[int]) -> list[int]:
    """Of 64 tokens one is another, of 96 one is missing."""
    changed = [chooser.choice(others) if place % 64 == 40 else token for place, token in enumerate(answer)]
    return [token for place, token in enumerate(changed) if place % 96 != 70]


def keys(answer: list[int], chooser: random.Random, others: list[int]) -> list[int]:
    return [chooser.choice(others) if place % 11 in (4, 9, 10) else token for place, token in enumerate(answer)]


def quotes(answer: list[int], chooser: random.Random, others: list[int]) -> list[int]:
    runs = [answer[start : start + 48] for start in range(0, len(answer), 64)]
    chooser.shuffle(runs)
    return [token for run in runs for token in (*run, *(chooser.choice(others) for _ in range(16)))]


SCENARIOS: dict[str, Change] = {"random": nothing, "hostile": hostile, "edit": edit, "json": keys, "quotes": quotes}


class Cycle(NamedTuple):
    """Tokens, each followed by the next, the last by the first; and others."""

    tokens: list[int]
    others: list[int]

    def request(self, change: Change, seed: int) -> tuple[list[int], list[int]]:
        """A prompt and its answer."""
        chooser = random.Random(seed)
        start = chooser.randrange(len(self.tokens))
        doubled = self.tokens + self.tokens
        answer = doubled[start + 1 : start + 1 + OUT]
        return [*change(answer, chooser, self.others), self.tokens[start]], answer


def make_cycle(vocabulary: Path) -> tuple[Cycle, np.ndarray[Any, np.dtype[np.int64]]]:
    """Of plain English words, and each token's next one: a permutation of the whole vocabulary."""
    pieces = gguf.GGUFReader(vocabulary).fields["tokenizer.ggml.tokens"].contents()
    words = [
        id for id, piece in enumerate(pieces) if piece[:1] == "\u0120" and piece[1:].isascii() and piece[1:].isalpha()
    ]
    random.Random(1).shuffle(words)
    tokens, others = words[:KINDS], words[KINDS : 2 * KINDS]
    following = np.arange(len(pieces), dtype=np.int64)
    following[tokens] = np.roll(np.asarray(tokens), -1)
    return Cycle(tokens, others), following


def made_model(peers: Path, cycle_of: Path, following: np.ndarray[Any, np.dtype[np.int64]]) -> Path:
    model = peers / MODEL
    if not model.exists():
        full = model.with_name(model.name.replace("Q8_0", "f16"))
        write_random_model(full, cycle_of, next_tokens=following)
        run(peers / "bin/llama-quantize", full, model, "Q8_0")
        full.unlink()
    return model


@contextlib.contextmanager
def llama_server(peers: Path, model: Path, options: list[str]) -> Iterator[str]:
    """The URL of one that runs."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [
        peers / "bin/llama-server", "-m", model, "-np", SLOTS, "-c", SLOTS * CTX, "-t", THREADS, "--host", "127.0.0.1",
        "--port", port, *options,
    ]  # fmt: skip
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen([str(part) for part in command], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        try:
            url = f"http://127.0.0.1:{port}"
            while process.poll() is None:
                with contextlib.suppress(httpx.TransportError):
                    if httpx.get(f"{url}/health").status_code == 200:
                        break
                time.sleep(0.2)
            assert process.poll() is None, "llama-server did not start"
            yield url
        finally:
            process.terminate()
            process.wait()


class Asked(NamedTuple):
    """Whom, and with what beside the prompt."""

    url: str
    key: str
    model: str
    extra: dict[str, Any]

    async def events(self, prompt: list[int]) -> AsyncIterator[dict[str, Any]]:
        parts = urlsplit(self.url)
        body = {
            "model": self.model, "prompt": prompt, "max_tokens": OUT, "temperature": 0, "ignore_eos": True,
            "stream": True, "stream_options": {"include_usage": True}, **self.extra,
        }  # fmt: skip
        encoded = json.dumps(body).encode()
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port, limit=1 << 24)
        try:
            head = (
                f"POST /v1/completions HTTP/1.1\r\nHost: {parts.netloc}\r\nAuthorization: Bearer {self.key}\r\n"
                f"Connection: close\r\nContent-Type: application/json\r\nContent-Length: {len(encoded)}\r\n\r\n"
            )
            writer.write(head.encode() + encoded)
            status = await reader.readline()
            if b" 200 " not in status:
                raise RuntimeError((await reader.read()).decode(errors="replace")[-500:])
            while line := await reader.readline():
                if line.startswith(b"data: {"):
                    yield json.loads(line[6:])
        finally:
            writer.close()

    async def answer(self, prompt: list[int]) -> tuple[float, str, dict[str, Any]]:
        """Seconds a token behind the first, the text, and the usage."""
        times, text, usage = [], "", {}
        async for event in self.events(prompt):
            usage = event.get("usage") or usage
            if piece := "".join(choice["text"] for choice in event.get("choices", ())):
                times.append(time.perf_counter())
                text += piece
        return (times[-1] - times[0]) / (OUT - 1), text, usage


async def answers(asked: Asked, prompts: list[list[int]]) -> list[tuple[float, str, dict[str, Any]]]:
    return list(await asyncio.gather(*(asked.answer(prompt) for prompt in prompts)))


def accepted(told: list[tuple[float, str, dict[str, Any]]]) -> tuple[int, int]:
    details = [usage.get("completion_tokens_details") or {} for _, _, usage in told]
    return (
        sum(each.get("accepted_prediction_tokens", 0) for each in details),
        sum(each.get("rejected_prediction_tokens", 0) for each in details),
    )


def compare(
    cycle: Cycle | None,
    change: Change,
    streams: int,
    rounds: int,
    parties: dict[str, Asked],
    texts: Callable[[list[int]], str],
) -> dict[str, Any]:
    """Medians of all rounds."""
    found: dict[str, list[float]] = {name: [] for name in parties}
    guesses: list[tuple[int, int]] = []
    for number in range(rounds):
        seed = random.randrange(1 << 30)
        assert cycle is not None
        both = [cycle.request(change, seed + stream) for stream in range(streams)]
        order = list(parties)
        random.shuffle(order)
        for name in order:
            told = asyncio.run(answers(parties[name], [prompt for prompt, _ in both]))
            for (_, expected), (_, text, _) in zip(both, told, strict=True):
                assert text.split() == texts(expected).split(), f"{name} answers something else"
            found[name].append(1e3 * statistics.median(seconds for seconds, _, _ in told))
            if name == "ours":
                guesses.append(accepted(told))
            time.sleep(SETTLED_S)
    row: dict[str, Any] = {f"{name}_ms": round(statistics.median(times), 3) for name, times in found.items()}
    for name in found:
        if name != "ours":
            ratios = [theirs / mine for theirs, mine in zip(found[name], found["ours"], strict=True)]
            row[f"of {name}"] = round(statistics.median(ratios), 3)
    right, wrong = sum(each[0] for each in guesses), sum(each[1] for each in guesses)
    row["accepted"], row["rejected"] = (round(part / rounds / streams / OUT, 3) for part in (right, wrong))
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("peers", type=Path)
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="scenarios with this in their name")
    parser.add_argument("--alone", action="store_true", help="without llama-server")
    arguments = parser.parse_args()
    peers: Path = arguments.peers.resolve()
    vocabulary = unpack_source(peers) / "models/ggml-vocab-qwen2.gguf"
    cycle, following = make_cycle(vocabulary)
    pieces = gguf.GGUFReader(vocabulary).fields["tokenizer.ggml.tokens"].contents()
    model = made_model(peers, vocabulary, following)
    figures: dict[str, Any] = {}
    options = [str(model), f"--slots={SLOTS}", f"--ctx={CTX}", f"--threads={THREADS}", "--log-level=warning"]
    with contextlib.ExitStack() as stack:
        ours = stack.enter_context(Sidecar.start(options))
        parties = {
            name: Asked(ours.url, ours.token or "", model.stem, extra)
            for name, extra in (("ours", {}), ("without", {"speculative": False}))
        }
        for name, extra_options in {} if arguments.alone else PEER_OPTIONS.items():
            url = stack.enter_context(llama_server(peers, model, extra_options))
            parties[name] = Asked(url, "none", model.stem, {})
        for streams in arguments.streams:
            for name, change in SCENARIOS.items():
                if arguments.only in name:
                    row = compare(
                        cycle, change, streams, arguments.rounds, parties,
                        lambda tokens: "".join(pieces[token] for token in tokens).replace("\u0120", " "),
                    )  # fmt: skip
                    figures.setdefault(f"{streams} streams", {})[name] = row
                    print(f"{streams} x {name:8}", row, flush=True)
    save("speculation", figures)


if __name__ == "__main__":
    main()
