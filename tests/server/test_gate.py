"""Who may ask: hosts, origins, keys, sizes. What went wrong in other servers is in `test_security_cases.py`."""

from __future__ import annotations

import ipaddress
import re
import socket

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localllm.server.edge.callers import KeyRing
from localllm.server.edge.gate import Gate, host_name
from localllm.server.errors import InvalidApiKey
from localllm.server.listening import bind, url_of
from localllm.settings.config import Settings
from tests.server.conftest import Served, running

CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}]}


def _code(response: httpx.Response) -> str:
    code: str = response.json()["error"]["code"]
    return code


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:8080", "10.1.2.3:99", "box.local", "localhost.", "a.home.arpa",
     "host.docker.internal:11435", "host.containers.internal", "localllm:11435"],
)  # fmt: skip
def test_names_that_no_stranger_can_own_are_answered(served: Served, host: str) -> None:
    assert served.http.get("/v1/models", headers={"host": host}).status_code == 200


NONSENSE = (
    "", ":80", ".", "a@localhost", "localhost/x", "localhost?x", "localhost#x", "\\localhost", "local host",
    "[::1", "::1", "[::1].evil.example", "[::1]x", "[::1]@evil.example", "[127.0.0.1]", "[localhost]", "[]",
    "[::1%25lo]",
    "localhost:x:y]", "localhost:21100:1", "localhost:-1", "localhost:+1", "localhost:99999", "localhost:1e3",
    "2130706433", "internal.evil.example", ".internal..",
    "localhost%00", "localhost,evil.example", "127.0.0.1.evil.example", "127.1", "0x7f.0.0.1", "localhost..",
)  # fmt: skip


@pytest.mark.parametrize("host", NONSENSE)
def test_nonsense_for_a_host_is_refused(served: Served, host: str) -> None:
    assert served.http.get("/v1/models", headers={"host": host}).status_code in (400, 403)


@pytest.mark.parametrize(
    ("target", "host", "status"),
    [
        ("/health", None, 200),
        ("/v1/models", None, 200),
        ("http://localhost:1/health?x=1", "evil.example", 200),
        ("HTTP://127.0.0.1", "evil.example", 200),
        ("http://evil.example/v1/models", "localhost", 403),
        ("http://localhost@evil.example/v1/models", "localhost", 403),
        ("http:///v1/models", "localhost", 403),
    ],
)
def test_the_request_line_may_name_the_host_and_http_1_0_may_name_none(
    served: Served, target: str, host: str | None, status: int
) -> None:
    with socket.create_connection(served.address, timeout=10) as connection:
        named = f"Host: {host}\r\n" if host else ""
        connection.sendall(f"GET {target} HTTP/1.0\r\n{named}\r\n".encode())
        assert connection.makefile("rb").readline().split()[1] == str(status).encode()


NAMES = st.from_regex(r"[A-Za-z0-9_]([A-Za-z0-9._-]{0,40}[A-Za-z0-9_-])?", fullmatch=True)
PORTS = st.one_of(st.just(""), st.just(":"), st.integers(0, 65535).map(":{}".format))


@given(NAMES, PORTS)
def test_a_name_with_or_without_a_port_is_that_name(name: str, port: str) -> None:
    assert host_name(name + port) == host_name(name + "." + port) == name.lower()


@given(st.ip_addresses(v=6), PORTS)
def test_an_ipv6_address_stands_in_brackets(address: ipaddress.IPv6Address, port: str) -> None:
    assert host_name(f"[{address.exploded}]{port}") == address.exploded
    assert host_name(f"{address.exploded}{port}") == ""


@given(st.text(alphabet="[]:.@/%\\ -_a1:localhost", max_size=24))
def test_what_is_taken_for_a_host_is_nothing_but_a_host_and_a_port(header: str) -> None:
    name = host_name(header)
    if name:
        rest = header.lower().replace(f"[{name}]" if ":" in name else name, "", 1)
        assert re.fullmatch(r"\.?(:[0-9]{0,5})?", rest)


def test_a_configured_host_name_is_answered(guarded: Served) -> None:
    headers = {"host": "model.example", "x-api-key": "sesame"}
    assert guarded.http.get("/v1/models", headers=headers).status_code == 200


