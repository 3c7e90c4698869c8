"""Downloads over loopback: throughput of `download()` against curl, with one connection, and against sha256.

    python -m benchmarks.download [--gib 1] [--connections 8] [--rounds 3]

A small sendfile server in a process of its own serves one file. In turns: `download()`, which hashes the data; the same
without hashing; curl, which does not hash; and raw hashlib.sha256 over memory. `--connections` is the maximum for
`download()`, which finds out how many help. CPU seconds of both sides are reported, since they compete for few cores.
Needs Linux and curl.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.results import save
from localllm.registry.fetch import download as downloads
from localllm.registry.fetch.hasher import HASH_BYTES, Front
from localllm.registry.fetch.net import Net, NetOptions
from localllm.registry.names.digest import Digest
from localllm.registry.remote import RemoteFile

CURL = shutil.which("curl") or "curl"


def serve(path: Path, port_file: Path) -> None:
    """Answer GET with ranges until stdin ends, then print the CPU seconds used."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    port_file.with_suffix(".tmp").write_text(str(listener.getsockname()[1]))
    port_file.with_suffix(".tmp").rename(port_file)
    threading.Thread(target=_accept, args=(listener, path), daemon=True).start()
    sys.stdin.read()
    print(_cpu_s(resource.RUSAGE_SELF))


def _accept(listener: socket.socket, path: Path) -> None:
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=_answer, args=(connection, path), daemon=True).start()


def _answer(connection: socket.socket, path: Path) -> None:
    size = path.stat().st_size
    with connection, open(path, "rb") as file, connection.makefile("rb") as reader:
        try:
            while (head := _head(reader)) is not None:
                first, _, last = head.get("range", f"bytes=0-{size - 1}").removeprefix("bytes=").partition("-")
                start, end = int(first), min(int(last) + 1, size)
                status = "206 Partial Content" if "range" in head else "200 OK"
                connection.sendall(
                    f'HTTP/1.1 {status}\r\nContent-Length: {end - start}\r\nETag: "one"\r\n'
                    f"Content-Range: bytes {start}-{end - 1}/{size}\r\n\r\n".encode()
                )
                while start < end:
                    start += os.sendfile(connection.fileno(), file.fileno(), start, end - start)
        except OSError:
            return  # the client is gone


def _head(reader: Any) -> dict[str, str] | None:
    lines: list[str] = []
    for line in reader:
        if line == b"\r\n":
            pairs = (text.partition(":") for text in lines[1:])
            return {name.lower(): value.strip() for name, _, value in pairs}
        lines.append(line.decode())
    return None


def fetch(url: str, target: Path, digest: str, size: int, connections: int, is_hashing: bool) -> None:
    """Download in this process, and print wall and CPU seconds."""
    if not is_hashing:
        setattr(downloads, "follow", _wait_only)  # noqa: B010 (mypy: it is no part of the module's face)
    file = RemoteFile(
        file_name="f.gguf", url=url, named_by_user=True, size_bytes=size, digest=Digest(digest) if is_hashing else None
    )
    with Net(NetOptions()) as net:
        cpu_s, started = _cpu_s(resource.RUSAGE_SELF), time.perf_counter()
        downloads.download(
            file,
            target,
            net=net,
            connections=connections,
            on_bytes=lambda _: None,
            cancel=threading.Event(),
            require_room=lambda _: None,
        )
        wall_s = time.perf_counter() - started
    print(json.dumps({"wall_s": wall_s, "cpu_s": _cpu_s(resource.RUSAGE_SELF) - cpu_s}))


def _wait_only(_: Path, look: Any, wait: Any) -> tuple[Digest, int] | None:
    front: Front | None
    while (front := look(1 << 62)) is not None and not front.is_complete:
        wait()
    return None if front is None else (Digest("0" * 64), front.generation)


