"""Clients that send too much, too slowly or no HTTP at all, that take nothing, or that wait in silence."""

from __future__ import annotations

import json
import logging
import re
import socket
from collections.abc import Iterator

import pytest

from localllm.settings.config import Settings
from localllm.types import Delta
from tests.server.conftest import Served, running
from tests.server.fake_runtime import FINISH, HANG
from tests.sockets import received_to_the_end

HEAD = b"GET /v1/models HTTP/1.1\r\nhost: localhost\r\n"
POST = b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"


def _read_all(connection: socket.socket) -> bytes:
    """Until the server closes; fails if it never does."""
    connection.settimeout(10)
    return received_to_the_end(connection)


def _read_until_silent(connection: socket.socket, silence_s: float) -> bytes:
    """Until nothing comes for so long; fails if the server closes."""
    connection.settimeout(silence_s)
    received = b""
    try:
        while chunk := connection.recv(65536):
            received += chunk
    except TimeoutError:
        return received
    raise AssertionError("the server hung up")


def _status_and_code(received: bytes) -> tuple[int, str]:
    head, _, body = received.partition(b"\r\n\r\n")
    assert b"connection: close" in head.lower()
    assert b"content-type: application/json" in head.lower()
    assert re.search(rb"\r\nx-request-id: [0-9a-f]{16}\r\n", head + b"\r\n"), head
    return int(head.split()[1]), json.loads(body)["error"]["code"]


def _body(**fields: object) -> bytes:
    content = json.dumps({"model": "tiny", "prompt": "x"} | fields).encode()
    return f"content-length: {len(content)}\r\n\r\n".encode() + content


@pytest.fixture(scope="module")
def impatient_server() -> Iterator[Served]:
    settings = Settings(port=0, grace_s=0.1, body_timeout_s=0.5, slow_reader_timeout_s=0.5, max_body_bytes=1000)
    with running(settings) as served:
        yield served


@pytest.fixture
def impatient(impatient_server: Served) -> Served:
    impatient_server.runtime.reset()
    return impatient_server


def test_an_endless_head_is_refused_with_an_answer_even_while_more_of_it_comes(served: Served) -> None:
    with socket.create_connection(served.address) as connection:
        connection.sendall(HEAD + b"x-long: " + b"a" * 200_000)
        assert _status_and_code(_read_all(connection)) == (431, "headers_too_large")


def test_a_head_over_the_limit_is_refused_although_it_came_in_one_piece(served: Served) -> None:
    response = served.http.get("/v1/models", headers={"x-long": "a" * 66_000})
    assert response.status_code == 431
    assert response.json()["error"]["code"] == "headers_too_large"
    assert "--max-header-bytes" in response.json()["error"]["message"]
    assert served.http.get("/v1/models", headers={"x-long": "a" * 60_000}).status_code == 200


def test_a_first_line_over_the_limit_is_refused(served: Served) -> None:
    with socket.create_connection(served.address) as connection:
        connection.sendall(
            b"GET /v1/models?" + b"a" * 66_000 + b" HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
        )
        assert _status_and_code(_read_all(connection)) == (431, "headers_too_large")


@pytest.mark.parametrize("nonsense", [b"\x16\x03\x01\x02\x00\x01\r\n\r\n", b"GET\r\n\r\n", HEAD + b"no colon\r\n\r\n"])
def test_what_is_no_http_is_told_so(served: Served, nonsense: bytes) -> None:
    with socket.create_connection(served.address) as connection:
        connection.sendall(nonsense)
        assert _status_and_code(_read_all(connection)) == (400, "malformed_request")


def test_a_body_that_stops_being_http_is_refused_under_the_id_that_the_client_chose(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "localllm")
    with socket.create_connection(served.address) as connection:
        connection.sendall(POST + b"x-request-id: mine\r\ntransfer-encoding: chunked\r\n\r\nno size\r\n")
        head = _read_all(connection).partition(b"\r\n\r\n")[0]
    assert head.startswith(b"HTTP/1.1 400")
    assert b"\r\nx-request-id: mine\r\n" in head + b"\r\n"
    assert "mine" in [vars(record)["fields"]["id"] for record in caplog.records if record.getMessage() == "refused"]


