"""Attacks by rogue registries on other programs, by name: none of them works here."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localllm.errors import AccessDenied, ForbiddenAddress, LocalLLMError, PullFailed
from localllm.registry.fetch.net import Net, SmallResponse
from localllm.registry.manifest import MAX_MANIFEST_BYTES
from localllm.registry.names.model_names import RegistryName
from localllm.registry.remote import Credential
from localllm.registry.sources import oci
from localllm.registry.sources.oci_auth import Login
from tests.registry.loopback import Answer, Asked, no_pause
from tests.registry.mutations import mutated
from tests.registry.oci_server import KIND, PASSWORD, USER, OciServer

MODEL = b"GGUF of a model"
MANIFEST = "/v2/library/m/manifests/latest"


@pytest.fixture(scope="module")
def net() -> Iterator[Net]:
    with Net(pause=no_pause) as net:
        yield net


def plan(server: OciServer, net: Net, **options: Any) -> Any:
    return oci.plan(RegistryName(server.host, "library", "m"), net, **options)


@pytest.mark.parametrize("where", ["layers", "config"])
@pytest.mark.parametrize(
    "digest",
    ["sha256:../../../tmp/x", "sha256-", "sha256:", "../x", f"sha256:{'A' * 64}", f"sha256:{'a' * 63}",
     f"sha256:{'a' * 65}", f"sha256:{'a' * 64}/../x", f"sha512:{'a' * 64}", f"sha256:{'a' * 64}\n", "", 7, None],
)  # fmt: skip
def test_cve_2024_37032_a_digest_that_is_a_path_is_refused(digest: Any, where: str, net: Net) -> None:
    with OciServer() as server:
        manifest = server.add("library/m", [("model", MODEL)])
        target = manifest["config"] if where == "config" else manifest["layers"][0]
        target["digest"] = digest
        server.put("library/m", manifest)
        with pytest.raises(PullFailed, match=r"manifest of ollama:.*digest|Expected `str`"):
            plan(server, net)
        assert [asked.path for asked in server.asked] == [MANIFEST]


@pytest.mark.parametrize(
    "change",
    [
        lambda manifest: manifest.pop("layers"),
        lambda manifest: manifest.pop("config"),
        lambda manifest: manifest["layers"][0].pop("digest"),
        lambda manifest: manifest["layers"][0].pop("size"),
        lambda manifest: manifest["layers"][0].update(size=-1),
        lambda manifest: manifest["layers"][0].update(size=2**70),
        lambda manifest: manifest["layers"][0].update(size=1e308),
        lambda manifest: manifest["layers"][0].update(size="9"),
        lambda manifest: manifest["layers"][0].update(mediaType=None),
        lambda manifest: manifest.update(layers=None),
        lambda manifest: manifest.update(layers=[[]]),
        lambda manifest: manifest.update(layers=manifest["layers"] * 5000),
        lambda manifest: manifest.update(schemaVersion="two"),
    ],
)
def test_cve_2025_1975_a_manifest_with_fields_missing_or_absurd_is_an_error(
    change: Callable[[dict[str, Any]], None], net: Net
) -> None:
    with OciServer() as server:
        manifest = server.add("library/m", [("model", MODEL)])
        change(manifest)
        server.put("library/m", manifest)
        with pytest.raises(LocalLLMError, match=r"manifest of ollama:|model files"):
            plan(server, net)


class Scripted:
    """A registry in memory, without sockets, which keeps hypothesis fast."""

    def __init__(self, manifest: bytes, blobs: Mapping[str, bytes]) -> None:
        self.manifest, self.blobs = manifest, blobs

    def get_small(
        self,
        url: str,
        *,
        credential: Credential | None = None,
        named_by_user: bool = False,
        max_bytes: int = MAX_MANIFEST_BYTES,
        headers: Mapping[str, str] | None = None,
    ) -> SmallResponse:
        assert (credential, named_by_user) == (None, True)
        assert url.startswith("https://reg.example/v2/n/m/")
        body = self.manifest if headers else self.blobs.get(url.rpartition("/")[2])
        assert body is None or len(body) <= max_bytes
        return SmallResponse(404 if body is None else 200, {}, body or b"", url)


CONFIG = {"model_format": "gguf", "model_family": "llama", "file_type": "Q4_K_M", "requires": "0.1"}
PARAMS = {"temperature": 0.5, "stop": ["a", "b"], "num_ctx": 4096, "logit_bias": ["1:2"], "num_gpu": 1}
MESSAGES = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho", "images": []}]


@st.composite
def registries(draw: st.DrawFn) -> tuple[bytes, dict[str, bytes]]:
    """A manifest and blobs with a few errors each. Digests are right, since a wrong one would hide the other errors."""
    blobs: dict[str, bytes] = {}

    def layer(kind: str, content: bytes) -> dict[str, Any]:
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        blobs[digest] = content
        return {"mediaType": KIND + kind, "digest": digest, "size": len(content)}

    def json_layer(kind: str, value: Any) -> dict[str, Any]:
        return layer(kind, json.dumps(draw(mutated(value))).encode())

    manifest = {
        "schemaVersion": 2,
        "config": json_layer("config", CONFIG),
        "layers": [
            layer("model", MODEL),
            layer("projector", b"GGUF"),
            json_layer("params", PARAMS),
            json_layer("messages", MESSAGES),
            layer("license", draw(st.binary(max_size=20))),
            layer("system", draw(st.text(max_size=20)).encode()),
        ],
    }
    return json.dumps(draw(mutated(manifest))).encode(), blobs


@given(registries())
def test_cve_2025_1975_whatever_a_registry_sends_is_a_plan_or_an_error_of_ours(
    registry: tuple[bytes, dict[str, bytes]],
) -> None:
    try:
        made = oci.plan(RegistryName("reg.example", "n", "m"), Scripted(*registry))
    except LocalLLMError as error:
        texts: tuple[str, ...] = (error.message,)
    else:
        texts = (*made.notices, made.license or "", made.quant or "")
        for file in made.files:
            assert file.url.startswith("https://reg.example/v2/n/m/blobs/sha256:")
            assert file.digest is not None
    assert all(text.isprintable() for text in texts)


@given(st.binary(max_size=200))
def test_cve_2025_1975_bytes_that_are_no_json_are_an_error(raw: bytes) -> None:
    with pytest.raises(LocalLLMError):
        oci.plan(RegistryName("reg.example", "n", "m"), Scripted(raw, {}))


@pytest.mark.parametrize(
    "realm",
    ["https://evil.example/token", "http://localhost.evil.example/token", "https://{host}/token", "http://{host}.evil.example/",
     "http://{host}@evil.example/", "//evil.example/token", "/token", "", "file:///etc/passwd", "http://[::1/"],
)  # fmt: skip
def test_cve_2025_51471_no_credential_goes_to_a_realm_elsewhere(realm: str, net: Net) -> None:
    with OciServer(login="private") as server, OciServer() as evil:
        server.add("library/m", [("model", MODEL)])
        server.realm = realm.format(host=server.host).replace("evil.example", evil.host)
        with pytest.raises(PullFailed, match=r"nothing was sent|is not a URL|not a public address|no connection"):
            plan(server, net, logins={server.host: Login(PASSWORD, USER)})
        assert evil.asked == []
        assert [asked.headers.get("authorization") for asked in server.asked] == [None]


def test_cve_2025_51471_a_challenge_after_a_redirect_is_not_answered(net: Net) -> None:
    with OciServer(login="private") as evil, OciServer() as server:
        evil.realm = f"{server.url}/token"
        server.scripted[MANIFEST] = Answer(307, b"", (("Location", f"{evil.url}{MANIFEST}"),))
        with Net(net.options.__class__(allow_private_hosts=True)) as reckless, pytest.raises(AccessDenied):
            plan(server, reckless, logins={server.host: Login(PASSWORD, USER), evil.host: Login(PASSWORD, USER)})
        assert all("authorization" not in asked.headers for asked in evil.asked + server.asked)
        assert [asked.path for asked in server.asked] == [MANIFEST]


@pytest.mark.parametrize("token", ["a\r\nX-Evil: 1", "", "a" * 40_000, "ü"])
def test_a_token_that_no_header_can_carry_is_not_used(token: str, net: Net) -> None:
    with OciServer(login="anonymous") as server:
        server.scripted["/token"] = Answer(200, json.dumps({"token": token}).encode())
        with pytest.raises(AccessDenied):
            plan(server, net)
        assert [asked.path for asked in server.asked] == [MANIFEST, "/token"]


def test_cve_2024_12886_a_manifest_that_unpacks_to_much_more_is_cut_off(net: Net) -> None:
    bomb = gzip.compress(b" " * (16 * 1024 * 1024))
    with OciServer() as server:
        server.scripted[MANIFEST] = Answer(200, bomb, (("Content-Encoding", "gzip"),))
        with pytest.raises(PullFailed, match="more than 4,194,304 bytes"):
            plan(server, net)


def test_a_text_layer_that_is_too_large_is_not_read(net: Net) -> None:
    with OciServer() as server:
        manifest = server.add("library/m", [("model", MODEL), ("system", b"x" * (1024 * 1024 + 1))])
        with pytest.raises(PullFailed, match=r"the system of ollama:.* has 1,048,577 bytes; the limit is 1,048,576"):
            plan(server, net)
        blob = f"/v2/library/m/blobs/{manifest['layers'][1]['digest']}"
        assert blob not in [asked.path for asked in server.asked]
        manifest["layers"][1]["size"] = 5  # a lie
        server.put("library/m", manifest)
        with pytest.raises(PullFailed, match="more than"):
            plan(server, net)
        server.add("library/m", [("model", MODEL), *[("license", b"%d" % number) for number in range(33)]])
        with pytest.raises(PullFailed, match="33 text layers; at most 32"):
            plan(server, net)


def test_a_text_layer_with_other_content_than_its_digest_says_is_not_used(net: Net) -> None:
    with OciServer() as server:
        manifest = server.add("library/m", [("model", MODEL), ("system", b"You are kind.")])
        server.blobs[manifest["layers"][1]["digest"]] = b"You are evil."
        with pytest.raises(PullFailed, match=r"does not match its digest .* and was not used"):
            plan(server, net)


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("params", b"[]"),
        ("params", b'{"a": ' + b"[" * 100_000),
        ("params", json.dumps({f"a{number}": 1 for number in range(101)}).encode()),
        ("messages", b'[{"role": 7}]'),
        ("messages", json.dumps([{"role": "user", "content": "x"}] * 1001).encode()),
        ("system", b"\xff\xfe"),
    ],
)
def test_a_text_layer_that_is_none_is_an_error(kind: str, content: bytes, net: Net) -> None:
    with OciServer() as server:
        server.add("library/m", [("model", MODEL), (kind, content)])
        with pytest.raises(PullFailed):
            plan(server, net)


def test_a_registrys_words_cannot_write_on_the_terminal(net: Net) -> None:
    with OciServer() as server:
        server.add(
            "library/m",
            [
                ("model", MODEL),
                ("a/\x1b]0;title\x07", b"x"),
                ("license", b"\x1b[2JMIT\r\n"),
                ("params", b'{"\\u001b[2J": 1}'),
            ],
            {"renderer": "\x1b[31mred"},
        )
        made = plan(server, net)
        assert made.license is not None
        assert all(text.isprintable() for text in (*made.notices, made.license))


def test_cve_2026_5530_a_manifest_or_redirect_cannot_lead_to_a_private_address(net: Net) -> None:
    with OciServer() as inner, OciServer() as server:
        inner.add("library/m", [("model", MODEL)])

        def redirect(asked: Asked) -> Answer:
            return Answer(307, b"", (("Location", f"{inner.url}{asked.raw_path}"),))

        server.scripted[MANIFEST] = redirect
        with pytest.raises(ForbiddenAddress):
            plan(server, net)
        server.scripted[MANIFEST] = Answer(307, b"", (("Location", "http://169.254.169.254/latest/meta-data"),))
        with pytest.raises(ForbiddenAddress):
            plan(server, net)
        assert inner.asked == []
