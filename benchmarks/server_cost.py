"""The cost of the HTTP server, with a worker that costs nothing: delay per request and per token, and CPU time.

    python -m benchmarks.server_cost

delay: 8 streams; from reading a request's last bytes until the worker has it, and from a token's leaving the worker
until its bytes are passed to the socket, by one clock, read in the server's process. cpu: 32 streams with 500 tokens/s
in all; CPU time of the server's process. Linux only (/proc). The clients share the machine with the server, so both
figures are upper bounds.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import re
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.load import Server, user
from benchmarks.results import save
from localllm.client.sidecar import Sidecar

_SERVE = """
import sys
from benchmarks import server_cost
from localllm.supervisor import managed
managed.worker_command = lambda **_: [sys.executable, "-P", server_cost.METRONOME, "BEATS"]
server_cost.watch("DELAYS")
from localllm.cli import main
sys.argv[0] = "localllm"
sys.exit(main())
"""
METRONOME = str(Path(__file__).with_name("metronome.py"))
_MOMENTS = re.compile(rb'"content":"((?:\d+ )+)"')


def watch(path: str) -> None:
    """In the server's process, record when requests arrive and tokens leave; write the delays to `path` at exit."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    arrived: dict[Any, int] = {}
    delays: dict[str, list[float]] = {"request": [], "first": [], "token": []}
    read = H11Protocol.data_received

    def data_received(self: Any, data: bytes) -> None:
        arrived[self.transport.get_extra_info("socket")] = time.monotonic_ns()
        read(self, data)

    H11Protocol.data_received = data_received  # type: ignore[method-assign]
    transport = asyncio.selector_events._SelectorSocketTransport  # type: ignore[attr-defined]
    write = transport.write

    def noted(self: Any, data: bytes) -> None:
        write(self, data)
        now = time.monotonic_ns()
        found = _MOMENTS.search(data)
        if found:
            moments = [int(moment) for moment in found[1].split()]
            came_ns = arrived.pop(self.get_extra_info("socket"), None)
            if came_ns is not None:
                delays["request"].append((moments[0] - came_ns) / 1e6)
                delays["first"].append((now - moments[1]) / 1e6)
            else:
                delays["token"].append((now - moments[0]) / 1e6)

    transport.write = noted
    atexit.register(lambda: Path(path).write_text(json.dumps(delays)))


def figures_of(delays: dict[str, list[float]]) -> dict[str, float]:
    both = [there + back for there, back in zip(delays["request"], delays["first"], strict=True)]
    return {
        "requests": len(both),
        "request_p50_ms": statistics.median(delays["request"]),
        "first_delta_p50_ms": statistics.median(delays["first"]),
        "both_p50_ms": statistics.median(both),
        "both_p99_ms": statistics.quantiles(both, n=100)[98],
        "token_p50_ms": statistics.median(delays["token"]),
        "token_p99_ms": statistics.quantiles(delays["token"], n=100)[98],
    }


async def stream(server: Server, num_tokens: int) -> None:
    """Send one request and read its answer."""
    async for _ in server.events([user("Hi")], num_tokens):
        pass


def cpu_seconds(pid: int) -> float:
    """User and system time of a process, its threads included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def serving(beats_per_s: float, path: Path) -> Sidecar:
    script = _SERVE.replace("BEATS", str(beats_per_s)).replace("DELAYS", str(path))
    return Sidecar.start(["demo", "--slots", "64", "--log-level", "warning"], command=[sys.executable, "-c", script])


async def delay(sidecar: Sidecar, streams: int, rounds: int) -> None:
    server = Server(sidecar.url, "demo", sidecar.token, {})

    async def client(number: int) -> None:
        await asyncio.sleep(0.013 * number)  # staggered, to have eight streams instead of a burst
        for _ in range(rounds):
            await stream(server, 40)

    await asyncio.gather(*(client(number) for number in range(streams)))


async def cpu(sidecar: Sidecar, streams: int, num_tokens: int) -> dict[str, float]:
    server = Server(sidecar.url, "demo", sidecar.token, {})
    pid = sidecar.ready.pid
    before, started = cpu_seconds(pid), time.monotonic()
    await asyncio.gather(*(stream(server, num_tokens) for _ in range(streams)))
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
    figures: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "delays.json"
        with serving(50, path) as sidecar:
            asyncio.run(delay(sidecar, 8, 25))
        figures["delay_8_streams"] = figures_of(json.loads(path.read_text()))
        with serving(500 / 32, path) as sidecar:
            figures["cpu_32_streams"] = asyncio.run(cpu(sidecar, 32, 160))
    save("server_cost", figures)


if __name__ == "__main__":
    main()
