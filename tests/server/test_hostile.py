"""Hundreds of hostile requests to a real server and model: none is a 500, none hangs, and nobody else notices.

Each group stands between two conversations of somebody innocent, whose answer is the same, and after each request the
server says that it is there.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from localllm.settings.config import Settings
from tests.server import hostile
from tests.server.conftest import serving

BODY_TIMEOUT_S = 2.0
ENDS_S = 60.0
"""For any answer: far more than one takes on a busy machine."""

INNOCENT = {
    "model": "demo",
    "messages": [{"role": "user", "content": "What is the capital of France?"}],
    "max_tokens": 16,
    "temperature": 0,
}
SOCKETS = {
    "malformed": hostile.MALFORMED,
    "framing": hostile.FRAMING,
    "headers": hostile.HEADERS,
    "paths": hostile.PATHS,
}
ASKS = {
    "methods": hostile.METHODS,
    "bodies": hostile.BODIES,
    "types": hostile.TYPES,
    "messages": hostile.MESSAGES,
    "structures": hostile.STRUCTURES,
    "other APIs": hostile.OTHER_APIS,
    "sampling": hostile.SAMPLING,
    "pictures": hostile.PICTURES,
}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    settings = Settings(port=0, grace_s=0.1, slots=2, ctx=1024, body_timeout_s=BODY_TIMEOUT_S, max_body_bytes=4 * 2**20)
    with serving(settings, model="demo") as url:
        yield url


@pytest.fixture
def http(url: str) -> Iterator[httpx.Client]:
    """Of somebody innocent, before and after."""
    with httpx.Client(base_url=url, timeout=ENDS_S, trust_env=False) as http:
        before = _innocent_answer(http)
        yield http
        assert _innocent_answer(http) == before


def _innocent_answer(http: httpx.Client) -> str:
    response = http.post("/v1/chat/completions", json=INNOCENT)
    assert response.status_code == 200, response.text
    text: str = response.json()["choices"][0]["message"]["content"]
    return text


def _is_well(http: httpx.Client) -> bool:
    return http.get("/health").status_code == http.get("/ready").status_code == 200


@pytest.mark.parametrize("group", SOCKETS)
def test_bytes_that_are_hardly_http_end_with_an_answer_or_a_closed_connection(http: httpx.Client, group: str) -> None:
    address = (http.base_url.host, http.base_url.port or 80)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda sent: _exchanged(address, sent), SOCKETS[group]))
        assert _is_well(http)
    for sent, received in zip(SOCKETS[group], answers, strict=True):
        statuses = [int(status) for status in re.findall(rb"HTTP/1\.1 ([0-9]{3})", received)]
        assert not [status for status in statuses if status >= 500], (sent[:200], received[:500])


def _exchanged(address: tuple[str, int], sent: bytes) -> bytes:
    """All that comes until the server closes, which it has to."""
    received = b""
    with socket.create_connection(address) as connection:
        connection.settimeout(ENDS_S)
        try:
            connection.sendall(sent)
            while piece := connection.recv(65536):
                received += piece
        except ConnectionError:
            return received
    return received


@pytest.mark.parametrize("group", ASKS)
def test_no_request_is_a_500_and_none_hangs(http: httpx.Client, group: str) -> None:
    _ask_all(http, ASKS[group])


def test_token_ids_that_no_model_has_are_refused_one_by_one(http: httpx.Client) -> None:
    assert set(_ask_all(http, hostile.TOKENS)) == {400}


def _ask_all(http: httpx.Client, asks: Sequence[hostile.Ask]) -> list[int]:
    """The statuses; none is of a failure."""
    failed: list[tuple[hostile.Ask, int, str]] = []
    statuses: list[int] = []
    for ask in asks:
        body = b"" if ask.method in ("GET", "HEAD") else hostile.json_bytes(ask.body)
        response = http.request(ask.method, ask.path, content=body, headers={"content-type": "application/json"})
        statuses.append(response.status_code)
        if response.status_code >= 500 or '"server_error"' in response.text:
            failed.append((ask, response.status_code, response.text[:300]))
        elif response.status_code >= 400 and ask.method != "HEAD":
            error = response.json()["error"]  # a sentence of its own in Ollama's API and TEI's
            assert error if isinstance(error, str) else error["message"]
            assert len(response.content) < 2500
        assert _is_well(http), ask
    assert not failed, "\n".join(f"{str(ask)[:200]}: {status} {text}" for ask, status, text in failed)
    return statuses


def test_there_are_at_least_250_of_them() -> None:
    num_asked = sum(len(asks) for asks in ASKS.values()) + len(hostile.TOKENS)
    assert sum(len(group) for group in SOCKETS.values()) + num_asked >= 250
