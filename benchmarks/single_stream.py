"""One stream end to end: tokens/s of `localllm run` against llama-bench on the same file and threads.

    python -m benchmarks.single_stream PEERS [MODEL.gguf]

`run` is timed from outside: the time for 1 + N tokens less the time for 1, so that every process, pipe and HTTP chunk
between the model and the terminal counts, but not the start. llama-bench generates N tokens without a prompt. Both run
in turns; the ratio is the median over the rounds, since a machine's speed drifts within minutes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import time
from pathlib import Path

from benchmarks.peers import MODEL
from benchmarks.results import save

ROUNDS = 9
NUM_TOKENS = 192


def run_seconds(model: Path, threads: int, num_tokens: int) -> float:
    command = [
        "localllm", "run", str(model), "Once upon a time", "--raw", "--temperature", "0", "--threads", str(threads),
        "--max-tokens", str(num_tokens),
    ]  # fmt: skip
    started = time.perf_counter()
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def llama_bench_tokens_per_s(peers: Path, model: Path, threads: int) -> float:
    done = subprocess.run(
        [
            peers / "bin/llama-bench", "-m", model, "-p", "0", "-n", str(NUM_TOKENS), "-r", "1", "-t", str(threads),
            "-o", "json",
        ],
        check=True,
        capture_output=True,
        text=True,
    )  # fmt: skip
    return float(json.loads(done.stdout)[0]["avg_ts"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("peers", type=Path)
    parser.add_argument("model", type=Path, nargs="?")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    model, threads = arguments.model or arguments.peers / MODEL, arguments.threads
    ours, raw = [], []
    for _ in range(ROUNDS):
        seconds = run_seconds(model, threads, NUM_TOKENS + 1) - run_seconds(model, threads, 1)
        ours.append(NUM_TOKENS / seconds)
        raw.append(llama_bench_tokens_per_s(arguments.peers, model, threads))
    run_rate, raw_rate = statistics.median(ours), statistics.median(raw)
    ratios = sorted(mine / theirs for mine, theirs in zip(ours, raw, strict=True))
    save(
        f"single_stream-{model.stem}",
        {
            "model": model.name,
            "threads": threads,
            "run_tokens_per_s": round(run_rate, 1),
            "llama_bench_tokens_per_s": round(raw_rate, 1),
            "ratio": round(statistics.median(ratios), 3),
            "ratio_quartiles": [round(ratios[len(ratios) // 4], 3), round(ratios[-1 - len(ratios) // 4], 3)],
        },
    )


if __name__ == "__main__":
    main()
