"""Serving over HTTP, against llama-server on the same file with equal slots, threads and context; in turns.

    python -m benchmarks.serving PEERS [--rounds N] [--only SCENARIO] [--threads N] [--serve=OPTION ...]

PEERS is the folder of `benchmarks.peers`. Both servers of a group run at the same time, and requests go to one at a
time: idle servers sleep. Prints each scenario's median figures of both servers and their ratio (above 1: localllm is
better). Also prints the ceiling, the library's own figure against llama-server's, without sampling or serving: for
distinct prompts that of llama-batched-bench, for crowds that of `benchmarks.crowds`, where every step is planned in
advance.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.decode import raw
from benchmarks.peer_server import started
from benchmarks.peers import MODEL, UNGUESSED
from benchmarks.results import save
from localllm.client.sidecar import Sidecar

SLOTS, THREADS, OUT = 8, 2, 96
TOP_P = {"temperature": 0.8, "top_p": 0.95, "top_k": 0, "min_p": 0}
LOGPROBS = {"temperature": 1, "logprobs": True, "top_logprobs": 5}


class Scenario(NamedTuple):
    """Arguments of `benchmarks.load`, and the figure that counts."""

    name: str
    ctx: int
    load: list[str]
    figure: str
    more_is_better: bool = True
    sequences: int = 0
    """Number of concurrent sequences for llama-batched-bench; 0: it cannot run this scenario."""
    crowd: tuple[str, ...] = ()
    """Arguments of `benchmarks.crowds`, which count tokens as llama-server does; (): it cannot run this scenario."""

    def ratio(self, mine: dict[str, float], other: dict[str, float]) -> float:
        """Of the figure that counts; above 1: `mine` is better."""
        one, two = mine[self.figure], other[self.figure]
        return round(one / two if self.more_is_better else two / one, 3)


def load(
    kind: str, concurrency: int, prompt: int, out: int, extra: dict[str, Any] | None = None, requests: int = 3
) -> list[str]:
    return [
        "--scenario", kind, "--concurrency", str(concurrency), "--requests", str(max(requests, concurrency)),
        "--prompt-tokens", str(prompt), "--max-tokens", str(out), "--extra", json.dumps(extra or {}),
    ]  # fmt: skip


def crowd(kind: str, requests: int, prefix: int, message: int, out: int) -> tuple[str, ...]:
    lengths = {"requests": requests, "prefix": prefix, "message": message, "out": out}
    return (kind, *(f"--{name}={value}" for name, value in lengths.items()))


SCENARIOS = (
    Scenario("1 stream", 2048, load("distinct", 1, 64, OUT), "tokens_per_s", sequences=1),
    Scenario("8 streams, greedy", 2048, load("distinct", 8, 64, OUT), "tokens_per_s", sequences=8),
    Scenario("8 streams, top_p", 2048, load("distinct", 8, 64, OUT, TOP_P), "tokens_per_s", sequences=8),
    Scenario("8 streams, log-probabilities", 2048, load("distinct", 8, 64, OUT, LOGPROBS), "tokens_per_s", sequences=8),
    Scenario(
        "16 at once, 700 tokens shared",
        2048,
        load("shared", 16, 700, 16),
        "tokens_per_s",
        crowd=crowd("shared", 16, 708, 17, 16),
    ),
    Scenario(
        "12 chats of 4 turns", 2048, load("turns", 12, 200, 24), "tokens_per_s", crowd=crowd("turns", 12, 205, 27, 24)
    ),
    Scenario("12 chats of 4 turns, answers of 12 to 36 tokens", 2048, load("uneven", 12, 200, 24), "tokens_per_s"),
    Scenario(
        "32 at once, 2,048 tokens shared",
        3072,
        load("shared", 32, 2048, 8),
        "ttft_max_ms",
        False,
        crowd=crowd("shared", 32, 2056, 17, 8),
    ),
    Scenario("a prompt of 1,000 alone", 8192, load("distinct", 1, 1000, 4), "ttft_p50_ms", False, sequences=1),
    Scenario(
        "a prompt of 6,000 alone", 8192, load("distinct", 1, 6000, 4, requests=1), "ttft_p50_ms", False, sequences=1
    ),
    Scenario("4 streams, a 6k prompt arrives", 8192, load("stall", 1, 6000, 1500), "gap_max_during_ms", False),
)


def llama_server(peers: Path, model: Path, ctx: int, threads: int = THREADS) -> AbstractContextManager[str]:
    """Run llama-server; yields its URL."""
    return started(peers, model, "-np", SLOTS, "-c", SLOTS * ctx, "-t", threads)


def measure(url: str, key: str, model: str, arguments: list[str], seed: int) -> dict[str, float]:
    """Run the load generator once, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.load", url, f"--key={key}", "--model", model, "--seed", str(seed)]
    done = subprocess.run([*command, *arguments], check=True, capture_output=True, text=True)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def unserved(scenario: Scenario, peers: Path, model: Path, prompt: int, threads: int) -> dict[str, float]:
    """What the library alone takes for the scenario's sequences, by llama-batched-bench."""
    out = OUT if scenario.figure == "tokens_per_s" else 1
    bare = raw(peers, model, scenario.sequences, prompt, out, threads)
    return {"tokens_per_s": scenario.sequences * out / bare["t"], "ttft_p50_ms": 1000 * bare["t_pp"]}


