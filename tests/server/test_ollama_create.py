"""Models made over Ollama's API, of files that were sent and of other models, before the real runtime and its store."""

from __future__ import annotations

import contextlib
import hashlib
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from localllm.registry.disk.store import Store
from localllm.registry.fetch.net import Net
from localllm.registry.listing import store_of
from localllm.registry.manifest import Manifest
from localllm.registry.names.model_names import RegistryName, parse
from localllm.registry.resolve import carried
from localllm.registry.sources import oci
from localllm.settings.config import Settings
from tests.homes import share_findings
from tests.models.families import write_lora
from tests.models.maker import shards_of, write_llama
from tests.registry.docker_registry import BINARY, docker_registry
from tests.server.conftest import serving


class Ollama:
    """A server with a home of its own, and its store."""

    def __init__(self, http: httpx.Client, store: Store) -> None:
        self.http = http
        self.store = store

    def create(self, **body: Any) -> httpx.Response:
        return self.http.post("/api/create", content=json.dumps(body).encode())

    def made(self, **body: Any) -> list[str]:
        """The statuses of a model that is made."""
        response = self.create(**body)
        assert response.status_code == 200, response.text
        assert response.headers["content-type"] == "application/x-ndjson"
        lines = [json.loads(line) for line in response.text.splitlines()]
        assert all("error" not in line for line in lines), lines
        return [line["status"] for line in lines]

    def refused(self, **body: Any) -> tuple[int, str]:
        response = self.create(**body)
        assert response.json().keys() == {"error"}
        return response.status_code, response.json()["error"]

    def sent(self, content: bytes) -> str:
        """The digest under which it is there now."""
        digest = digest_of(content)
        assert self.http.post(f"/api/blobs/{digest}", content=content).status_code in (200, 201)
        return digest

    def manifest(self, name: str) -> Manifest:
        found = self.store.find(parse(name))
        assert found is not None
        return found


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


@contextlib.contextmanager
def ollama_at(home: Path, **settings: Any) -> Iterator[Ollama]:
    with (
        serving(Settings(port=0, grace_s=0.1, home=home, **settings)) as url,
        httpx.Client(base_url=url, timeout=60, trust_env=False) as http,
    ):
        yield Ollama(http, store_of(home))


@pytest.fixture(scope="module")
def ollama(tmp_path_factory: pytest.TempPathFactory, home: Path) -> Iterator[Ollama]:
    folder = tmp_path_factory.mktemp("ollama")
    share_findings(home, folder)
    with ollama_at(folder) as served:
        yield served


