"""Pictures against llama-server: how long streams stand still, and what is encoded again.

    python -m benchmarks.media ours|theirs MODEL [--tiles 4] [--home FOLDER]

MODEL is a GGUF of text; its projector gets random weights and SigLIP-B's shape. `theirs` is llama-server's code in the
package xllamacpp. Both run with four slots on this machine's cores. Prints seconds: the longest gap between two tokens
of four streams without and with a picture, and the time to the first token of questions about a picture.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import io
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import numpy as np
from gguf import GGUFReader
from PIL import Image

from benchmarks.random_projector import write_random_projector

SLOTS, CTX = 5, 4096
STREAMS = 4
TILE = 256
"""Pixels of a tile's side: 64 rows."""
WARM_TOKENS = 8
"""Tokens of each stream before a gap counts."""
ALONE_S = 5.0
Messages = list[dict[str, Any]]


class Server(NamedTuple):
    url: str
    key: str


@contextlib.contextmanager
def started(command: list[str], read: Callable[[str], Server]) -> Iterator[Server]:
    """Runs a server that prints where it is."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield read(process.stdout.readline())
    finally:
        process.stdin.close()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def serving(which: str, model: Path, projector: Path, home: Path) -> contextlib.AbstractContextManager[Server]:
    if which == "theirs":
        command = [
            sys.executable,
            "-P",
            "-m",
            "benchmarks.media_peer",
            str(model),
            str(projector),
            str(SLOTS),
            str(CTX),
        ]
        return started(command, lambda line: Server(line.strip(), ""))
    options = f"--home {home} --mmproj {projector} --slots {SLOTS} --ctx {CTX} --port 0 --kv-disk-mb 2000 --ready json"
    command = [sys.executable, "-P", "-m", "localllm", "serve", str(model), *options.split()]
    return started(command, lambda line: Server(json.loads(line)["url"], json.loads(line)["token"]))


def picture(seed: int, width: int, height: int) -> dict[str, Any]:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    url = "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
    return {"type": "image_url", "image_url": {"url": url}}


def question(image: dict[str, Any], system: str = "You are helpful.", *more: str) -> Messages:
    content = [image, {"type": "text", "text": "What is this?"}]
    messages: Messages = [{"role": "system", "content": system}, {"role": "user", "content": content}]
    for number, text in enumerate(more):
        messages.append({"role": "user" if number % 2 else "assistant", "content": text})
    return messages


class Client:
    def __init__(self, server: Server) -> None:
        headers = {"Authorization": f"Bearer {server.key}"} if server.key else {}
        self._http = httpx.AsyncClient(base_url=server.url.removesuffix("/v1"), headers=headers, timeout=1200)

    async def stream(self, messages: Messages, max_tokens: int) -> AsyncIterator[float]:
        """When each piece of text arrived."""
        body = {"messages": messages, "max_tokens": max_tokens, "stream": True, "temperature": 1, "ignore_eos": True}
        async with self._http.stream("POST", "/v1/chat/completions", json=body) as response:
            if response.status_code != 200:
                raise SystemExit((await response.aread()).decode())
            async for line in response.aiter_lines():
                if line.startswith("data: {") and json.loads(line[6:])["choices"][0]["delta"].get("content"):
                    yield time.monotonic()

    async def first_s(self, messages: Messages) -> float:
        """Time to the first token."""
        began = time.monotonic()
        async for moment in self.stream(messages, 1):
            return moment - began
        raise SystemExit("no text came")


class Gaps:
    """The longest pause of each of several streams, from `begin` on."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self.num_tokens = 0

    async def watch(self, client: Client, number: int, warm: asyncio.Semaphore) -> None:
        last, count = 0.0, 0
        async for moment in client.stream([{"role": "user", "content": f"Tell me story {number}."}], 3000):
            if count >= WARM_TOKENS:
                self.longest_s = max(self.longest_s, moment - last)
            last, count = moment, count + 1
            self.num_tokens += 1
            if count == WARM_TOKENS:
                warm.release()

    def begin(self) -> None:
        self.longest_s, self.num_tokens = 0.0, 0


async def beside_streams(client: Client, image: dict[str, Any]) -> dict[str, float]:
    gaps, warm = Gaps(), asyncio.Semaphore(0)
    tasks = [asyncio.create_task(gaps.watch(client, number, warm)) for number in range(STREAMS)]
    for _ in tasks:
        await warm.acquire()
    gaps.begin()
    await asyncio.sleep(ALONE_S)
    alone_s, tokens_per_s = gaps.longest_s, gaps.num_tokens / ALONE_S
    gaps.begin()
    first_s = await client.first_s(question(image))
    found = {
        "longest gap without a picture": alone_s,
        "tokens per second without": tokens_per_s,
        "longest gap beside a picture": gaps.longest_s,
        "tokens per second beside it": gaps.num_tokens / first_s,
        "first token of the picture's answer beside streams": first_s,
    }
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return found


async def measure(server: Server, size: tuple[int, int]) -> dict[str, float]:
    client = Client(server)
    await client.first_s([{"role": "user", "content": "Hello"}])
    first = picture(1, *size)
    found = {
        "first turn": await client.first_s(question(first)),
        "second turn": await client.first_s(question(first, "You are helpful.", "A thing.", "Which color?")),
        "another system prompt": await client.first_s(question(first, "You are a pirate. Answer as one.")),
    }
    return found | await beside_streams(client, picture(2, *size))


async def after_restart(server: Server, size: tuple[int, int]) -> dict[str, float]:
    client = Client(server)
    await client.first_s([{"role": "user", "content": "Hello"}])
    return {"after a restart": await client.first_s(question(picture(1, *size)))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("which", choices=["ours", "theirs"])
    parser.add_argument("model", type=Path)
    parser.add_argument("--tiles", type=int, default=4, help="tiles of the picture, beside an overview")
    parser.add_argument("--home", type=Path, help="data directory of ours")
    given = parser.parse_args()
    width = int(GGUFReader(given.model).fields["llama.embedding_length"].contents())
    with tempfile.TemporaryDirectory() as folder:
        projector = Path(folder) / "mmproj-random.gguf"
        write_random_projector(projector, output_width=width, tile=TILE, tiles=given.tiles)
        home, size = given.home or Path(folder) / "home", (TILE * given.tiles, TILE)
        with serving(given.which, given.model, projector, home) as server:
            figures = asyncio.run(measure(server, size))
        with serving(given.which, given.model, projector, home) as server:
            figures |= asyncio.run(after_restart(server, size))
    print(json.dumps({name: round(value, 3) for name, value in figures.items()}, indent=2))


if __name__ == "__main__":
    main()
