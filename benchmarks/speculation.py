"""Gains and costs of guesses: against localllm without, and llama-server with n-grams; in turns, over HTTP.

    python -m benchmarks.speculation PEERS [--streams 1 8] [--rounds N] [--only SCENARIO] [--alone]

PEERS is the folder of `benchmarks.peers`. Random weights repeat nothing, so the model writes a given text
(`scripted_model`); it is about as large as that of other benchmarks, and all its matrices are multiplied. Prompts and
answers are real texts, and each answer is checked. Each server decides what to guess.

    draft     random words with a draft model of given acceptance (`benchmarks.drafts`); only on request
    random    random words                  hostile   every three words are in the prompt, but with another continuation
    edit      a file, returned with changes json      records, returned with some changes; keys repeat
    quotes    quotes from a document, between new sentences
    invented  records of which only the keys are in the prompt

Streams begin at different positions of the answer. Prints milliseconds per token of the median stream, and ratios
(above 1: localllm with guesses is faster). The first round, which fills the caches with the prompts, is not counted.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import re
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import gguf

from benchmarks.load import text
from benchmarks.peer_server import started
from benchmarks.peers import run, unpack_source
from benchmarks.results import save
from benchmarks.scripted_model import write_script, write_scripted_model
from localllm.client.api import Client
from localllm.client.sidecar import Sidecar

SLOTS, THREADS, CTX, OUT = 8, 2, 2048, 192
STAGGER = 23
"""Tokens between the starting positions of streams."""
SETTLED_S = 0.1
MODEL = "models/scripted-Q8_0.gguf"
PEER_OPTIONS = {
    "llama-server": ["--spec-type", "ngram-simple"],
    "llama-server, short": [
        "--spec-type", "ngram-simple", "--spec-ngram-simple-size-n", "3", "--spec-ngram-simple-size-m", "7",
    ],
}  # fmt: skip
"""With defaults (matches 12 tokens and guesses 48), and with n-grams as short as localllm's."""
HERE = Path(__file__).parent


class Scenario(NamedTuple):
    """A prompt, and the model's answer."""

    prompt: str
    answer: str


def words_by_lot() -> Scenario:
    return Scenario(text(200, 1), text(500, 2))


def hostile() -> Scenario:
    """Each run of three words is in the prompt, where another word follows."""
    answer = text(500, 3).split()
    prompt = [word if place % 4 != 3 else f"not{place}" for place, word in enumerate(answer)]
    return Scenario(" ".join(prompt[:500]), " ".join(answer))


def edit() -> Scenario:
    """A variable is renamed, one line is added, and one is deleted."""
    lines = (HERE / "load.py").read_text("utf-8").splitlines()[40:130]
    changed = [re.sub(r"\bparts\b", "pieces", line) for number, line in enumerate(lines) if number != 7]
    changed.insert(14, "    # Asked for once.")
    return Scenario("Rename parts:\n" + "\n".join(lines) + "\nThe whole file:\n", "\n".join(changed))


class Person(NamedTuple):
    id: int
    name: str
    department: str
    is_active: bool
    email: str
    phone: str

    @property
    def record(self) -> str:
        contact = {"email": self.email, "phone": self.phone}
        return json.dumps(
            {
                "id": self.id, "full_name": self.name, "department": self.department, "is_active": self.is_active,
                "contact": contact,
            },
            indent=2,
        )  # fmt: skip


def people(count: int) -> list[Person]:
    chooser, names = random.Random(4), text(4000, 5).split()

    def one() -> Person:
        name = f"{chooser.choice(names)} {chooser.choice(names)}".title()
        department, is_active = chooser.choice(names), chooser.random() < 0.5
        return Person(
            chooser.randrange(10_000), name, department, is_active,
            f"{chooser.choice(names)}@example.com", str(chooser.randrange(10**6)),
        )  # fmt: skip

    return [one() for _ in range(count)]