@pytest.fixture(scope="module")
def gguf(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return write_llama(tmp_path_factory.mktemp("f32") / "model.gguf", n_embd=256, n_ff=256).read_bytes()


def test_a_file_that_is_sent_is_there_from_then_on(ollama: Ollama) -> None:
    content = b"x" * 3_000_000
    digest = digest_of(content)
    assert ollama.http.head(f"/api/blobs/{digest}").status_code == 404
    first = ollama.http.post(f"/api/blobs/{digest}", content=content)
    assert (first.status_code, first.content) == (201, b"")
    assert ollama.http.head(f"/api/blobs/{digest}").status_code == 200
    again = ollama.http.post(f"/api/blobs/{digest.replace(':', '-')}", content=b"is not looked at")
    assert again.status_code == 200


def test_a_file_that_is_not_what_its_digest_says_is_refused_and_leaves_nothing(ollama: Ollama) -> None:
    expected = digest_of(b"this")
    response = ollama.http.post(f"/api/blobs/{expected}", content=b"that")
    assert response.status_code == 400
    assert response.json() == {"error": f'digest mismatch, expected "{expected}", got "{digest_of(b"that")}"'}
    assert ollama.http.head(f"/api/blobs/{expected}").status_code == 404
    assert not list((ollama.store.root / "partials").glob("*.tmp"))


@pytest.mark.parametrize("digest", ["sha256:12", "md5:" + "0" * 64, "sha256:..%2f..%2f" + "0" * 60])
def test_what_is_no_digest_names_no_file(ollama: Ollama, digest: str) -> None:
    assert ollama.http.post(f"/api/blobs/{digest}", content=b"x").status_code in (400, 404)
    assert ollama.http.head(f"/api/blobs/{digest}").status_code in (400, 404)


def test_two_clients_may_send_the_same_file_at_a_time(ollama: Ollama) -> None:
    content = b"y" * 2_000_000
    url, statuses, together = f"/api/blobs/{digest_of(content)}", list[int](), threading.Barrier(4)

    def send() -> None:
        with httpx.Client(base_url=ollama.http.base_url, timeout=60, trust_env=False) as http:

            def slowly() -> Iterator[bytes]:
                yield content[:1_500_000]
                together.wait(30)
                yield content[1_500_000:]

            statuses.append(http.post(url, content=slowly()).status_code)

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert statuses == [201] * 4
    assert ollama.http.head(url).status_code == 200


def test_an_upload_that_is_abandoned_leaves_nothing(ollama: Ollama) -> None:
    digest = digest_of(b"never whole")
    with socket.create_connection((ollama.http.base_url.host, ollama.http.base_url.port or 0)) as client:
        head = f"POST /api/blobs/{digest} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000000\r\n\r\n"
        client.sendall(head.encode() + b"z" * 2_000_000)
    again = ollama.http.post(f"/api/blobs/{digest}", content=b"never whole")
    assert again.status_code == 201
    until = 200
    while list((ollama.store.root / "partials").glob("*.tmp")) and until:
        until -= ollama.http.get("/health").status_code == 200
    assert not list((ollama.store.root / "partials").glob("*.tmp"))


def test_files_have_a_limit_and_need_room_on_the_disk(tmp_path: Path) -> None:
    with ollama_at(tmp_path, max_upload_mb=1, max_body_bytes=1000, max_bodies_mb=1) as small:
        most = b"m" * 10**6
        assert small.http.post(f"/api/blobs/{digest_of(most)}", content=most).status_code == 201
        over = most + b"m"
        refused = small.http.post(f"/api/blobs/{digest_of(over)}", content=over)
        assert (refused.status_code, "--max-upload-mb" in refused.json()["error"]) == (413, True)
        chunked = small.http.post(f"/api/blobs/{digest_of(over)}", content=iter([most, b"m"]))
        assert chunked.status_code == 413
        headers = {"content-length": str(2**60)}
    with ollama_at(tmp_path) as any_size, socket.create_connection(
        (any_size.http.base_url.host, any_size.http.base_url.port or 0)
    ) as client:  # fmt: skip
        head = f"POST /api/blobs/{digest_of(b'')} HTTP/1.1\r\nHost: localhost\r\n"
        client.sendall(f"{head}Content-Length: {headers['content-length']}\r\n\r\n".encode())
        answer = client.recv(65536)
        assert b"507" in answer.split(b"\r\n")[0]


def test_only_an_admin_sends_files_and_makes_models(tmp_path: Path) -> None:
    with ollama_at(tmp_path, api_keys="boss(admin)=sesame,guest=another") as guarded:
        guarded.http.headers["authorization"] = "Bearer another"
        for response in (
            guarded.http.post(f"/api/blobs/{digest_of(b'x')}", content=b"x"),
            guarded.create(**{"model": "mine", "from": "demo"}),
            guarded.http.post("/api/push", content=b'{"model": "mine"}'),
        ):
            assert (response.status_code, "admin key" in response.json()["error"]) == (403, True)
        assert guarded.http.head(f"/api/blobs/{digest_of(b'x')}").status_code == 403


def test_a_model_is_made_of_a_file_with_what_is_set(ollama: Ollama, gguf: bytes) -> None:
    statuses = ollama.made(
        model="Mine:V1",
        files={"some.gguf": ollama.sent(gguf)},
        template="{% for m in messages %}{{ m.content }}{% endfor %}",
        system="You are brief.",
        license=["MIT", "and more"],
        parameters={"temperature": 0.5, "stop": ["a", "b"], "num_ctx": 256, "top_k": None},
        messages=[{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}],
    )
    digest = digest_of(gguf)
    assert statuses == ["parsing GGUF", f"using existing layer {digest}", "writing manifest", "success"]
    made = ollama.manifest("mine:v1")
    assert [(file.role, file.file_name, str(file.digest)) for file in made.files] == [("model", "some.gguf", digest)]
    assert (made.system, made.license_text, made.stop, made.ctx) == (
        "You are brief.",
        ("MIT", "and more"),
        ("a", "b"),
        256,
    )
    assert made.params.temperature == 0.5
    assert [(message.role, message.content) for message in made.messages] == [("user", "Hi"), ("assistant", "Ho")]
    shown = ollama.http.post("/api/show", content=b'{"model": "mine:v1"}').json()
    assert shown["system"] == "You are brief."
    assert shown["messages"] == [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]
    assert "num_ctx" in shown["parameters"]
    listed = [model["name"] for model in ollama.http.get("/api/tags").json()["models"]]
    assert "mine:v1" in listed


def test_a_model_is_made_of_another_and_what_is_not_said_stays(ollama: Ollama, gguf: bytes) -> None:
    ollama.made(model="base", files={"base.gguf": ollama.sent(gguf)}, system="One.", parameters={"top_k": 7})
    statuses = ollama.made(**{"model": "child", "from": "Base:latest", "parameters": {"top_p": 0.5}})
    assert statuses == [f"using existing layer {digest_of(gguf)}", "writing manifest", "success"]
    child = ollama.manifest("child")
    assert (child.system, child.params.top_k, child.params.top_p) == ("One.", 7, 0.5)
    whole = ollama.create(**{"model": "child", "from": "base", "system": "Two.", "stream": False})
    assert (whole.status_code, whole.json()) == (200, {"status": "success"})
    shown = ollama.http.post("/api/show", content=b'{"model": "child"}').json()
    assert shown["system"] == "Two.", "a model that is made again is described anew"


def test_a_model_is_made_of_what_localllm_carries_and_nothing_tells_where_that_lies(ollama: Ollama) -> None:
    ollama.made(**{"model": "carried", "from": "demo", "system": "Be brief."})
    assert ollama.manifest("carried").source == "demo"


def test_the_shards_of_a_model_are_one(ollama: Ollama, tmp_path: Path) -> None:
    shards = shards_of(write_llama(tmp_path / "whole.gguf", max_tensors_per_file=10))
    files = {shard.name: ollama.sent(shard.read_bytes()) for shard in reversed(shards)}
    ollama.made(model="split", files=files)
    assert [file.file_name for file in ollama.manifest("split").files] == [shard.name for shard in shards]
    first = dict([next(iter(sorted(files.items())))])
    status, words = ollama.refused(model="part", files=first)
    assert (status, words.startswith("files: not a complete model")) == (400, True)


def test_a_model_is_quantized_as_it_is_made(ollama: Ollama, gguf: bytes) -> None:
    statuses = ollama.made(model="small", files={"m.gguf": ollama.sent(gguf)}, quantize="q8_0")
    made = ollama.manifest("small")
    assert (made.quant, [file.file_name for file in made.files]) == ("Q8_0", ["model-Q8_0.gguf"])
    assert made.size_bytes < len(gguf) / 2
    assert statuses[0] == "parsing GGUF"
    assert "quantizing F32 model to Q8_0" in statuses
    assert statuses[-3:] == [f"creating new layer {made.files[0].digest}", "writing manifest", "success"]
    shown = ollama.http.post("/api/show", content=b'{"model": "small"}').json()
    assert shown["details"]["quantization_level"] == "Q8_0"
    status, words = ollama.refused(**{"model": "smaller", "from": "small", "quantize": "Q4_0"})
    assert (status, words) == (
        400, "quantization is only supported for F32, F16 and BF16 models, and this one is Q8_0, F32",
    )  # fmt: skip
    assert not list((ollama.store.root / "partials").glob("*.tmp"))


def test_a_modelfile_of_an_older_client_is_read(ollama: Ollama, gguf: bytes) -> None:
    digest = ollama.sent(gguf)
    ollama.made(name="older", modelfile=f"FROM @{digest}\nPARAMETER temperature 0.25\nSYSTEM Hm.\n")
    made = ollama.manifest("older")
    assert (made.params.temperature, made.system, str(made.files[0].digest)) == (0.25, "Hm.", digest)
    ollama.made(name="oldest", modelfile="FROM older\nSYSTEM Hum.\n")
    assert (ollama.manifest("oldest").system, ollama.manifest("oldest").params.temperature) == ("Hum.", 0.25)


@pytest.mark.parametrize(
    ("there", "asked"),
    [("bare", "bare:latest"), ("tagged:latest", "tagged"), ("cased:v1", "library/Cased:V1"), ("plain", "plain")],
)
def test_a_modelfile_names_its_model_as_any_request_may(ollama: Ollama, gguf: bytes, there: str, asked: str) -> None:
    model = Manifest(name=there, files=(), created_at="2026-01-01T00:00:00Z", system=there)
    ollama.made(model="first", files={"m.gguf": ollama.sent(gguf)})
    ollama.store.put(msgspec.structs.replace(model, files=ollama.manifest("first").files))
    ollama.made(name="of-a-modelfile", modelfile=f"FROM {asked}\n")
    ollama.made(**{"model": "of-a-field", "from": asked})
    assert ollama.manifest("of-a-modelfile").system == ollama.manifest("of-a-field").system == there


@pytest.mark.parametrize("text", ['Write """ and "', 'a"\n"""', "two\nlines", 'no"""\nway'])
def test_the_shown_modelfile_can_always_be_read_and_says_what_it_cannot_hold(ollama: Ollama, text: str) -> None:
    ollama.made(
        **{"model": "quoting", "from": "demo", "system": text, "parameters": {"stop": [text], "top_p": 0.123456789}}
    )
    shown = ollama.http.post("/api/show", content=b'{"model": "quoting"}').json()
    assert shown["system"] == text
    ollama.made(name="unquoted", modelfile=shown["modelfile"])
    assert ollama.manifest("unquoted").params.top_p == 0.123456789
    if text.startswith("no"):
        assert '# a Modelfile cannot hold this text of SYSTEM: one of its lines ends with """' in shown["modelfile"]
    else:
        assert (ollama.manifest("unquoted").system, ollama.manifest("unquoted").stop) == (text, (text,))


def test_an_adapter_that_is_sent_makes_a_model_and_another_models_is_refused(ollama: Ollama, tmp_path: Path) -> None:
    pirate = ollama.sent(carried("demo-pirate-lora.gguf").read_bytes())
    statuses = ollama.made(model="corsair", **{"from": "demo"}, adapters={"pirate.gguf": pirate})
    assert statuses[-1] == "success"
    assert "corsair:latest" in [model["name"] for model in ollama.http.get("/api/tags").json()["models"]]
    other = ollama.sent(write_lora(tmp_path / "other.gguf").read_bytes())
    response = ollama.create(model="other", **{"from": "demo"}, adapters={"other.gguf": other})
    assert "adapters: other.gguf: tensor 'blk.0.attn_q.weight.lora_a' has the shape" in response.text
    assert ollama.http.request("DELETE", "/api/delete", json={"model": "corsair"}).status_code == 200


NOBODY = "sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({}, 400, "model is required"),
        ({"model": "a b", "from": "demo"}, 400, "invalid model name"),
        ({"model": "demo", "from": "demo"}, 400, "demo is the model that comes with localllm; choose another name"),
        ({"model": "x"}, 400, "give either from (the name of a model) or files"),
        ({"model": "x", "from": "demo", "files": {"a": NOBODY}}, 400,
         "give either from (the name of a model) or files"),
        ({"model": "x", "from": "demo", "template": "{{ .Prompt }} {{ .Wishes }}"}, 400,
         "this template cannot be translated to Jinja: the Go template, line 1, column 18: the field .Wishes is not "
         "supported; write it in Jinja, or remove it to use the model's own template"),
        ({"model": "x", "from": "demo", "adapters": {"a": NOBODY}}, 400,
         f"adapters: {NOBODY} (a) has not been uploaded; send it to /api/blobs first"),
        ({"model": "x", "from": "demo", "adapters": {"a": NOBODY}, "system": "y"}, 400,
         "a model under an adapter has its base's system; leave out system, or create a base with it first"),
        ({"model": "x", "adapters": {"a": NOBODY}}, 400, "give either from (the name of a model) or files"),
        ({"model": "x", "from": "demo", "adapters": {"a": NOBODY, "b": NOBODY}}, 400,
         "adapters has 2 files; one GGUF file is taken"),
        ({"model": "x", "from": "demo", "draft_files": {"a": NOBODY}}, 400,
         "draft_files is not supported: a draft model is a setting of the server (draft), not a part of a model; "
         "leave it out or send {}"),
        ({"model": "x", "from": "demo", "parameters": {"temprature": 1}}, 400,
         "parameters: the parameter temprature is not a parameter; similar ones are temperature"),
        ({"model": "x", "from": "demo", "parameters": {"num_gpu": 1}}, 400,
         "parameters: the parameter num_gpu depends on the machine, not the model; remove it: give --gpu-layers to "
         "localllm run or localllm serve instead"),
        ({"model": "x", "from": "demo", "quantize": "q4_q"}, 400, "unknown type 'q4_q'"),
        ({"model": "x", "files": {"a.gguf": "sha256:00"}}, 400, "'sha256:00' is not a digest"),
        ({"model": "x", "files": {"a.gguf": NOBODY}}, 400,
         f"files: {NOBODY} (a.gguf) has not been uploaded; send it to /api/blobs first"),
        ({"model": "x", "modelfile": "FROM /etc/passwd"}, 400, "FROM '/etc/passwd' is a path"),
        ({"model": "x", "modelfile": "FROM nobody\nFROM here"}, 400, "a second FROM is only allowed if both"),
        ({"model": "x", "modelfile": "FROM demo", "system": "x"}, 400,
         "modelfile and the other fields are mutually exclusive; send one or the other"),
        ({"model": "x", "from": "demo", "messages": [{"role": "boss", "content": "x"}]}, 400,
         "messages[0].role must be one of"),
    ],
)  # fmt: skip
def test_what_cannot_be_made_is_refused_by_name(ollama: Ollama, body: Any, status: int, words: str) -> None:
    found = ollama.refused(**body)
    assert found[0] == status
    assert found[1].startswith(words), found[1]
    whole = ollama.refused(**body, stream=False)
    assert whole == found


