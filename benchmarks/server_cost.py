"""What the HTTP server costs, before a worker that costs nothing: its delay for a request and for a token, its CPU.

    python -m benchmarks.server_cost

delay: 8 streams; from a request's last byte sent to its arrival in the worker, and from a token's leaving the worker to
its arrival at the client, both on one clock. cpu: 32 streams, 500 tokens/s in all, the server process's CPU time.
Linux only (/proc). The clients share the machine with the server, so both are upper bounds.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import time
from pathlib import Path

from benchmarks.load import Server, user
from benchmarks.results import save
from localllm.client.sidecar import Sidecar

_SERVE = """
import sys
from benchmarks import server_cost
from localllm.supervisor import supervisor
supervisor.worker_command = lambda **_: [sys.executable, "-P", server_cost.METRONOME, "BEATS"]
from localllm.cli import main
sys.argv[0] = "localllm"
sys.exit(main())
"""
METRONOME = str(Path(__file__).with_name("metronome.py"))


class Delays:
    """Milliseconds."""

    def __init__(self) -> None:
        self.request: list[float] = []
        self.first: list[float] = []
        self.token: list[float] = []

    def figures(self) -> dict[str, float]:
        both = [there + back for there, back in zip(self.request, self.first, strict=True)]
        return {
            "request_p50_ms": statistics.median(self.request),
            "first_delta_p50_ms": statistics.median(self.first),
            "both_p50_ms": statistics.median(both),
            "both_p99_ms": statistics.quantiles(both, n=100)[98],
            "token_p50_ms": statistics.median(self.token),
            "token_p99_ms": statistics.quantiles(self.token, n=100)[98],
        }


async def stream(server: Server, num_tokens: int, delays: Delays) -> None:
    """One request, its delays noted."""
    sent = time.monotonic_ns()
    is_first = True
    async for event in server.events([user("Hi")], num_tokens):
        now = time.monotonic_ns()
        text = event["choices"][0]["delta"].get("content") if event.get("choices") else None
        if not text:
            continue
        moments = [int(moment) for moment in text.split()]
        if is_first:
            delays.request.append((moments.pop(0) - sent) / 1e6)
            delays.first.append((now - moments[0]) / 1e6)
            is_first = False
        else:
            delays.token.append((now - moments[0]) / 1e6)


def cpu_seconds(pid: int) -> float:
    """User and system time of a process, its threads included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def serving(beats_per_s: float) -> Sidecar:
    command = [sys.executable, "-c", _SERVE.replace("BEATS", str(beats_per_s))]
    return Sidecar.start(["demo", "--slots", "64", "--log-level", "warning"], command=command)


async def delay(sidecar: Sidecar, streams: int, rounds: int) -> Delays:
    server = Server(sidecar.url, "demo", sidecar.token, {})
    delays = Delays()

    async def client(number: int) -> None:
        await asyncio.sleep(0.013 * number)  # not all at one moment: that is a burst, not eight streams
        for _ in range(rounds):
            await stream(server, 40, delays)

    await asyncio.gather(*(client(number) for number in range(streams)))
    return delays


async def cpu(sidecar: Sidecar, streams: int, num_tokens: int) -> dict[str, float]:
    server = Server(sidecar.url, "demo", sidecar.token, {})
    delays = Delays()
    pid = sidecar.ready.pid
    before, started = cpu_seconds(pid), time.monotonic()
    await asyncio.gather(*(stream(server, num_tokens, delays) for _ in range(streams)))
    wall_s = time.monotonic() - started
    used_s = cpu_seconds(pid) - before
    rate = streams * num_tokens / wall_s
    return {
        "tokens_per_s": rate,
        "cores": used_s / wall_s,
        "cores_at_500_tokens_per_s": used_s / wall_s * 500 / rate,
        "us_per_token": used_s / (streams * num_tokens) * 1e6,
    }


def main() -> None:
    with serving(50) as sidecar:
        figures: dict[str, object] = {"delay_8_streams": asyncio.run(delay(sidecar, 8, 12)).figures()}
    with serving(500 / 32) as sidecar:
        figures["cpu_32_streams"] = asyncio.run(cpu(sidecar, 32, 160))
    save("server_cost", figures)


if __name__ == "__main__":
    main()
