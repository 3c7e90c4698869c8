"""Beside other work: tokens/s and longest gap of localllm, of localllm with one thread, and of llama-server.

    python -m benchmarks.busy PEERS [--rounds N] [--seconds S] [--only CONDITION] [--ctx N]

One stream beside 0, 1 and 2 busy processes, niced or not, each in a session of its own, since Linux shares cores among
sessions first; and an agent, whose tools compute between its requests and have ended before each. All servers run at
the same time, and requests go to one at a time, in turns: idle servers sleep.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.load import Messages, Server, Timed, text, user
from benchmarks.peers import MODEL, UNGUESSED
from benchmarks.results import save
from benchmarks.serving import THREADS, llama_server
from localllm.client.sidecar import Sidecar

MAX_TOKENS = 1500
SETTLED_S = 0.5
"""Time that other work runs before a request is sent."""
ENDED_S = 1.0
"""Pause after a cancelled request, so that the server's last step does not slow the next server."""


class Condition(NamedTuple):
    """The other work."""

    name: str
    num_busy: int = 0
    niced: bool = False


CONDITIONS = (
    Condition("quiet"),
    Condition("1 busy", 1),
    Condition("2 busy", 2),
    Condition("1 niced", 1, niced=True),
    Condition("2 niced", 2, niced=True),
)
AGENT = "an agent's tools"
TURNS, TURN_WORDS, TURN_TOKENS = 8, 100, 16
TOOL = "import time\nended_s = time.perf_counter() + 0.3\nwhile time.perf_counter() < ended_s: sum(range(1000))"

BUSY = "import os; parent = os.getppid()\nwhile os.getppid() == parent: sum(range(10**6))"
"""Ends with its parent, even if that is killed."""


@contextlib.contextmanager
def beside(condition: Condition) -> Iterator[None]:
    """Run the other work in this context."""
    command = [*(["nice", "-n", "19"] if condition.niced else []), sys.executable, "-c", BUSY]
    processes = [subprocess.Popen(command, start_new_session=True) for _ in range(condition.num_busy)]
    try:
        time.sleep(SETTLED_S if processes else 0)
        yield
    finally:
        for process in processes:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()


async def stream(server: Server, seconds: float, seed: int) -> dict[str, float]:
    """Figures of one answer over `seconds` after its first token. A part of a stream may hold several tokens, which the
    server counts."""
    times: list[float] = []
    counts: list[int] = []
    events = server.events([user(text(48, seed))], MAX_TOKENS)
    started_s = time.perf_counter()
    async for event in events:
        if any(choice["delta"].get("content") for choice in event.get("choices", ())):
            times.append(time.perf_counter())
            counts.append(event["timings"]["predicted_n"])
            if times[-1] - times[0] > seconds:
                break
    await events.aclose()  # type: ignore[attr-defined]  # an async generator
    gaps = [after - before for before, after in itertools.pairwise(times)]
    return {
        "tokens_per_s": (counts[-1] - counts[0]) / sum(gaps),
        "gap_max_ms": 1e3 * max(gaps),
        "ttft_ms": 1e3 * (times[0] - started_s),
    }


async def agent(server: Server, seed: int) -> dict[str, float]:
    """Figures of a conversation of `TURNS` turns, with a tool after each; `ttft_ms` is the median."""
    messages: Messages = []
    answers: list[Timed] = []
    for turn in range(TURNS):
        messages.append(user(text(TURN_WORDS, TURNS * seed + turn)))
        answers.append(await server.ask(messages, TURN_TOKENS))
        messages.append({"role": "assistant", "content": answers[-1].text})
        tool = await asyncio.create_subprocess_exec(sys.executable, "-c", TOOL)
        await tool.wait()
    times = [answer.token_times_s for answer in answers]
    return {
        "tokens_per_s": TURNS * TURN_TOKENS / sum(answer.total_s for answer in answers),
        "gap_max_ms": 1e3 * max(after - before for each in times for before, after in itertools.pairwise(each)),
        "ttft_ms": 1e3 * statistics.median(answer.ttft_s for answer in answers),
    }


def medians(runs: list[dict[str, float]]) -> dict[str, float]:
    return {name: round(statistics.median(run[name] for run in runs), 2) for name in runs[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("peers", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--ctx", type=int, default=2048)
    parser.add_argument("--only", default="", help="conditions with this in their name")
    arguments = parser.parse_args()
    peers: Path = arguments.peers.resolve()
    model = peers / MODEL
    options = [str(model), "--slots=8", f"--ctx={arguments.ctx}", "--log-level=warning", UNGUESSED]
    runs: dict[str, dict[str, list[dict[str, float]]]] = {}
    with (
        llama_server(peers, model, arguments.ctx) as theirs,
        Sidecar.start([*options, f"--threads={THREADS}"]) as ours,
        Sidecar.start([*options, "--threads=1"]) as alone,
    ):
        extra = {"ignore_eos": True, "timings_per_token": True}
        servers = {
            "llama-server": Server(theirs, model.stem, "none", extra),
            "localllm": Server(ours.url, model.stem, ours.token or "", extra),
            "one thread": Server(alone.url, model.stem, alone.token or "", extra),
        }
        for number in range(arguments.rounds):
            for condition in (*CONDITIONS, Condition(AGENT)):
                if arguments.only not in condition.name:
                    continue
                for name, server in servers.items():
                    with beside(condition):
                        is_agent = condition.name == AGENT
                        run = asyncio.run(
                            agent(server, number) if is_agent else stream(server, arguments.seconds, number)
                        )
                    runs.setdefault(condition.name, {}).setdefault(name, []).append(run)
                    print(condition.name, name, {key: round(value, 1) for key, value in run.items()}, flush=True)
                    time.sleep(ENDED_S)
    figures = {condition: {name: medians(each) for name, each in of.items()} for condition, of in runs.items()}
    save(f"busy-{model.stem}", {"rounds": arguments.rounds, "conditions": with_ratios(figures)})


def with_ratios(figures: dict[str, dict[str, dict[str, float]]]) -> dict[str, Any]:
    """Add ratios of tokens/s: to llama-server, to one thread, and of streams to a quiet machine."""
    quiet = figures.get("quiet", {}).get("localllm", {}).get("tokens_per_s")

    def ratios(condition: str, of: dict[str, dict[str, float]]) -> dict[str, float]:
        mine = of["localllm"]["tokens_per_s"]
        peers = {f"to {name}": mine / of[name]["tokens_per_s"] for name in ("llama-server", "one thread")}
        found = peers if quiet is None or condition == AGENT else {**peers, "to quiet": mine / quiet}
        return {name: round(ratio, 3) for name, ratio in found.items()}

    return {condition: {**of, "ratios": ratios(condition, of)} for condition, of in figures.items()}


if __name__ == "__main__":
    main()