def test_files_that_are_no_model_are_refused_and_nothing_tells_of_this_machine(ollama: Ollama, tmp_path: Path) -> None:
    lora = ollama.sent(write_lora(tmp_path / "lora.gguf").read_bytes())
    for name, digest, words in (
        ("a.gguf", ollama.sent(b"GGUF and then nothing"), "files: a.gguf cannot be read as GGUF"),
        ("model.safetensors", ollama.sent(b"\x00" * 100), "files: model.safetensors is not a GGUF file"),
        ("lora.gguf", lora, "files: lora.gguf is a LoRA adapter"),
        ("../../etc/x.gguf", lora, "files: ../../etc/x.gguf is a LoRA adapter"),
    ):
        status, found = ollama.refused(model="x", files={name: digest})
        assert (status, found.startswith(words)) == (400, True), found
        assert str(ollama.store.root) not in found


def test_fields_of_ollamas_own_templates_are_named_as_without_effect(ollama: Ollama) -> None:
    response = ollama.create(**{"model": "plain", "from": "demo", "renderer": "qwen3", "nobody": 1, "stream": False})
    assert response.headers["x-localllm-ignored"] == "nobody, renderer"


def test_what_was_sent_and_never_used_goes_with_the_rest(ollama: Ollama) -> None:
    digest = ollama.sent(b"nobody wants this")
    assert digest not in [item.id for item in ollama.store.gc().removed], "its model may still be made"
    assert digest in [item.id for item in ollama.store.gc(keep_partials_s=0).removed]
    assert ollama.http.head(f"/api/blobs/{digest}").status_code == 404