def records() -> Scenario:
    """The document is returned with a renamed key in most records and another value in some."""
    made = [person.record for person in people(14)]
    changed = [
        record.replace("true", "false") if number % 4 == 1 else record.replace('"phone"', '"telephone"')
        for number, record in enumerate(made)
    ]
    return Scenario(
        "Name the phones telephone, but where nobody is active any more:\n" + ",\n".join(made) + "\n",
        ",\n".join(changed),
    )


def invented() -> Scenario:
    """The prompt shows two records; the values of the others are new."""
    made = [person.record for person in people(16)]
    return Scenario("Write records such as these:\n" + ",\n".join(made[:2]) + ",\n", ",\n".join(made[2:]))


def quotes() -> Scenario:
    """Four of five tokens of the answer are quoted, two lines at a time."""
    document = (HERE.parent / "localllm/ARCHITECTURE.md").read_text("utf-8").splitlines()
    lines = [line for line in document if len(line) > 90][:16]
    pairs = ["\n".join(lines[place : place + 2]) for place in (4, 10, 0, 12, 6, 2, 8, 14)]
    said = [f"It says: {pair}\nThat is {text(6, number)}.\n" for number, pair in enumerate(pairs)]
    return Scenario("\n".join(lines) + "\nWhat does it say?\n", "".join(said))


SCENARIOS = {
    "random": words_by_lot, "hostile": hostile, "edit": edit, "json": records, "quotes": quotes, "invented": invented,
}  # fmt: skip


def base_model(peers: Path, vocabulary: Path) -> Path:
    model = peers / MODEL
    if not model.exists():
        full = model.with_name(model.name.replace("Q8_0", "f16"))
        write_scripted_model(full, vocabulary)
        run(peers / "bin/llama-quantize", full, model, "Q8_0")
        full.unlink()
    return model


def llama_server(peers: Path, model: Path, options: list[str]) -> AbstractContextManager[str]:
    """Run llama-server; yields its URL."""
    return started(peers, model, "-np", SLOTS, "-c", SLOTS * CTX, "-t", THREADS, *options)


class Answer(NamedTuple):
    """An answer and its figures."""

    token_s: float
    """Seconds per token after the first."""
    text: str
    accepted: int
    rejected: int


class Party(NamedTuple):
    """A server, and further fields of its requests."""

    url: str
    key: str
    extra: dict[str, Any]

    async def events(self, prompt: list[int]) -> AsyncIterator[dict[str, Any]]:
        parts = urlsplit(self.url)
        body = {
            "prompt": prompt, "max_tokens": OUT, "temperature": 0, "ignore_eos": True, "stream": True,
            "stream_options": {"include_usage": True}, **self.extra,
        }  # fmt: skip
        encoded = json.dumps(body).encode()
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port, limit=1 << 24)
        try:
            head = (
                f"POST /v1/completions HTTP/1.1\r\nHost: {parts.netloc}\r\nAuthorization: Bearer {self.key}\r\n"
                f"Connection: close\r\nContent-Type: application/json\r\nContent-Length: {len(encoded)}\r\n\r\n"
            )
            writer.write(head.encode() + encoded)
            if b" 200 " not in await reader.readline():
                raise RuntimeError((await reader.read()).decode(errors="replace")[-500:])
            while line := await reader.readline():
                if line.startswith(b"data: {"):
                    yield json.loads(line[6:])
        finally:
            writer.close()

    async def answer(self, prompt: list[int]) -> Answer:
        times, pieces = [], []
        usage: dict[str, Any] = {}
        async for event in self.events(prompt):
            usage = event.get("usage") or usage
            if piece := "".join(choice["text"] for choice in event.get("choices", ())):
                times.append(time.perf_counter())
                pieces.append(piece)
        details = usage.get("completion_tokens_details") or {}
        return Answer(
            (times[-1] - times[0]) / (OUT - 1),
            "".join(pieces),
            details.get("accepted_prediction_tokens", 0),
            details.get("rejected_prediction_tokens", 0),
        )

    async def answers(self, prompts: list[list[int]]) -> list[Answer]:
        return list(await asyncio.gather(*(self.answer(prompt) for prompt in prompts)))


