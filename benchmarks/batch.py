"""`localllm batch` and `LLM.generate` against the model's process alone: what each short prompt costs.

    python -m benchmarks.batch [MODEL] [--small N] [--large N]

Two sizes of file, so that starting and loading, which cost both the same, cancel out: figures are differences per
prompt. The CPU time of the worker, which computes, stands beside that of everything: where all cores compute, the
former's share of the latter is the share of the engine's own rate that a batch can have.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from localllm import LLM

MAX_TOKENS = 16
SHARED = "You are a patient teacher. Explain things in short words, with one example, and never guess. " * 40
"""An instruction of about 700 tokens."""


class Cost(NamedTuple):
    """Of one run, in seconds."""

    wall: float
    worker: float
    """CPU time of the model's process and its children; 0: not known apart."""
    everything: float
    """CPU time of all processes."""

    def per_prompt(self, smaller: Cost, num_more: int) -> Cost:
        return Cost(*((more - less) / num_more for more, less in zip(self, smaller, strict=True)))


def chats(count: int, *, shared: bool) -> list[list[dict[str, str]]]:
    """Short prompts, with or without a long instruction that all share."""
    system = [{"role": "system", "content": SHARED}] if shared else []
    return [[*system, {"role": "user", "content": f"What is {n} plus {n % 7}?"}] for n in range(count)]


def _cpu_s(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def generated(model: str, count: int, *, shared: bool, slots: int) -> Cost:
    """By `LLM.generate`, in this process."""
    own, children, began_s = _cpu_s(resource.RUSAGE_SELF), _cpu_s(resource.RUSAGE_CHILDREN), time.monotonic()
    with LLM(model, slots=slots) as llm:
        for _ in llm.generate(chats(count, shared=shared), max_tokens=MAX_TOKENS, temperature=0):
            pass
    worker = _cpu_s(resource.RUSAGE_CHILDREN) - children
    return Cost(time.monotonic() - began_s, worker, worker + _cpu_s(resource.RUSAGE_SELF) - own)


def batched(model: str, count: int, *, shared: bool, slots: int) -> Cost:
    """By `localllm batch`, with a server of its own."""
    with tempfile.TemporaryDirectory() as folder:
        lines, out = Path(folder) / "in.jsonl", Path(folder) / "out.jsonl"
        with lines.open("w") as file:
            for number, messages in enumerate(chats(count, shared=shared)):
                body = {"messages": messages, "max_tokens": MAX_TOKENS, "temperature": 0}
                line = {"custom_id": str(number), "method": "POST", "url": "/v1/chat/completions", "body": body}
                file.write(json.dumps(line) + "\n")
        children, began_s = _cpu_s(resource.RUSAGE_CHILDREN), time.monotonic()
        command = [sys.executable, "-P", "-m", "localllm", "batch", str(lines), "-o", str(out), "-m", model]
        command += ["--slots", str(slots)]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        cost = _cpu_s(resource.RUSAGE_CHILDREN) - children
        assert out.read_bytes().count(b"\n") == count
        return Cost(time.monotonic() - began_s, 0.0, cost)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("model", nargs="?", default="demo")
    parser.add_argument("--small", type=int, default=200)
    parser.add_argument("--large", type=int, default=2000)
    parser.add_argument("--slots", type=int, default=8)
    args = parser.parse_args()
    for shared in (False, True):
        kind = "700 shared tokens" if shared else "short"
        print(f"{kind}, {args.slots} slots, ms per prompt: wall, worker, everything")
        costs: dict[str, Cost] = {}
        for name, run in (("generate", generated), ("batch", batched)):
            small = run(args.model, args.small, shared=shared, slots=args.slots)
            large = run(args.model, args.large, shared=shared, slots=args.slots)
            costs[name] = large.per_prompt(small, args.large - args.small)
            print(f"  {name:9}", *(f"{1000 * seconds:8.2f}" for seconds in costs[name]))
        worker = costs["generate"].worker
        print("  worker / everything:", *(f"{name} {worker / cost.everything:.2f}" for name, cost in costs.items()))


if __name__ == "__main__":
    main()
