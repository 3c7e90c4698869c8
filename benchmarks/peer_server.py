"""Starts the llama-server that `benchmarks.peers` built."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx


@contextlib.contextmanager
def started(peers: Path, model: Path, *options: object) -> Iterator[str]:
    """Run llama-server with these options; yields its URL. Errors include the end of its output."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [peers / "bin/llama-server", "-m", model, "--host", "127.0.0.1", "--port", port, *options]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen([str(part) for part in command], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        try:
            url = f"http://127.0.0.1:{port}"
            while process.poll() is None:
                with contextlib.suppress(httpx.TransportError):
                    if httpx.get(f"{url}/health").status_code == 200:
                        break
                time.sleep(0.2)
            if process.poll() is not None:
                log.seek(0)
                raise SystemExit(f"llama-server did not start:\n{log.read().decode(errors='replace')[-4000:]}")
            yield url
        finally:
            process.terminate()
            process.wait()