def test_a_head_that_does_not_end_is_given_up_with_an_answer(impatient: Served) -> None:
    with socket.create_connection(impatient.address) as connection:
        connection.sendall(HEAD)
        assert _status_and_code(_read_all(connection)) == (408, "request_timeout")


def test_a_connection_on_which_nothing_ever_comes_is_closed(impatient: Served) -> None:
    with socket.create_connection(impatient.address) as connection:
        assert _read_all(connection) == b""


def test_the_next_head_of_a_connection_that_was_used_has_as_little_time(impatient: Served) -> None:
    with socket.create_connection(impatient.address) as connection:
        connection.sendall(HEAD + b"\r\n" + HEAD)
        first, _, rest = _read_all(connection).partition(b"HTTP/1.1 408")
        assert first.startswith(b"HTTP/1.1 200")
        assert b"request_timeout" in rest


def test_a_body_that_does_not_end_is_given_up_with_an_answer(impatient: Served) -> None:
    with socket.create_connection(impatient.address) as connection:
        connection.sendall((POST + _body())[:-1])
        assert _status_and_code(_read_all(connection)) == (408, "request_timeout")
    assert impatient.runtime.asked == []


def test_a_body_that_nobody_reads_has_as_little_time(impatient: Served) -> None:
    with socket.create_connection(impatient.address) as connection:
        connection.sendall(POST + b"content-length: 999999999\r\n\r\n{")  # more than pictures may add
        received = _read_all(connection)
        assert received.startswith(b"HTTP/1.1 413")


def test_an_answer_may_take_longer_than_the_request_did(impatient: Served) -> None:
    impatient.runtime.script = [Delta("Hel"), HANG]
    with socket.create_connection(impatient.address) as connection:
        connection.sendall(POST + _body(stream=True))
        assert b"Hel" in _read_until_silent(connection, 0.8)  # more than a body may take


def test_a_client_that_takes_nothing_is_dropped_and_its_answer_cancelled(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "localllm")
    with running(Settings(port=0, grace_s=0.1, slow_reader_timeout_s=0.3)) as served:
        served.runtime.script = [Delta("x" * 1_000_000, 1)] * 100  # more than any socket buffers
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(served.address)
            connection.sendall(POST + _body(stream=True))
            assert served.runtime.answered.wait(5)
            assert served.runtime.answers[0].closed.wait(10)
    lines = [vars(record)["fields"] for record in caplog.records if record.getMessage() == "request"]
    assert "slow_reader" in [line["outcome"] for line in lines]


def test_a_client_that_takes_little_by_little_gets_all(impatient: Served) -> None:
    """Its window is so small that this takes longer than a client may that takes nothing."""
    impatient.runtime.script = [Delta("x" * 100_000, 1)] * 30 + [Delta("", 1, FINISH)]
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(impatient.address)
        connection.sendall(POST + b"connection: close\r\n" + _body(stream=True))
        received = _read_all(connection)
    assert received.count(b"x") >= 3_000_000
    assert b"[DONE]" in received


def test_silence_is_filled_with_comments_between_events() -> None:
    with running(Settings(port=0, grace_s=0.1, keep_alive_s=0.05)) as served:
        served.runtime.script = [Delta("Hel"), HANG]
        body = {"model": "tiny", "prompt": "x", "stream": True}
        received = ""
        with served.http.stream("POST", "/v1/completions", json=body) as response:
            for text in response.iter_text():
                received += text
                if received.count(": keep-alive\n\n") >= 3:
                    break
    events = received.split("\n\n")[:-1]
    assert {event.partition(":")[0] for event in events} == {"", "data"}
    assert [event for event in events if event.startswith(":")] == [": keep-alive"] * 3
    assert "Hel" in events[0], "an answer that begins at once begins with itself"


def test_a_stream_that_is_never_silent_and_one_without_keep_alive_have_no_comments(served: Served) -> None:
    body = {"model": "tiny", "prompt": "x", "stream": True}
    assert "keep-alive" not in served.http.post("/v1/completions", json=body).text
    with running(Settings(port=0, grace_s=0.1, keep_alive_s=0)) as never:
        assert "keep-alive" not in never.http.post("/v1/completions", json=body).text
