"""Plans for models in OCI registries, over real HTTP from a fake one: layers, texts, parameters, logins."""

from __future__ import annotations

import hashlib
import json
import random
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from localllm.errors import AccessDenied, LocalLLMError, ModelNotFound, PullFailed, UnsupportedParameter
from localllm.registry.fetch.download import download
from localllm.registry.fetch.net import Net, NetOptions, SmallResponse
from localllm.registry.names.digest import Digest
from localllm.registry.names.model_names import RegistryName, parse
from localllm.registry.remote import PullPlan, RemoteFile
from localllm.registry.sources import oci
from localllm.registry.sources.oci_auth import Login
from localllm.registry.sources.ollama_only import refused_header
from localllm.types import Message, SamplingParams
from tests.registry.loopback import Answer, Asked, no_pause
from tests.registry.oci_server import PASSWORD, USER, OciServer

MODEL = b"GGUF of a model"
PARAMS = {"temperature": 0.6, "top_k": 20, "num_ctx": 16384, "stop": ["<|im_end|>"], "num_gpu": 99, "num_predict": -1}
LICENSE = "\n   Apache License\n   Version 2.0, January 2004\n"


@pytest.fixture(scope="module")
def net() -> Iterator[Net]:
    with Net(pause=no_pause) as net:
        yield net


@pytest.fixture
def server() -> Iterator[OciServer]:
    with OciServer() as server:
        yield server


def planned(server: OciServer, net: Net, model: str = "library/m", tag: str = "latest", **options: Any) -> PullPlan:
    name = parse(f"ollama:{server.host}/{model}:{tag}")
    assert isinstance(name, RegistryName)
    return oci.plan(name, net, **options)


def test_layers_become_files_texts_and_parameters(server: OciServer, net: Net) -> None:
    layers = [
        ("model", MODEL),
        ("projector", b"GGUF of pictures"),
        ("system", b"You are brief."),
        ("params", json.dumps(PARAMS).encode()),
        ("messages", json.dumps([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]).encode()),
        ("license", LICENSE.encode()),
        ("license", b"And another one"),
        ("template", b"{{ .Prompt }}"),
    ]
    server.add("library/m", layers, tag="8b")
    plan = planned(server, net, tag="8b")
    assert [(file.role, file.file_name) for file in plan.files] == [
        ("model", "m-8b.gguf"),
        ("projector", "mmproj-m-8b.gguf"),
    ]
    assert plan.name == f"ollama:{server.host}/library/m:8b"
    digest = hashlib.sha256(server.manifests["/v2/library/m/manifests/8b"]).hexdigest()
    assert plan.source == f"{plan.name}@sha256:{digest}"
    assert (plan.quant, plan.system, plan.ctx, plan.stop) == ("Q4_K_M", "You are brief.", 16384, ("<|im_end|>",))
    assert plan.params == SamplingParams(temperature=0.6, top_k=20)
    assert plan.messages == (Message("user", "Hi"), Message("assistant", "Ho"))
    assert plan.license == "Apache-2.0"
    assert plan.license_text == (LICENSE, "And another one")
    notice = plan.notices[-1]
    assert "num_gpu" in notice
    assert "--gpu-layers" in notice


def test_the_urls_of_a_plan_serve_what_the_digests_promise(server: OciServer, net: Net) -> None:
    server.add("library/m", [("model", MODEL), ("projector", b"GGUF of pictures")])
    for file in planned(server, net).files:
        body = net.get_small(file.url, named_by_user=file.named_by_user, credential=file.credential).body
        assert (len(body), hashlib.sha256(body).hexdigest()) == (file.size_bytes, file.digest and file.digest.hex)


def test_a_registry_is_asked_in_the_form_that_it_knows(server: OciServer, net: Net) -> None:
    server.add("team/m", [("model", MODEL)])
    planned(server, net, "team/m")
    assert server.asked[0].path == "/v2/team/m/manifests/latest"
    assert server.asked[0].headers["accept"].startswith("application/vnd.docker.distribution.manifest.v2+json")
    assert [asked.path.partition("/blobs/")[0] for asked in server.asked[1:]] == ["/v2/team/m"]  # the config alone


