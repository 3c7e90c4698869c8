"""A server that load balancers shall leave: `/ready` says so while it still serves."""

from __future__ import annotations

import signal
import socket

import httpx

from tests.e2e.conftest import TIMEOUT_S
from tests.e2e.servers import Server
from tests.waiting import until


def test_after_sigterm_a_server_is_not_ready_but_serves_until_the_delay_is_over() -> None:
    with Server("--drain-delay-s", "1000") as server:
        assert server.status(path="/ready") == 200
        for _ in range(2):  # `timeout` sends it twice
            server.process.send_signal(signal.SIGTERM)
        assert server.until("leaving")["drain_delay_s"] == 1000
        ready = httpx.get(f"{server.url}/ready", trust_env=False)
        assert (ready.status_code, ready.json()["error"]["code"]) == (503, "draining")
        assert (server.status(), server.status(path="/health")) == (200, 200)
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(TIMEOUT_S) == 130, "Ctrl-C ends the delay"


def test_the_delay_ends_by_itself() -> None:
    with Server("--drain-delay-s", "0.1") as server:
        server.process.send_signal(signal.SIGTERM)
        server.until("leaving")
        assert server.process.wait(TIMEOUT_S) == 0
        assert server.process.stderr is not None
        assert "Traceback" not in server.process.stderr.read()


def test_a_client_that_has_connected_is_answered_by_a_server_that_ends() -> None:
    with Server() as server:
        host, _, port = server.url.removeprefix("http://").partition(":")

        def refuses() -> bool:
            try:
                socket.create_connection((host, int(port))).close()
            except ConnectionError:
                return True
            return False

        with socket.create_connection((host, int(port))) as connection:
            assert server.status() == 200, "and so the one before was accepted"
            server.process.send_signal(signal.SIGTERM)
            until(refuses)
            connection.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
            connection.settimeout(TIMEOUT_S)
            assert connection.recv(99).startswith(b"HTTP/1.1 ")
        assert server.process.wait(TIMEOUT_S) == 0


def test_ctrl_c_does_not_wait() -> None:
    with Server("--drain-delay-s", "1000") as server:
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(TIMEOUT_S) == 130