def planned_crowd(model: Path, arguments: tuple[str, ...], threads: int) -> dict[str, float]:
    """`benchmarks.crowds`, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.crowds", str(model), *arguments, f"--threads={threads}"]
    figures: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return figures


def compare(
    scenario: Scenario, theirs: str, ours: Sidecar, peers: Path, *, rounds: int, threads: int
) -> dict[str, Any]:
    """All figures of both servers, and of the figure that counts the ratio of the medians and those of the rounds."""
    path = peers / MODEL
    runs: dict[str, list[dict[str, float]]] = {"llama-server": [], "localllm": []}
    ceilings: list[float] = []
    for _ in range(rounds):
        seed = random.randrange(1 << 30)  # the same prompts for both, other ones every round
        runs["llama-server"].append(measure(theirs, "none", path.stem, scenario.load, seed))
        runs["localllm"].append(measure(ours.url, ours.token or "", path.stem, scenario.load, seed))
        if scenario.sequences:
            served = runs["llama-server"][-1]
            bare = unserved(scenario, peers, path, round(served["prompt_tokens"]), threads)
            ceilings.append(scenario.ratio(bare, served))
        if scenario.crowd:
            ceilings.append(scenario.ratio(planned_crowd(path, scenario.crowd, threads), runs["llama-server"][-1]))
    medians = {
        name: {
            figure: round(statistics.median(each[figure] for each in figures), 3)
            for figure, value in figures[0].items()
            if isinstance(value, int | float)
        }
        for name, figures in runs.items()
    }
    mine, other = medians["localllm"], medians["llama-server"]
    pairs = zip(runs["localllm"], runs["llama-server"], strict=True)
    found: dict[str, Any] = {
        "ratio": scenario.ratio(mine, other),
        "paired": sorted(scenario.ratio(*pair) for pair in pairs),
    }
    if ceilings:
        found["ceiling"] = round(statistics.median(ceilings), 3)
    print(f"{scenario.name}: {scenario.figure} {other[scenario.figure]} -> {mine[scenario.figure]}", found, flush=True)
    return {**found, "counts": scenario.figure, **medians}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("peers", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=THREADS, help="fewer than cores leave one to the servers")
    parser.add_argument("--only", default="", help="scenarios with this in their name")
    parser.add_argument("--serve", action="append", default=[], metavar="OPTION", help="for `localllm serve`")
    arguments = parser.parse_args()
    peers: Path = arguments.peers.resolve()
    model = peers / MODEL
    chosen = [scenario for scenario in SCENARIOS if arguments.only in scenario.name]
    figures: dict[str, Any] = {}
    for ctx in sorted({scenario.ctx for scenario in chosen}):
        options = [
            str(model),
            f"--slots={SLOTS}",
            f"--ctx={ctx}",
            f"--threads={arguments.threads}",
            "--log-level=warning",
            UNGUESSED,
        ]
        options += arguments.serve
        with llama_server(peers, model, ctx, arguments.threads) as theirs, Sidecar.start(options) as ours:
            for scenario in chosen:
                if scenario.ctx == ctx:
                    figures[scenario.name] = compare(
                        scenario, theirs, ours, peers, rounds=arguments.rounds, threads=arguments.threads
                    )
        # Saved after every group, which takes minutes, so that a failure loses only one.
        settings = {"rounds": arguments.rounds, "threads": arguments.threads, "serve": arguments.serve}
        save(f"serving-{model.stem}", {**settings, "scenarios": figures})


if __name__ == "__main__":
    main()
