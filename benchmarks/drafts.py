"""The gain of a draft model, by acceptance: against localllm without it, and llama-server with the same draft.

    python -m benchmarks.speculation PEERS --only draft [--streams 1] [--rounds N] [--alone]

Text from random weights cannot be guessed. So the target, with 1.0 billion weights that are all multiplied, writes a
script stored in its position embeddings (`scripted_model`). The draft, with a tenth of the weights, writes the same
script with random tokens in places, as many as the acceptance demands. Such a draft is always confident and errs
independently at each position, so wrong guesses cannot be foreseen; real drafts err where they are unsure, which helps
servers that stop there. The script is random words, so that nothing can be looked up.
"""

from __future__ import annotations

import contextlib
import random
from pathlib import Path
from typing import Any

import gguf

from benchmarks import speculation
from benchmarks.peers import run, unpack_source
from benchmarks.results import save
from benchmarks.scripted_model import Shape, write_script, write_scripted_model
from localllm.client.api import Client
from localllm.client.sidecar import Sidecar

TARGET, DRAFT = Shape(28, 1536, 24), Shape(8, 512, 8)
"""793 and 25 million weights in layers, 233 and 78 in the output head (152,000 tokens); in all 1,026 and 103."""
QUANT = "Q4_0"
"""llama.cpp computes four rows of it together on CPUs with AVX2 (1, 4, 8, 16 rows of the target, one thread of an
AMD EPYC: 34, 76, 143, 190 ms; Q4_K_M 39, 120, 216, 235; Q8_0 45, 225, 247, 364): a draft pays off if rows are cheap."""
ACCEPTANCES = (0.8, 0.6, 0.0)
PEER_OPTIONS = {
    "llama-server": ["--spec-type", "draft-simple"],
    "llama-server, 6": ["--spec-type", "draft-simple", "--spec-draft-n-max", "6"],
}
"""With the default of three guesses per step, and with six."""


def scripted(peers: Path, name: str, shape: Shape, vocabulary: Path) -> Path:
    model = peers / f"models/{name}-{QUANT}.gguf"
    if not model.exists():
        full = model.with_name(f"{name}-f16.gguf")
        write_scripted_model(full, vocabulary, shape)
        run(peers / "bin/llama-quantize", full, model, QUANT)
        full.unlink()
    return model


def with_errors(tokens: list[int], acceptance: float, num_tokens: int) -> list[int]:
    """Replace random tokens, so that about `acceptance` of them stay."""
    chooser = random.Random(7)
    return [token if chooser.random() < acceptance else chooser.randrange(num_tokens) for token in tokens]


def measure(peers: Path, streams: list[int], rounds: int, *, alone: bool) -> None:
    vocabulary = unpack_source(peers) / "models/ggml-vocab-qwen2.gguf"
    num_tokens = len(gguf.GGUFReader(vocabulary).fields["tokenizer.ggml.tokens"].contents())
    target = scripted(peers, "scripted-1b", TARGET, vocabulary)
    draft = scripted(peers, "scripted-100m", DRAFT, vocabulary)
    made = speculation.words_by_lot()
    options = [
        str(target), f"--slots={speculation.SLOTS}", f"--ctx={speculation.CTX}", f"--threads={speculation.THREADS}",
        "--log-level=warning",
    ]  # fmt: skip
    with Sidecar.start([str(draft), "--slots=1", "--log-level=warning"]) as ours:  # only its tokenizer is needed
        client, id = Client(ours.url, ours.token or ""), ours.ready.model or ""
        asked = speculation.Asked(*(client.tokenize(id, part, add_special=False) for part in made))
    write_script(target, len(asked.prompt), asked.answer, num_tokens)
    figures: dict[str, Any] = {}
    for acceptance in ACCEPTANCES:
        write_script(draft, len(asked.prompt), with_errors(asked.answer, acceptance, num_tokens), num_tokens)
        with contextlib.ExitStack() as stack:
            ours = stack.enter_context(Sidecar.start([*options, f"--draft={draft}"]))
            client, id = Client(ours.url, ours.token or ""), ours.ready.model or ""
            parties = {
                "ours": speculation.Party(ours.url, ours.token or "", {}),
                "without": speculation.Party(ours.url, ours.token or "", {"speculative": False}),
            }
            for peer, its_options in {} if alone else PEER_OPTIONS.items():
                arguments = ["-md", str(draft), "-td", str(speculation.THREADS), *its_options]
                url = stack.enter_context(speculation.llama_server(peers, target, arguments))
                parties[peer] = speculation.Party(url, "none", {})
            for count in streams:
                expected = asked.texts(count, client, id)
                row = speculation.compare(asked, count, rounds, parties, expected)
                figures.setdefault(f"{count} streams", {})[f"acceptance {acceptance:g}"] = row
                print(f"{count} x {acceptance:g}", row, flush=True)
    save("drafts", figures)
