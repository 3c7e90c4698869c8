"""Gains and costs of a model's own NextN layers (multi-token prediction), and of drafts: EAGLE-3, DSpark, an assistant.

    python -m benchmarks.heads [--rounds 3] [--only EAGLE-3]

In turns, on the same weights: a server without heads (`--mtp=off`), one with heads whose requests guess by them alone,
and the same with requests that guess nothing, which shows the cost of extracting vectors. Text from random weights
cannot be guessed. So in one model the layers add little to the embeddings (`scale`), and the next token follows from
the last one alone, which the heads see, too; a high temperature makes them wrong more often. In another model, the
heads are almost always wrong. The drafts see their target's embeddings, too. Acceptances are printed beside the times.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from gguf import GGMLQuantizationType

from benchmarks.results import save
from localllm.client.sidecar import Sidecar
from tests.models.assistant import write_assistant, write_gemma4
from tests.models.dflash import write_dflash
from tests.models.eagle import HEAD, write_eagle
from tests.models.families import GatedShape, write_gated_delta
from tests.models.maker import write_llama

SHAPE = GatedShape(
    n_layer=24, n_embd=1024, n_ff=2816, n_head=8, n_kv=2, head_size=128, state_size=64, n_state_heads=16,
    dtype=GGMLQuantizationType.Q4_0,
)  # fmt: skip
"""About 0.3 billion weights, a 25th of them in the head. With Q4_0, most CPUs compute four rows together."""
MODELS = {"can be guessed": {"scale": 0.05, "sees_tokens": True}, "cannot": {}}
TEMPERATURES = {
    "can be guessed": (0.0, 0.5, 1.0),
    "cannot": (0.0,),
    "EAGLE-3": (0.0, 0.5, 1.0),
    "DSpark": (0.0, 0.5, 1.0),
    "assistant": (0.0, 0.5, 1.0),
}
WIDTH, TARGET_LAYERS = 1024, (2, 12, 21)
NUM_TOKENS, LONG = 128, 8
PROMPT = "one two three four five six seven eight nine ten "
CTX, THREADS = 512, 2


@contextlib.contextmanager
def served(model: Path, *options: str) -> Iterator[httpx.Client]:
    arguments = [str(model), "--slots=1", f"--ctx={CTX}", f"--threads={THREADS}", "--log-level=warning", *options]
    with Sidecar.start(arguments) as one:
        headers = {"Authorization": f"Bearer {one.token}"}
        with httpx.Client(base_url=one.url, headers=headers, timeout=600) as client:
            yield client


def ask(client: httpx.Client, name: str, **fields: Any) -> tuple[float, dict[str, Any]]:
    """Send a request; returns the seconds and the answer."""
    asked = {"model": name, "ignore_eos": True, "cache_prompt": False, **fields}
    started_s = time.perf_counter()
    response = client.post("/v1/completions", json=asked)
    took_s = time.perf_counter() - started_s
    response.raise_for_status()
    return took_s, response.json()


class Case(NamedTuple):
    """A model, how it is served without and with a source of guesses, and that source."""

    model: Path
    without: tuple[str, ...]
    options: tuple[str, ...]
    source: str


def made(kind: str, folder: Path) -> Case:
    model, draft = folder / f"{kind.replace(' ', '-')}.gguf", folder / "draft.gguf"
    if kind in MODELS:
        write_gated_delta(model, n_nextn=1, shape=SHAPE, **MODELS[kind])  # type: ignore[arg-type]
        return Case(model, ("--mtp=off",), (), "mtp")
    size: dict[str, Any] = {"n_embd": WIDTH, "n_ff": 2816, "ctx": 1024, "dtype": GGMLQuantizationType.Q4_0}
    if kind == "assistant":
        del size["ctx"]
        heads: dict[str, Any] = {"sizes": (128, 64), "window": 128, "n_head": 8}
        write_gemma4(model, n_layer=24, scale=0.01, **heads, **size)
        write_assistant(
            draft, is_good=True, width=WIDTH + 32, target_width=WIDTH, n_ff=1024, dtype=size["dtype"], **heads
        )
        return Case(model, (), (f"--draft={draft}",), "draft")
    write_llama(model, n_layer=24, n_head=16, n_kv=4, scale=0.05, **size)
    good: dict[str, Any] = {"layers": TARGET_LAYERS, "is_good": True, "n_head": WIDTH // HEAD, **size}
    if kind == "DSpark":
        write_dflash(draft, form="dspark", **good)
    else:
        write_eagle(draft, has=(), target_width=WIDTH, **good)
    return Case(model, (), (f"--draft={draft}",), "draft")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=TEMPERATURES)
    given = parser.parse_args()
    rounds: int = given.rounds
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for kind in TEMPERATURES if given.only is None else (given.only,):
            model, off, on, source = made(kind, Path(folder))
            with served(model, *off) as without, served(model, *on) as heads:
                parties = {
                    "without": (without, {"speculative": False}),
                    "heads": (heads, {"speculative": {"sources": [source]}}),
                    "heads, none asked for": (heads, {"speculative": False}),
                }
                for temperature in TEMPERATURES[kind]:
                    figures[f"{kind}, temperature {temperature:g}"] = row = compare(
                        parties, model.stem, temperature, rounds
                    )
                    print(kind, temperature, json.dumps(row), flush=True)
    save("heads", figures)


def compare(parties: dict[str, Any], name: str, temperature: float, rounds: int) -> dict[str, Any]:
    """Medians of milliseconds per token, for prompt and answer, and the share of correct guesses."""
    runs: dict[str, list[dict[str, float]]] = {party: [] for party in parties}
    for seed in range(-1, rounds):  # the first round is not counted
        texts = set()
        turns = deque(parties.items())
        turns.rotate(seed)  # so that no party always follows the same one
        for party, (client, fields) in turns:
            sampled = {"temperature": temperature, "seed": seed + 1, "max_tokens": NUM_TOKENS, **fields}
            short_s, answer = ask(client, name, prompt=PROMPT, **sampled)
            texts.add(answer["choices"][0]["text"])
            usage = answer["usage"]["completion_tokens_details"]
            long_s, prefilled = ask(client, name, prompt=PROMPT * LONG, **{**sampled, "max_tokens": 1})
            accepted, rejected = usage["accepted_prediction_tokens"], usage["rejected_prediction_tokens"]
            if seed >= 0:
                runs[party].append({
                    "ms_per_token": 1e3 * short_s / NUM_TOKENS,
                    "prompt_ms_per_token": 1e3 * long_s / prefilled["usage"]["prompt_tokens"],
                    "guesses": accepted + rejected,
                    "acceptance": accepted / max(accepted + rejected, 1),
                })  # fmt: skip
        assert len(texts) == 1 or seed >= 0 or temperature, "guesses changed a greedy text"
    found: dict[str, Any] = {
        party: {key: round(statistics.median(run[key] for run in of), 3) for key in of[0]} for party, of in runs.items()
    }
    plain = found["without"]
    found["speedup"] = round(plain["ms_per_token"] / found["heads"]["ms_per_token"], 3)
    found["cost of none"] = round(found["heads, none asked for"]["ms_per_token"] / plain["ms_per_token"] - 1, 3)
    found["cost in prompts"] = round(found["heads"]["prompt_ms_per_token"] / plain["prompt_ms_per_token"] - 1, 3)
    return found


if __name__ == "__main__":
    main()