@pytest.mark.parametrize(
    ("name", "insecure", "url", "named_by_user"),
    [
        ("ollama:m", (), "https://registry.ollama.ai/v2/library/m/manifests/latest", False),
        ("ollama:reg.example/n/m:t", (), "https://reg.example/v2/n/m/manifests/t", True),
        ("ollama:reg.example:5000/n/m", ("reg.example:5000",), "http://reg.example:5000/v2/n/m/manifests/latest", True),
        ("ollama:reg.example:5000/n/m", ("Reg.Example",), "http://reg.example:5000/v2/n/m/manifests/latest", True),
        ("ollama:reg.example:5000/n/m", ("other.example",), "https://reg.example:5000/v2/n/m/manifests/latest", True),
        ("ollama:reg.example:443/n/m", (), "https://reg.example/v2/n/m/manifests/latest", True),
        ("ollama:localhost:5000/n/m", (), "http://localhost:5000/v2/n/m/manifests/latest", True),
        ("ollama:127.0.0.1:5000/n/m", (), "http://127.0.0.1:5000/v2/n/m/manifests/latest", True),
        ("ollama:127.example.org/n/m", (), "https://127.example.org/v2/n/m/manifests/latest", True),
    ],
)
def test_tls_is_left_out_for_this_machine_and_for_hosts_that_are_listed_only(
    name: str, insecure: tuple[str, ...], url: str, named_by_user: bool
) -> None:
    asked: list[tuple[str, bool]] = []

    class Recorder(Net):
        def get_small(self, url: str, *, named_by_user: bool = False, **options: Any) -> SmallResponse:
            asked.append((url, named_by_user))
            return SmallResponse(404, options["headers"], b"", url)

    parsed = parse(name)
    assert isinstance(parsed, RegistryName)
    with Recorder() as net, pytest.raises(ModelNotFound):
        oci.plan(parsed, net, insecure_hosts=insecure)
    assert asked == [(url, named_by_user)]


@pytest.mark.parametrize(
    ("layers", "config", "says"),
    [
        ([("model", MODEL), ("adapter", b"a")], {}, "it includes a LoRA adapter; pull its base model"),
        ([("model", MODEL), ("draft", b"a")], {}, "draft model, which only Ollama's patched loader reads"),
        ([("tensor", b"a"), ("json", b"{}")], {}, "safetensors"),
        (
            [("license", b"a")],
            {},
            "no model file instead of one; it consists of application/vnd.ollama.image.l",
        ),
        ([], {}, "it consists of nothing"),
        ([("model", MODEL), ("model", b"GGUF")], {}, "2 model files"),
        ([("application/vnd.docker.image.rootfs.diff.tar.gzip", b"a")], {}, "consists of application/vnd.docker.image"),
        ([("model", MODEL)], {"model_format": "safetensors"}, "has the format safetensors, not GGUF"),
        (
            [("model", MODEL)],
            {"remote_host": "https://ollama.com", "remote_model": "m"},
            "only runs on https://ollama.com",
        ),
        ([("model", MODEL)], {"model_family": "gptoss"}, "llama.cpp's is gpt-oss.*localllm search gptoss"),
        (
            [("model", MODEL)],
            {"model_family": "mllama"},
            "architecture mllama, which only Ollama's patched loader reads",
        ),
    ],
)
def test_what_llama_cpp_cannot_read_is_refused_before_anything_big_is_downloaded(
    layers: list[tuple[str, bytes]], config: dict[str, Any], says: str, server: OciServer, net: Net
) -> None:
    server.add("library/m", layers, config)
    with pytest.raises(UnsupportedParameter, match=says):
        planned(server, net)