def test_our_own_origin_is_answered_and_no_cors_header_is_sent(served: Served) -> None:
    headers = {"origin": served.url, "sec-fetch-site": "same-origin"}
    response = served.http.post("/v1/chat/completions", json=CHAT, headers=headers)
    assert response.status_code == 200
    assert not [name for name in response.headers if name.startswith("access-control")]


@pytest.mark.parametrize("kind", ["application/json", "Application/JSON; charset=utf-8", "application/vnd.x+json"])
def test_json_by_any_name_is_read(served: Served, kind: str) -> None:
    body = b'{"model":"tiny","prompt":"x"}'
    assert served.http.post("/v1/completions", content=body, headers={"content-type": kind}).status_code == 200


def test_a_non_loopback_bind_starts_with_a_key_or_the_explicit_flag() -> None:
    with bind(Settings(host="0.0.0.0", port=0), has_key=True) as listener:
        assert url_of(listener).startswith("http://127.0.0.1:")
    bind(Settings(host="0.0.0.0", port=0, allow_remote_without_key=True), has_key=False).close()


@pytest.mark.parametrize("headers", [{"authorization": "bearer sesame"}, {"x-api-key": "another"}])
def test_a_key_opens_by_either_header(guarded: Served, headers: dict[str, str]) -> None:
    assert guarded.http.get("/v1/models", headers=headers).status_code == 200


@pytest.mark.parametrize("secret", ["sésame", "кляуза-à", "鍵", "cl\u00a0é"])
def test_a_key_in_utf_8_opens_by_either_header_and_its_neighbours_do_not(secret: str) -> None:
    gate = Gate(_unreachable, keys=KeyRing(Settings(api_keys=f"anna={secret}")))
    key = secret.encode()
    for name, value in (
        (b"x-api-key", key),
        (b"authorization", b"Bearer " + key),
        (b"authorization", b"bearer  " + key),
    ):
        assert gate._caller({name: value}).name == "anna"
    for wrong in (key[:-1], key + b"\x80", secret.encode("utf-16-le")):
        with pytest.raises(InvalidApiKey):
            gate._caller({b"x-api-key": wrong})


async def _unreachable(*_: object) -> None:
    raise AssertionError


def test_a_key_in_utf_8_opens_over_http() -> None:
    with running(Settings(port=0, grace_s=0.1, api_keys="sésame-à")) as served:
        for headers in ([(b"x-api-key", "sésame-à".encode())], [(b"authorization", b"Bearer " + "sésame-à".encode())]):
            assert served.http.get("/v1/models", headers=headers).status_code == 200
            assert served.http.get("/v1/models", headers=[(headers[0][0], headers[0][1][:-1])]).status_code == 401


def test_probes_need_neither_a_key_nor_a_known_host_without_which_no_model_is_named(guarded: Served) -> None:
    foreign = {"host": "balancer.example"}
    assert guarded.http.get("/health").json() == guarded.http.get("/v1/health", headers=foreign).json()
    assert guarded.http.get("/ready").json()["models"] == ["tiny"]
    assert guarded.http.get("/ready", headers=foreign).json() == {"models": [], "status": "ready"}
    guarded.runtime.restarts = ["tiny"]
    try:
        said = guarded.http.get("/ready", headers=foreign)
    finally:
        guarded.runtime.reset()
    assert said.status_code == 503
    assert "tiny" not in said.text


def test_a_page_of_another_site_may_not_probe(served: Served) -> None:
    for headers in ({"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}):
        assert served.http.get("/ready", headers=headers).status_code == 403


def test_a_body_over_the_limit_is_refused_by_its_length_and_by_its_bytes(served: Served) -> None:
    body = b'{"model":"tiny","prompt":"' + b"x" * 100_000 + b'"}'
    kind = {"content-type": "application/json"}
    declared = served.http.post("/v1/completions", content=body, headers=kind)
    chunked = served.http.post("/v1/completions", content=iter([body[:60_000], body[60_000:]]), headers=kind)
    assert [response.status_code for response in (declared, chunked)] == [413, 413]
    assert _code(declared) == _code(chunked) == "too_large"