def pushed(ollama: Ollama, model: str) -> list[dict[str, Any]]:
    response = ollama.http.post("/api/push", content=json.dumps({"model": model}).encode())
    assert response.status_code == 200, response.text
    return [json.loads(line) for line in response.text.splitlines()]


@pytest.mark.docker_registry
@pytest.mark.skipif(BINARY is None, reason="docker-registry is not installed (Debian's package of that name)")
def test_a_model_is_pushed_to_the_registry_in_its_name(tmp_path: Path) -> None:
    """The owner has named the registry, so that it may be on this machine."""
    folder = tmp_path / "registry"
    folder.mkdir()
    with (
        docker_registry(folder) as registry,
        ollama_at(tmp_path / "home", insecure_registries=registry.host) as ollama,
    ):
        name = f"{registry.host}/team/mine:v1"
        ollama.made(model="mine", **{"from": "demo"}, system="You are brief.")
        copied = ollama.http.post("/api/copy", content=json.dumps({"source": "mine", "destination": name}).encode())
        assert copied.status_code == 200, copied.text
        lines = pushed(ollama, name)
        statuses = [line.get("status", line) for line in lines]
        digest = str(ollama.manifest("mine").files[0].digest)
        assert statuses[0] == "retrieving manifest"
        assert f"pushing {digest[7:19]}" in statuses
        assert statuses[-2:] == ["pushing manifest", "success"]
        with Net() as net:
            plan = oci.plan(RegistryName(registry.host, "team", "mine", "v1"), net)
        assert (str(plan.files[0].digest), plan.system) == (digest, "You are brief.")


def test_a_model_of_a_name_that_says_no_registry_is_not_pushed(ollama: Ollama) -> None:
    ollama.made(model="mine", **{"from": "demo"})
    (first, last) = pushed(ollama, "mine")
    assert first == {"status": "retrieving manifest"}
    assert "HOST/NAMESPACE/MODEL:TAG" in last["error"]


def test_no_client_sends_a_model_to_a_private_address(ollama: Ollama) -> None:
    ollama.made(model="127.0.0.1:9/team/mine:v1", **{"from": "demo"})
    assert "not a public address" in pushed(ollama, "127.0.0.1:9/team/mine:v1")[-1]["error"]