def curl(url: str, folder: Path, size: int, connections: int) -> dict[str, float]:
    """Wall and CPU seconds of one curl with a range per connection."""
    command = [CURL, "--parallel", "--parallel-immediate", "--parallel-max", str(connections)]
    share = -(-size // connections)
    for index, start in enumerate(range(0, size, share)):
        end = min(size, start + share) - 1
        more = ["--next"] if index else []
        command += [*more, "-s", "--fail", "-r", f"{start}-{end}", "-o", str(folder / f"part{index}"), url]
    before, started = _cpu_s(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, env={**os.environ, "no_proxy": "127.0.0.1"})
    wall_s = time.perf_counter() - started
    assert sum(path.stat().st_size for path in folder.glob("part*")) == size
    return {"wall_s": wall_s, "cpu_s": _cpu_s(resource.RUSAGE_CHILDREN) - before}


def raw_sha256(size: int) -> dict[str, float]:
    """Wall and CPU seconds of hashing `size` bytes that stay in the CPU's cache."""
    block, digest = os.urandom(HASH_BYTES), hashlib.sha256()
    cpu_s, started = _cpu_s(resource.RUSAGE_SELF), time.perf_counter()
    for _ in range(size // HASH_BYTES):
        digest.update(block)
    return {"wall_s": time.perf_counter() - started, "cpu_s": _cpu_s(resource.RUSAGE_SELF) - cpu_s}


def _cpu_s(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def _one_round(url: str, folder: Path, digest: str, size: int, connections: int) -> dict[str, dict[str, float]]:
    def ours(is_hashing: bool) -> dict[str, float]:
        arguments = [url, str(folder / "ours"), digest, str(size), str(connections), str(int(is_hashing))]
        command = [sys.executable, "-m", "benchmarks.download", "--fetch", *arguments]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        figures: dict[str, float] = json.loads(done.stdout)
        return figures

    found: dict[str, dict[str, float]] = {}
    works: dict[str, Callable[[], dict[str, float]]] = {
        "download": lambda: ours(True),
        "without_hash": lambda: ours(False),
        "curl": lambda: curl(url, folder, size, 1),
        "sha256": lambda: raw_sha256(size),
    }
    for name, work in works.items():
        found[name] = work()
        for path in folder.iterdir():
            path.unlink()
        os.sync()  # so that the next writes do not wait for these
    return found


def run(folder: Path, size: int, connections: int, rounds: int) -> dict[str, Any]:
    """The medians of all rounds."""
    source, port_file, targets = folder / "source", folder / "port", folder / "targets"
    targets.mkdir()
    digest = hashlib.sha256()
    with open(source, "wb") as file:
        for _ in range(size // HASH_BYTES):
            block = os.urandom(HASH_BYTES)
            file.write(block)
            digest.update(block)
    os.sync()
    command = [sys.executable, "-m", "benchmarks.download", "--serve", str(source), str(port_file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        while not port_file.exists():
            time.sleep(0.01)
        url = f"http://127.0.0.1:{port_file.read_text()}/f.gguf"
        found = [_one_round(url, targets, digest.hexdigest(), size, connections) for _ in range(rounds)]
        served_cpu_s, _ = server.communicate()
    figures: dict[str, Any] = {
        "size_bytes": size,
        "connections": connections,
        "rounds": rounds,
        "cores": os.cpu_count(),
    }
    for name in found[0]:
        wall_s = statistics.median(one[name]["wall_s"] for one in found)
        figures[f"{name}_mb_per_s"] = round(size / wall_s / 1e6)
        figures[f"{name}_cpu_s"] = round(statistics.median(one[name]["cpu_s"] for one in found), 2)
    figures["server_cpu_s_per_download"] = round(float(served_cpu_s) / (3 * rounds), 2)
    rate = {name: figures[f"{name}_mb_per_s"] for name in found[0]}
    figures["download_to_curl"] = round(rate["download"] / rate["curl"], 2)
    figures["without_hash_to_curl"] = round(rate["without_hash"] / rate["curl"], 2)
    figures["download_to_sha256"] = round(rate["download"] / rate["sha256"], 2)
    figures["download_to_curl_then_sha256"] = round(rate["download"] * (1 / rate["curl"] + 1 / rate["sha256"]), 2)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--gib", type=float, default=1.0)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--print-only", action="store_true", help="do not store the results")
    parser.add_argument("--serve", nargs=2, type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--fetch", nargs=6, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(*arguments.serve)
    elif arguments.fetch:
        url, target, digest, size, connections, is_hashing = arguments.fetch
        fetch(url, Path(target), digest, int(size), int(connections), is_hashing == "1")
    else:
        with tempfile.TemporaryDirectory() as folder:
            size = int(arguments.gib * 1024**3) // HASH_BYTES * HASH_BYTES
            figures = run(Path(folder), size, arguments.connections, arguments.rounds)
        if arguments.print_only:
            print(json.dumps(figures, indent=2))
        else:
            save("download", figures)


if __name__ == "__main__":
    main()
