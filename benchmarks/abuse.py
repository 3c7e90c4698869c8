"""Measures how long other clients wait while one misbehaves: an innocent `/health` and chat during each attack.

During `pulls`, `/v1/models` is requested instead of `/health`, because it needs a thread, like downloads.

    python -m benchmarks.abuse                                  # all attacks in turn, a new server for each
    python -m benchmarks.abuse --only messages --seconds 20
    python -m benchmarks.abuse --python OTHER/bin/python        # the server of another installation, to compare

The innocent clients send one request after the other; the attack runs in a process of its own. Waits end after
PATIENCE_S. Linux only (/proc). Loopback only; every attack is bounded in requests and time.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.abuse_attacks import ATTACKS, Attack, Target, hanging_hub
from benchmarks.results import save

PATIENCE_S = 60.0
SLOTS = 4
CHAT = {"model": "demo", "messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 8, "temperature": 0}


class Server(NamedTuple):
    """A running localllm server and its log."""

    process: subprocess.Popen[bytes]
    target: Target
    log: Path


@contextlib.contextmanager
def server(python: str, attack: Attack) -> Iterator[Server]:
    """Run `serve demo` with the options that the attack needs."""
    with tempfile.TemporaryDirectory() as folder, hanging_hub() as hub:
        log = Path(folder) / "log"
        env = os.environ | {"LOCALLLM_HOME": folder, "LOCALLLM_API_KEYS": "evil=evil-key-0,good=good-key-0"}
        argv = [python, "-P", "-m", "localllm", "serve", "demo", f"--slots={SLOTS}", "--host=127.0.0.1", "--port=0"]
        argv += ["--ready=json", f"--hub-endpoint={hub}", *attack.options]
        with log.open("wb") as stderr:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=env,
                preexec_fn=_few_descriptors if attack.few_descriptors else None,
            )
        try:
            assert process.stdout is not None
            ready = json.loads(process.stdout.readline())
            port = int(ready["url"].rpartition(":")[2])
            yield Server(process, Target(port, "evil-key-0", worker_of(process.pid)), log)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.wait()


def _few_descriptors() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def worker_of(pid: int) -> int:
    """The process id of the model's worker."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            if b"localllm.worker" in Path(f"/proc/{child}/cmdline").read_bytes():
                return int(child)
    raise ValueError(f"process {pid} has no worker")


async def ask(port: int, method: str, path: str, body: Any = None) -> tuple[float, int]:
    """Seconds until the whole answer has arrived, and its status; (PATIENCE_S, 0) without an answer."""
    content = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer good-key-0\r\nConnection: close\r\n"
    if content:
        head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n"
    started = time.perf_counter()
    writer = None
    try:
        async with asyncio.timeout(PATIENCE_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"{head}\r\n".encode() + content)
            answer = await reader.read()
        status = int(answer.split(b" ", 2)[1]) if answer else 0
        return time.perf_counter() - started, status
    except (TimeoutError, OSError):
        return PATIENCE_S, 0
    finally:
        if writer is not None:
            writer.close()


async def innocent(port: int, until_s: float, pause_s: float, *request: Any) -> list[tuple[float, int]]:
    asked = []
    while time.monotonic() < until_s:
        asked.append(await ask(port, *request))
        await asyncio.sleep(pause_s)
    return asked


def figures(asked: list[tuple[float, int]]) -> dict[str, Any]:
    """Times in milliseconds, and the number of requests not answered with 200."""
    times_s = [seconds for seconds, _ in asked]
    return {
        "asked": len(asked),
        "not_200": sum(status != 200 for _, status in asked),
        "p50_ms": round(1000 * statistics.median(times_s), 1),
        "max_ms": round(1000 * max(times_s), 1),
    }


def peak_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return round(int(line.split()[1]) / 1024, 1)
    raise ValueError(f"no memory of process {pid}")


async def beside(server: Server, attack: Attack, seconds: float) -> dict[str, Any]:
    """Measure the innocent clients during one attack, and after it."""
    port = server.target.port
    for _ in range(3):
        await ask(port, "POST", "/v1/chat/completions", CHAT)
    attacker = multiprocessing.get_context("spawn").Process(target=attack.run, args=(server.target,), daemon=True)
    attacker.start()
    until_s = time.monotonic() + seconds
    health, chat = await asyncio.gather(
        innocent(port, until_s, 0.02, "GET", attack.asks),
        innocent(port, until_s, 0.05, "POST", "/v1/chat/completions", CHAT),
    )
    attacker.kill()
    attacker.join()
    after = await ask(port, "POST", "/v1/chat/completions", CHAT)
    return {
        "health": figures(health),
        "chat": figures(chat),
        "chat_after": {"ms": round(1000 * after[0], 1), "status": after[1]},
        "log_kb": round(server.log.stat().st_size / 1000, 1),
        "server_peak_mib": peak_mib(server.process.pid),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--only", choices=sorted(ATTACKS), action="append")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--name", default="abuse", help="name of the file in results/")
    options = parser.parse_args()
    results = {}
    for name in options.only or ATTACKS:
        with server(options.python, ATTACKS[name]) as running:
            found = results[name] = asyncio.run(beside(running, ATTACKS[name], options.seconds))
        health, chat, after = found["health"], found["chat"], found["chat_after"]
        print(
            f"{name:18} health {health['p50_ms']:8} {health['max_ms']:9}   chat {chat['p50_ms']:9} {chat['max_ms']:9} "
            f"({chat['not_200']} of {chat['asked']} not 200)   after {after['ms']:9} {after['status']}   "
            f"log {found['log_kb']} kB   peak {found['server_peak_mib']} MiB",
            flush=True,
        )
    save(options.name, results)


if __name__ == "__main__":
    main()
