"""The real registry, `docker-registry` of Debian's packages: a tiny model pushed over its API, planned, downloaded."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from localllm.errors import ModelNotFound
from localllm.gguf import read_model_info
from localllm.registry.fetch.download import download
from localllm.registry.fetch.net import Net
from localllm.registry.names import RegistryName
from localllm.registry.sources import oci
from tests.models.maker import write_llama
from tests.registry.oci_server import CONFIG_TYPE, KIND, MANIFEST_TYPE

BINARY = shutil.which("docker-registry")

pytestmark = [
    pytest.mark.docker_registry,
    pytest.mark.skipif(BINARY is None, reason="docker-registry is not installed (Debian's package of that name)"),
]

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


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """Serves on a port of the system's choice, which it logs."""
    folder = tmp_path_factory.mktemp("docker-registry")
    config = folder / "config.yml"
    config.write_text(CONFIG.format(folder=folder / "data"))
    assert BINARY is not None
    command = [BINARY, "serve", str(config)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=folder) as process:
        try:
            assert process.stderr is not None
            said = []
            for line in process.stderr:
                said.append(line)
                if "listening on 127.0.0.1:" in line:
                    break
            else:
                pytest.fail(f"docker-registry ended: {''.join(said)}")
            reader = threading.Thread(target=process.stderr.read)  # or it would wait for somebody to read its log
            reader.start()
            yield Registry("127.0.0.1:" + line.partition("listening on 127.0.0.1:")[2].partition('"')[0].strip())
        finally:
            process.terminate()
            process.wait()
            reader.join()


def test_a_model_pushed_to_a_real_registry_is_planned_and_downloaded(registry: Registry, tmp_path: Path) -> None:
    model = write_llama(tmp_path / "tiny.gguf").read_bytes()
    layers = [
        ("model", model),
        ("system", b"You are tiny."),
        ("params", b'{"temperature": 0.5, "stop": ["</s>"]}'),
        ("license", b"MIT License\n\nCopyright"),
        ("template", b"{{ .Prompt }}"),
    ]
    registry.push(layers, {"model_format": "gguf", "model_family": "llama", "file_type": "F32"})
    with Net() as net:
        plan = oci.plan(RegistryName(registry.host, "library", "tiny", "q8"), net)
        assert (plan.system, plan.stop, plan.license, plan.quant) == ("You are tiny.", ("</s>",), "MIT", "F32")
        assert plan.params.temperature == 0.5
        assert plan.size_bytes == len(model)
        partial = tmp_path / "partial"
        arrived: list[int] = []
        digest = download(
            plan.files[0],
            partial,
            net=net,
            on_bytes=arrived.append,
            cancel=threading.Event(),
            require_room=lambda _: None,
        )
        assert digest == plan.files[0].digest
        assert sum(arrived) == len(model)
        assert partial.read_bytes() == model
        assert read_model_info(partial.rename(tmp_path / "again.gguf")).architecture == "llama"
        with pytest.raises(ModelNotFound, match="check the name and the tag"):
            oci.plan(RegistryName(registry.host, "library", "tiny", "q9"), net)
