"""A real registry (Debian's `docker-registry`) on loopback."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from tests.registry.oci_server import CONFIG_TYPE, KIND, MANIFEST_TYPE
from tests.waiting import line_with

BINARY = shutil.which("docker-registry")

CONFIG = """
version: 0.1
storage:
  filesystem:
    rootdirectory: {folder}
http:
  addr: 127.0.0.1:0
"""


class Registry(NamedTuple):
    host: str

    def push_blob(self, client: httpx.Client, content: bytes) -> dict[str, Any]:
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        begun = client.post("/v2/library/tiny/blobs/uploads/")
        assert begun.status_code == 202, begun.text
        url = httpx.URL(begun.headers["location"]).copy_merge_params({"digest": digest})
        done = client.put(url, content=content, headers={"Content-Type": "application/octet-stream"})
        assert done.status_code == 201, done.text
        return {"digest": digest, "size": len(content)}

    def push(self, layers: list[tuple[str, bytes]], config: dict[str, Any]) -> None:
        with httpx.Client(base_url=f"http://{self.host}", trust_env=False) as client:
            described = {
                "schemaVersion": 2,
                "mediaType": MANIFEST_TYPE,
                "config": {"mediaType": CONFIG_TYPE, **self.push_blob(client, json.dumps(config).encode())},
                "layers": [{"mediaType": KIND + kind, **self.push_blob(client, content)} for kind, content in layers],
            }
            raw = json.dumps(described).encode()
            put = client.put("/v2/library/tiny/manifests/q8", content=raw, headers={"Content-Type": MANIFEST_TYPE})
            assert put.status_code == 201, put.text


@contextmanager
def docker_registry(folder: Path, more: str = "") -> Iterator[Registry]:
    """Starts it on a free port, which it logs. `more`: further configuration."""
    (folder / "config.yml").write_text(CONFIG.format(folder=folder / "data") + more)
    assert BINARY is not None
    command = [BINARY, "serve", str(folder / "config.yml")]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=folder) as process:
        try:
            line = line_with(process, "listening on 127.0.0.1:")
            assert process.stderr is not None
            reader = threading.Thread(target=process.stderr.read)  # or it would wait for somebody to read its log
            reader.start()
            yield Registry("127.0.0.1:" + line.partition("listening on 127.0.0.1:")[2].partition('"')[0].strip())
        finally:
            process.terminate()
            process.wait()
            reader.join()