@pytest.mark.parametrize(
    ("layers", "config", "says"),
    [
        ([], {"renderer": "qwen3-coder", "parser": "qwen3-coder"}, r"built-in code \(qwen3-coder\)"),
        ([], {"requires": "0.14.0"}, "made for Ollama 0.14.0 and may need"),
        ([], {"model_family": "gemma3"}, "may need Ollama's patched loader"),
        ([("projector", b"a"), ("projector", b"b")], {}, "2 projectors; the first is used"),
        ([("projector", b"a")], {}, "its projector for pictures and sound .* is left out, as requested"),
        ([("embed", b"a")], {}, "unknown kinds are ignored: embed"),
        ([("messages", b'[{"role":"user","images":["x"]}]')], {}, "1 of its first messages"),
        (
            [("params", b'{"temperature": 1e6, "penalize_newline": true}')],
            {},
            "temperature cannot be used.*from 0.0 to",
        ),
    ],
)
def test_what_a_user_should_know_is_a_notice(
    layers: list[tuple[str, bytes]], config: dict[str, Any], says: str, server: OciServer, net: Net
) -> None:
    server.add("library/m", [("model", MODEL), *layers], config)
    plan = planned(server, net, with_projector="left out" not in says)
    assert plan.params == SamplingParams()
    assert plan.messages == ()
    assert re.search(says, "\n".join(plan.notices))


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("© Müller".encode("cp1252"), "© Müller"),
        ("© Müller".encode("utf-16"), "© Müller"),
        ("© Müller".encode(), "© Müller"),
        (b"\x81\xff", "\ufffd\ufffd"),
    ],
)
def test_no_model_is_lost_for_the_encoding_of_its_licence(
    content: bytes, text: str, server: OciServer, net: Net
) -> None:
    server.add("library/m", [("model", MODEL), ("license", content)])
    assert planned(server, net).license_text == (text,)


@pytest.mark.parametrize("login", ["anonymous", "private", "basic"])
def test_a_registry_that_wants_a_login_gets_one_and_so_do_its_blobs(login: str, net: Net) -> None:
    logins: dict[str, Login] | None = None if login == "anonymous" else {}
    with OciServer(login=login) as server:
        if logins is not None:
            logins[server.host] = Login(PASSWORD, USER)
        server.add("team/m", [("model", MODEL)])
        plan = planned(server, net, "team/m", logins=logins)
        file = plan.files[0]
        assert file.credential is not None
        assert file.credential.origin == server.url
        assert net.get_small(file.url, named_by_user=True, credential=file.credential).body == MODEL
        if login == "anonymous":
            token = next(asked for asked in server.asked if asked.path == "/token")
            assert token.query == {"service": [server.host], "scope": ["repository:team/m:pull"]}
            assert "authorization" not in token.headers


def test_a_token_of_the_user_is_tried_after_an_anonymous_one(net: Net) -> None:
    with OciServer(login="private") as server:
        server.add("team/m", [("model", MODEL)])
        assert planned(server, net, "team/m", logins={server.host: Login("for-somebody")}).files
        assert [asked.headers.get("authorization") for asked in server.asked[:4]] == [
            None, None, "Bearer for-all", "Bearer for-somebody"
        ]  # fmt: skip


def test_an_anonymous_token_comes_from_where_the_registry_says_and_goes_to_the_registry(server: OciServer) -> None:
    with Net(NetOptions(allow_private_hosts=True), pause=no_pause) as net, OciServer(login="anonymous") as registry:
        registry.add("team/m", [("model", MODEL)])
        registry.realm = f"{server.url}/token"
        (file,) = planned(registry, net, "team/m").files
        assert file.credential is not None
        assert file.credential.origin == registry.url
        assert [(asked.path, asked.headers.get("authorization")) for asked in server.asked] == [("/token", None)]


def test_no_login_goes_to_a_place_for_tokens_elsewhere(server: OciServer) -> None:
    with Net(NetOptions(allow_private_hosts=True), pause=no_pause) as net, OciServer(login="private") as registry:
        registry.add("team/m", [("model", MODEL)])
        registry.realm = f"{server.url}/token"
        with pytest.raises(AccessDenied, match=rf"wants its login at {server.host}.*LOCALLLM_REGISTRY_LOGINS"):
            planned(registry, net, "team/m", logins={registry.host: Login(PASSWORD, USER)})
        assert {asked.headers.get("authorization") for asked in server.asked} == {None}
        known = {asked.headers.get("authorization") for asked in registry.asked}
        assert known == {None, "Bearer for-all"}


def download_of(file: RemoteFile, net: Net, folder: Path) -> Digest:
    return download(
        file,
        folder / "part",
        net=net,
        first_connections=8,
        on_bytes=lambda _: None,
        cancel=threading.Event(),
        require_room=lambda _: None,
    )


