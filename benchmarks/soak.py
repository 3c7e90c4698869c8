"""Minutes of misuse: far more streams than slots, disconnecting clients, invalid bodies. Nothing may leak.

    python -m benchmarks.soak --minutes 10

200 streams at a time on 8 slots of the demo model; of every ten requests, one is cut off by its client and one is
invalid. At the end, every valid request was answered, equal clients were served equally (max/min), all slots are free,
no process has grown, and the server is healthy. Otherwise exits with 1. Linux only (/proc).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.load import Server, user
from benchmarks.results import save
from localllm.client.sidecar import Sidecar

STREAMS, SLOTS, MAX_TOKENS = 200, 8, 24
WARM_SHARE = 0.3
"""Share of the time before memory is compared, while caches and buffers fill."""
NONSENSE: tuple[Any, ...] = (
    b"", b"{", b"[]", b'{"model": 3}', b"\xff\xfe", b"[" * 5000, {},
    {"model": "demo"}, {"model": "demo", "messages": 1},
    {"model": "no", "messages": [{"role": "user", "content": "x"}]},
    {"model": "demo", "messages": [{"role": "user", "content": "x"}], "temperature": "hot"},
    {"model": "demo", "messages": [{"role": "user", "content": "x" * 200_000}]},
)  # fmt: skip


def rss_mib(pid: int) -> float:
    """Resident memory of one process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"no memory of process {pid}")


def children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [int(child) for child in (task / "children").read_text().split()]
    return found


class Soak:
    """The clients, and the outcomes of their requests."""

    def __init__(self, sidecar: Sidecar, until_s: float, seed: int) -> None:
        self.server = Server(sidecar.url, "demo", sidecar.token, {})
        self.sidecar = sidecar
        self.until_s = until_s
        self.chooser = random.Random(seed)
        self.ends: Counter[str] = Counter()
        self.served = [0] * STREAMS

    async def client(self, number: int) -> None:
        while time.monotonic() < self.until_s:
            kind = self.chooser.random()
            if kind < 0.1:
                await self.nonsense()
            elif kind < 0.2:
                await self.cut_off()
                self.served[number] += 1  # it waited for a slot like the others
            else:
                timed = await self.server.ask([user(f"Count from {number % 7} to 9")], MAX_TOKENS)
                self.ends["answered" if timed.usage else "unfinished"] += 1
                self.served[number] += 1

    async def cut_off(self) -> None:
        left = self.chooser.randrange(4)
        events = self.server.events([user("Tell me a story")], 400)
        async for _ in events:
            left -= 1
            if left < 0:
                break
        await events.aclose()  # type: ignore[attr-defined]
        self.ends["cut off"] += 1

    async def nonsense(self) -> None:
        body = self.chooser.choice(NONSENSE)
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        reader, writer = await asyncio.open_connection(self.server.host, self.server.port)
        head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self.sidecar.token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\nConnection: close\r\n\r\n"
        )
        writer.write(head.encode() + content)
        status = (await reader.read()).split(b" ", 2)[1].decode()
        self.ends[f"nonsense {status}"] += 1
        writer.close()

    async def watch(self, memory: list[dict[str, float]], every_s: float) -> None:
        pid = self.sidecar.ready.pid
        worker = next(child for child in children(pid) if "localllm.worker" in _command(child))
        while time.monotonic() < self.until_s:
            memory.append({"server": rss_mib(pid), "worker": rss_mib(worker)})
            await asyncio.sleep(every_s)

    async def run(self, minutes: float) -> dict[str, Any]:
        memory: list[dict[str, float]] = []
        await asyncio.gather(self.watch(memory, minutes * 60 / 40), *(self.client(number) for number in range(STREAMS)))
        warm = memory[int(len(memory) * WARM_SHARE) :]
        return {
            "ends": dict(self.ends),
            "served_max_over_min": max(self.served) / max(1, min(self.served)),
            "memory_mib": {
                name: {"warm": warm[0][name], "end": warm[-1][name], "most": max(each[name] for each in warm)}
                for name in ("server", "worker")
            },
        }


def _command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()


async def _slots_in_use(sidecar: Sidecar) -> int:
    """The number of slots still in use up to five seconds after all clients have gone."""
    import httpx

    async with httpx.AsyncClient(base_url=sidecar.url, headers={"authorization": f"Bearer {sidecar.token}"}) as http:
        for _ in range(50):
            slots = (await http.get("/slots")).json()
            taken: int = sum(slot["is_processing"] for slot in slots)
            if not taken:
                break
            await asyncio.sleep(0.1)
        assert (await http.get("/ready")).status_code == 200
        return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with Sidecar.start(["demo", f"--slots={SLOTS}", "--log-level=warning"]) as sidecar:
        soak = Soak(sidecar, time.monotonic() + options.minutes * 60, options.seed)
        figures = asyncio.run(soak.run(options.minutes))
        figures["slots_left_taken"] = asyncio.run(_slots_in_use(sidecar))
    grown = max(each["most"] / each["warm"] for each in figures["memory_mib"].values())
    checks = {
        "all_answered": figures["ends"].get("unfinished", 0) == 0,
        "fair": figures["served_max_over_min"] < 1.5,
        "memory_flat": grown < 1.1,
        "slots_free": figures["slots_left_taken"] == 0,
        "nonsense_is_4xx": all(end[9] == "4" for end in figures["ends"] if end.startswith("nonsense")),
    }
    save("soak", {"minutes": options.minutes, **figures, "memory_growth": grown, "checks": checks})
    raise SystemExit(0 if all(checks.values()) else 1)


if __name__ == "__main__":
    main()
