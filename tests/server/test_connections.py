"""More clients than there is room for: the idle ones go, who is busy stays, and the log does not grow."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from localllm.server.edge.connections import HANDSHAKE_S, MAX_REFUSED, Connections, most_connections
from localllm.settings.config import Settings
from localllm.system import processes
from localllm.types import Delta
from tests.server.conftest import Served, running
from tests.server.fake_runtime import HANG
from tests.sockets import received_to_the_end, received_until

GET = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"
DATA = Path(__file__).with_name("data")
CERT, KEY = DATA / "localhost.cert.pem", DATA / "localhost.key.pem"
TRUSTED = ssl.create_default_context(cafile=str(CERT))


class Client:
    """A connection for `Connections`."""

    def __init__(self, connections: Connections[Client]) -> None:
        self.is_idle = True
        self.is_dropped = False
        connections.opened(self)

    def drop(self) -> None:
        self.is_dropped = True


def test_the_one_that_is_idle_longest_goes_and_busy_ones_stay() -> None:
    connections = Connections[Client](3)
    first, second, third = (Client(connections) for _ in range(3))
    first.is_idle = False
    assert connections.make_room()
    assert (first.is_dropped, second.is_dropped, third.is_dropped) == (False, True, False)
    first.is_idle = True
    connections.rested(first)
    fourth = Client(connections)
    assert connections.make_room()
    assert (third.is_dropped, first.is_dropped) == (True, False)
    fifth = Client(connections)
    for busy in (first, fourth, fifth):
        busy.is_idle = False
    assert not connections.make_room()
    connections.lost(fourth)
    assert connections.make_room()
    assert len(connections) == 2


def test_handshakes_count_and_those_that_are_stuck_make_room() -> None:
    connections = Connections[Client](2)
    Client(connections).is_idle = False
    dropped: list[str] = []
    connections.opening("first", 10.0, lambda: dropped.append("first"))
    assert not connections.make_room(10.0 + 0.9 * HANDSHAKE_S), "it may yet complete"
    assert connections.make_room(10.0 + HANDSHAKE_S)
    assert dropped == ["first"]
    connections.opening("second", 20.0, lambda: dropped.append("second"))
    connections.settled("second")
    assert connections.make_room(20.0)
    assert dropped == ["first"]


@pytest.mark.parametrize(
    ("max_files", "most"), [(None, 1000), (8192, 1000), (1024, 896), (256, 128), (64, 32), (2, 1), (1, 1)]
)
def test_connections_leave_files_for_everything_else(max_files: int | None, most: int) -> None:
    assert most_connections(1000, max_files) == most


def test_the_limit_of_open_files_is_raised_as_far_as_it_may_be() -> None:
    before = processes.raise_file_limit(1)
    after = processes.raise_file_limit(1 if before is None else before)
    assert before == after


@contextlib.contextmanager
def _silent(served: Served, count: int) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(socket.create_connection(served.address)) for _ in range(count)]


@pytest.fixture(scope="module")
def small() -> Iterator[Served]:
    with running(Settings(port=0, grace_s=0.1, max_connections=4)) as served:
        yield served


@pytest.mark.parametrize("said", [b"", GET[:20], GET])
def test_clients_that_ask_nothing_make_room_for_who_does(small: Served, said: bytes) -> None:
    with _silent(small, 40) as idle:
        for connection in idle:
            with contextlib.suppress(ConnectionError):  # it may have been dropped for the next already
                connection.sendall(said)
        for _ in range(3):
            with socket.create_connection(small.address) as asking:
                asking.sendall(GET)
                asking.settimeout(10)
                assert asking.recv(65536).startswith(b"HTTP/1.1 200")


def test_where_all_are_busy_one_more_is_refused_with_the_number_and_a_stream_goes_on(small: Served) -> None:
    small.runtime.reset()
    small.runtime.script = [Delta("Hel"), HANG]
    body = json.dumps({"model": "tiny", "prompt": "x", "stream": True}).encode()
    ask = b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    ask += f"content-length: {len(body)}\r\n\r\n".encode() + body
    with _silent(small, 4) as streams:
        for stream in streams:
            stream.sendall(ask)
            stream.settimeout(10)
            received_until(stream, b"Hel")
        with socket.create_connection(small.address) as refused:
            refused.settimeout(10)
            answer = received_to_the_end(refused)
        head, _, content = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503")
        assert b"retry-after: 1" in head
        assert b"connection: close" in head
        assert b"x-request-id: " in head
        assert json.loads(content)["error"]["code"] == "overloaded"
        assert "all 4 connections are busy" in json.loads(content)["error"]["message"]
        readable, _, _ = select.select(streams, [], [], 0)
        assert not readable, "no stream was cut"
        # A crowd is hung up on, without a word: nobody can use up the descriptors by being refused.
        with _silent(small, 3 * MAX_REFUSED) as crowd:
            for connection in crowd:
                connection.settimeout(10)
                with contextlib.suppress(ConnectionError):
                    received_to_the_end(connection)
    assert small.runtime.answers[0].closed.wait(10)
    with socket.create_connection(small.address) as asking:
        asking.sendall(GET)
        asking.settimeout(10)
        assert asking.recv(65536).startswith(b"HTTP/1.1 200")


def test_clients_that_never_begin_the_tls_handshake_are_limited_and_make_room() -> None:
    settings = Settings(port=0, grace_s=0.1, max_connections=4, tls_cert_file=CERT, tls_key_file=KEY)
    with running(settings) as served, _silent(served, 4 + MAX_REFUSED + 8) as idle:
        closed, _, _ = select.select(idle, [], [], 5)
        assert closed, "more than the limit were kept"
        deadline_s = time.monotonic() + 20
        answer = b""
        while b"200 OK" not in answer:
            assert time.monotonic() < deadline_s
            with (
                contextlib.suppress(OSError),
                socket.create_connection(served.address, 5) as plain,
                TRUSTED.wrap_socket(plain, server_hostname="localhost") as asking,
            ):
                asking.sendall(GET)
                answer = asking.recv(65536)


@pytest.mark.skipif(sys.platform == "win32", reason="has no such limit")
def test_400_connections_at_a_limit_of_256_files_neither_stop_health_nor_fill_the_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = f'ulimit -n 256; exec "{sys.executable}" -m localllm serve --port 0 --ready json'
    with (
        log.open("wb") as stderr,
        subprocess.Popen(
            ["/bin/sh", "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr
        ) as process,
        contextlib.ExitStack() as stack,
    ):
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["url"]
        host, _, port = url.removeprefix("http://").partition(":")
        for _ in range(400):
            stack.enter_context(socket.create_connection((host, int(port))))
        for _ in range(20):
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"{url}/health", timeout=20) as got:
                assert got.status == 200
        assert process.stdin is not None
        process.stdin.close()
        process.wait(30)
    text = log.read_text("utf-8")
    assert "fewer_connections max_connections=128" in text
    assert len(text) < 20_000


def test_handshakes_that_never_end_keep_nobody_from_being_refused_clearly() -> None:
    settings = Settings(port=0, grace_s=0.1, max_connections=2, tls_cert_file=CERT, tls_key_file=KEY)
    body = json.dumps({"model": "tiny", "prompt": "x", "stream": True}).encode()
    ask = b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    ask += f"content-length: {len(body)}\r\n\r\n".encode() + body
    with running(settings) as served, contextlib.ExitStack() as stack:
        served.runtime.script = [Delta("Hel"), HANG]
        for _ in range(2):
            stream = stack.enter_context(_secured(served))
            stream.sendall(ask)
            received_until(stream, b"Hel")
        silent = stack.enter_context(_silent(served, MAX_REFUSED))
        for oldest in silent[:2]:
            refused = stack.enter_context(_secured(served))
            assert refused.recv(65536).startswith(b"HTTP/1.1 503")
            oldest.settimeout(10)
            assert oldest.recv(1) == b"", "it made room"
        assert not select.select(silent[2:], [], [], 0)[0]


@contextlib.contextmanager
def _secured(served: Served) -> Iterator[ssl.SSLSocket]:
    with (
        socket.create_connection(served.address, 10) as plain,
        TRUSTED.wrap_socket(plain, server_hostname="localhost") as secured,
    ):
        yield secured


@pytest.mark.skipif(sys.platform == "win32", reason="has no such limit")
def test_out_of_files_the_server_says_so_rarely_and_answers_again_when_there_are_some(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Something else used them up: the reserve was not enough."""
    import resource

    caplog.set_level(logging.INFO, "localllm")
    with running(Settings(port=0, grace_s=0.1)) as served:
        waiting = [socket.socket() for _ in range(30)]
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        highest = max(connection.fileno() for connection in waiting)
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, hard))
        hoard: list[int] = []
        try:
            with contextlib.suppress(OSError):
                while True:
                    hoard.append(os.dup(0))
            for connection in waiting:
                connection.connect(served.address)  # into the backlog
            waiting[0].settimeout(0.5)
            with pytest.raises(TimeoutError):
                waiting[0].recv(1)
        finally:
            for fd in hoard:
                os.close(fd)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        waiting[-1].sendall(GET)
        waiting[-1].settimeout(10)
        assert waiting[-1].recv(65536).startswith(b"HTTP/1.1 200")
        for connection in waiting:
            connection.close()
    lines = [record for record in caplog.records if record.getMessage() == "cannot_accept"]
    assert len(lines) == 1