class Asked(NamedTuple):
    """A scenario in tokens."""

    prompt: list[int]
    answer: list[int]

    def streams(self, count: int) -> list[list[int]]:
        """Prompts with the beginning of the answer, one per stream."""
        return [self.prompt + self.answer[: number * STAGGER] for number in range(count)]

    def texts(self, count: int, client: Client, model: str) -> list[str]:
        starts = [number * STAGGER for number in range(count)]
        return [client.detokenize(model, self.answer[start : start + OUT]) for start in starts]


def compare(asked: Asked, streams: int, rounds: int, parties: dict[str, Party], expected: list[str]) -> dict[str, Any]:
    """Medians of all rounds except the first."""
    found: dict[str, list[float]] = {name: [] for name in parties}
    guesses: list[tuple[int, int]] = []
    order = list(parties)
    for number in range(rounds + 1):
        random.shuffle(order)
        for name in order:
            answers = asyncio.run(parties[name].answers(asked.streams(streams)))
            for each, text_of in zip(answers, expected, strict=True):
                assert each.text.strip() == text_of.strip(), f"{name} gave another answer"
            time.sleep(SETTLED_S)
            if number:
                found[name].append(1e3 * statistics.median(each.token_s for each in answers))
            if number and name == "ours":
                guesses += [(each.accepted, each.rejected) for each in answers]
    row: dict[str, Any] = {f"{name}_ms": round(statistics.median(times), 3) for name, times in found.items()}
    for name, times in found.items():
        if name != "ours":
            row[f"of {name}"] = round(
                statistics.median(theirs / mine for theirs, mine in zip(times, found["ours"], strict=True)), 3
            )
    for name, counts in zip(("accepted", "rejected"), zip(*guesses, strict=True), strict=True):
        row[name] = round(sum(counts) / len(counts) / OUT, 3)
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
    if arguments.only == "draft":
        from benchmarks.drafts import measure

        measure(peers, arguments.streams, arguments.rounds, alone=arguments.alone)
        return
    vocabulary = unpack_source(peers) / "models/ggml-vocab-qwen2.gguf"
    num_tokens = len(gguf.GGUFReader(vocabulary).fields["tokenizer.ggml.tokens"].contents())
    model = base_model(peers, vocabulary)
    figures: dict[str, Any] = {}
    options = [str(model), f"--slots={SLOTS}", f"--ctx={CTX}", f"--threads={THREADS}", "--log-level=warning"]
    for name, scenario in SCENARIOS.items():
        if arguments.only not in name:
            continue
        made = scenario()
        with Sidecar.start([*options, "--slots=1"]) as ours:  # only its tokenizer is needed
            client, id = Client(ours.url, ours.token or ""), ours.ready.model or ""
            asked = Asked(*(client.tokenize(id, part, add_special=False) for part in made))
        assert len(asked.answer) >= OUT + max(arguments.streams) * STAGGER, f"{name} is too short"
        write_script(model, len(asked.prompt), asked.answer, num_tokens)
        with contextlib.ExitStack() as stack:
            ours = stack.enter_context(Sidecar.start(options))
            client, id = Client(ours.url, ours.token or ""), ours.ready.model or ""
            parties = {
                "ours": Party(ours.url, ours.token or "", {}),
                "without": Party(ours.url, ours.token or "", {"speculative": False}),
            }
            for peer, its_options in {} if arguments.alone else PEER_OPTIONS.items():
                url = stack.enter_context(llama_server(peers, model, its_options))
                parties[peer] = Party(url, "none", {})
            for streams in arguments.streams:
                expected = asked.texts(streams, client, id)
                row = compare(asked, streams, arguments.rounds, parties, expected)
                figures.setdefault(f"{streams} streams", {})[name] = row
                print(f"{streams} x {name:8}", row, flush=True)
    save("speculation", figures)


if __name__ == "__main__":
    main()