@pytest.mark.parametrize("login", ["anonymous", "private"])
def test_a_token_that_expires_during_a_download_is_renewed(login: str, net: Net, tmp_path: Path) -> None:
    content = random.Random(1).randbytes(20 * 1024 * 1024)
    with OciServer(login=login) as server:
        server.add("team/m", [("model", content)])
        logins = {server.host: Login(PASSWORD, USER)} if login == "private" else {}
        (file,) = planned(server, net, "team/m", logins=logins).files
        blob = urlsplit(file.url).path

        given: list[int] = []

        def expiring(asked: Asked) -> Answer:
            """A token is valid for ten pieces."""
            answer = server.answer(asked)
            if answer.status == 206:
                given.append(len(answer.body))
                server.generation = len(given) // 10
            return answer

        server.scripted[blob] = expiring
        assert download_of(file, net, tmp_path) == file.digest
        assert (tmp_path / "part").read_bytes() == content
        assert server.generation > 1


def test_a_renewed_token_that_is_not_taken_either_ends_the_download(net: Net, tmp_path: Path) -> None:
    with OciServer(login="anonymous") as server:
        server.add("team/m", [("model", MODEL)])
        (file,) = planned(server, net, "team/m").files
        server.scripted[urlsplit(file.url).path] = Answer(401)
        asked = len(server.asked)
        with pytest.raises(AccessDenied, match="401"):
            download_of(file, net, tmp_path)
        assert len(server.asked) - asked < 10


def test_a_login_that_is_missing_or_wrong_is_told_and_stays_secret(net: Net) -> None:
    with OciServer(login="private") as server:
        server.add("team/m", [("model", MODEL)])
        with pytest.raises(AccessDenied, match=r"configure a login for it \(docker login, or"):
            planned(server, net, "team/m")
        with pytest.raises(AccessDenied, match="login configured for it lacks permission") as caught:
            planned(server, net, "team/m", logins={server.host: Login("wrong-secret", USER)})
        assert "wrong-secret" not in caught.value.message
        assert "wrong-secret" not in repr(Login("wrong-secret"))


@pytest.mark.parametrize(
    ("answer", "error", "says"),
    [
        (Answer(404), ModelNotFound, "check the name and the tag"),
        (Answer(429, b"", (("Retry-After", "9"),)), PullFailed, "try again in 9 s"),
        (Answer(500), PullFailed, "answered 500"),
        (Answer(403), AccessDenied, "configure a login"),
        (Answer(200, b'{"schemaVersion":1,"layers":[],"config":{}}'), PullFailed, "unusable response"),
        (Answer(200, b'{"mediaType":"application/vnd.oci.image.index.v1+json"}'), UnsupportedParameter, "not a model"),
        (Answer(200, b"{}", (("Docker-Content-Digest", f"sha256:{'0' * 64}"),)), PullFailed, "was damaged on the way"),
    ],
)  # fmt: skip
def test_what_a_registry_answers_instead_is_told(
    answer: Answer, error: type[LocalLLMError], says: str, server: OciServer, net: Net
) -> None:
    server.scripted["/v2/library/m/manifests/latest"] = answer
    with pytest.raises(error, match=says):
        planned(server, net)


@pytest.mark.parametrize(
    ("architecture", "tensors", "says"),
    [
        ("llama", ["token_embd.weight", "blk.0.attn_q.weight"], None),
        ("gemma3", ["token_embd.weight", "v.blk.0.attn_q.weight"], r"holds a projector \(tensor v\.blk"),
        ("mistral3", ["mm.linear_1.weight"], "localllm search mistral3"),
        ("gptoss", ["token_embd.weight"], "llama.cpp's is gpt-oss"),
        ("clip", ["v.blk.0.attn_q.weight"], None),
    ],
)
def test_a_downloaded_file_in_ollamas_own_layout_is_known_by_its_header(
    architecture: str, tensors: list[str], says: str | None
) -> None:
    reason = refused_header(architecture, tensors)
    assert (reason is None) if says is None else (reason is not None and says.replace("\\", "") in reason)
