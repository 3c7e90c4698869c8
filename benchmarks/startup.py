"""Cold start: `localllm run FILE PROMPT` to the first byte of the answer, against llama-bench's load of the same file.

    python -m benchmarks.startup PEERS [MODEL.gguf]

llama-bench is timed for its whole run with one prompt token, without warm-up: process start, load, one decode, exit.
Both run in turns, so that a busy moment affects both; medians and their ratio are stored.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import time
from pathlib import Path

from benchmarks.peers import MODEL
from benchmarks.results import save

ROUNDS = 7


def run_to_first_byte(model: Path) -> float:
    """Seconds from starting the process to the first byte on its stdout."""
    started = time.perf_counter()
    command = ["localllm", "run", str(model), "Once upon a time", "--max-tokens", "8", "--temperature", "0", "--raw"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        first = process.stdout.read(1)
        elapsed = time.perf_counter() - started
        process.stdout.read()
    if process.returncode != 0 or not first:
        raise RuntimeError(f"localllm run ended with {process.returncode}")
    return elapsed


def llama_bench(peers: Path, model: Path, threads: int) -> float:
    """Seconds of a whole run of llama-bench for one token."""
    started = time.perf_counter()
    subprocess.run(
        [peers / "bin/llama-bench", "-m", model, "-p", "1", "-n", "0", "-r", "1", "--no-warmup", "-t", str(threads)],
        check=True,
        capture_output=True,
    )
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("peers", type=Path)
    parser.add_argument("model", type=Path, nargs="?")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    model = arguments.model or arguments.peers / MODEL
    run_to_first_byte(model)  # stores the self-test's result and reads the file into the page cache
    ours, theirs = [], []
    for _ in range(ROUNDS):
        ours.append(run_to_first_byte(model))
        theirs.append(llama_bench(arguments.peers, model, arguments.threads))
    run_s, bench_s = statistics.median(ours), statistics.median(theirs)
    save(
        f"startup-{model.stem}",
        {
            "model": model.name,
            "model_bytes": model.stat().st_size,
            "run_to_first_byte_s": round(run_s, 3),
            "llama_bench_one_token_s": round(bench_s, 3),
            "more_than_llama_bench_s": round(run_s - bench_s, 3),
            "ratio": round(run_s / bench_s, 2),
        },
    )


if __name__ == "__main__":
    main()
