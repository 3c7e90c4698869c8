"""Requests through proxies that really forward: HTTP CONNECT and SOCKS5, with and without a password."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from localllm.errors import PullFailed
from localllm.registry.fetch.net import Net, NetOptions
from tests.registry.nasty_server import Nasty
from tests.registry.test_net import CERT, tls_server
from tests.sockets import received, received_until

LOGIN = (b"user", b"se:cret")


class Proxy:
    """Speaks CONNECT or SOCKS5, and resolves every host to loopback."""

    def __init__(self, *, login: tuple[bytes, bytes] | None = None, refuses: bool = False) -> None:
        self.asked: list[bytes] = []
        self._login = login
        self._refuses = refuses
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._threads: list[threading.Thread] = []
        self._sockets: list[socket.socket] = []

    def start(self, speak: str) -> None:
        self._run(self._accept, speak)

    def stop(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        for sock in self._sockets:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # it is closed already
        for thread in self._threads:
            thread.join()
        for sock in [self._listener, *self._sockets]:
            sock.close()

    def _run(self, work: object, *arguments: object) -> None:
        assert callable(work)
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self, speak: str) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._sockets.append(client)
            self._run(self._serve, client, speak)

    def _serve(self, client: socket.socket, speak: str) -> None:
        port = self._connect_port(client) if speak == "http" else self._socks_port(client)
        if port is None:
            client.close()
            return
        there = socket.create_connection(("127.0.0.1", port))
        self._sockets.append(there)
        self._run(self._pump, there, client)
        self._pump(client, there)

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            return  # one of the two hung up

    def _connect_port(self, client: socket.socket) -> int | None:
        head = received_until(client, b"\r\n\r\n")
        self.asked.append(head)
        if self._refuses:
            client.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            return None
        client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        return int(head.split()[1].rpartition(b":")[2])

    def _socks_port(self, client: socket.socket) -> int | None:
        methods = received(client, received(client, 2)[1])
        wanted = 0 if self._login is None else 2
        client.sendall(bytes([5, wanted if wanted in methods else 0xFF]))
        if wanted not in methods:
            return None
        if self._login is not None:
            user = received(client, received(client, 2)[1])
            password = received(client, received(client, 1)[0])
            client.sendall(bytes([1, 0 if (user, password) == self._login else 1]))
            if (user, password) != self._login:
                return None
        kind = received(client, 4)[3]
        host = received(client, {1: 4, 4: 16}.get(kind) or received(client, 1)[0])
        self.asked.append(host)
        status = b"\x05" if self._refuses else b"\0"
        client.sendall(b"\x05" + status + b"\0\x01\n\n\n\n\0\0")  # it is at 10.10.10.10, which is no blank line
        port = int.from_bytes(received(client, 2), "big")
        return None if self._refuses else port


@contextmanager
def proxied(speak: str, *, login: tuple[bytes, bytes] | None = None, refuses: bool = False) -> Iterator[Proxy]:
    proxy = Proxy(login=login, refuses=refuses)
    proxy.start(speak)
    try:
        yield proxy
    finally:
        proxy.stop()


def test_https_goes_through_connect_and_the_certificate_is_that_of_the_host_itself() -> None:
    with proxied("http") as proxy, tls_server() as server:
        address = f"http://user:secret@127.0.0.1:{proxy.port}"
        with Net(NetOptions(proxy=address, ca_file=CERT)) as net:
            for _ in range(2):
                assert (
                    len(net.get_small(server.url.replace("127.0.0.1", "localhost"), named_by_user=True).body)
                    == 1_000_000
                )
        assert len(proxy.asked) == 1, "the second request goes over the same connection"
        assert proxy.asked[0].startswith(b"CONNECT localhost:%d HTTP/1.1\r\n" % server.port)
        assert b"proxy-authorization: basic dxnlcjpzzwnyzxq=" in proxy.asked[0].lower()
        assert all("proxy-authorization" not in asked.headers for asked in server.asked)


def test_a_proxy_that_refuses_connect_is_named() -> None:
    with (
        proxied("http", refuses=True) as proxy,
        Net(NetOptions(proxy=f"http://127.0.0.1:{proxy.port}")) as net,
        pytest.raises(PullFailed, match=r"proxy cannot connect to models\.example: it answered 407"),
    ):
        net.send("GET", "https://models.example/x")


@pytest.mark.parametrize("login", [None, LOGIN])
def test_a_socks_proxy_resolves_the_name_and_takes_a_password(login: tuple[bytes, bytes] | None) -> None:
    with proxied("socks", login=login) as proxy, Nasty(b"through socks") as server:
        user = "" if login is None else "user:se%3Acret@"
        with Net(NetOptions(proxy=f"socks5://{user}127.0.0.1:{proxy.port}")) as net:
            assert net.get_small(f"http://models.example:{server.port}/x").body == b"through socks"
        assert proxy.asked == [b"models.example"]
        assert server.asked[0].headers["host"] == f"models.example:{server.port}"


@pytest.mark.parametrize(
    ("login", "typed", "refuses", "reason"),
    [
        (LOGIN, "", False, "requires a user name and a password"),
        (LOGIN, "user:wrong@", False, "rejected the user name"),
        (None, "", True, "connection refused"),
    ],
)
def test_what_a_socks_proxy_refuses_is_said(
    login: tuple[bytes, bytes] | None, typed: str, refuses: bool, reason: str
) -> None:
    with (
        proxied("socks", login=login, refuses=refuses) as proxy,
        Net(NetOptions(proxy=f"socks5://{typed}127.0.0.1:{proxy.port}")) as net,
        pytest.raises(PullFailed, match=reason),
    ):
        net.send("GET", "http://models.example/x")
