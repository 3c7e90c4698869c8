"""Where RPC servers are and may listen, and what a client is told of one that does not answer as it should."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localllm.errors import InvalidParameter, LoadFailed
from localllm.rpc import hello
from localllm.settings.config import Settings, load
from localllm.types import rpc_endpoints
from localllm.types.rpc_endpoints import Endpoint, check_bind, parse_endpoint, parse_endpoints, parse_networks


def test_an_endpoint_is_a_host_and_a_port_or_llama_cpps_usual_one() -> None:
    assert parse_endpoint("Worker.lan:1234") == Endpoint("worker.lan", 1234)
    assert parse_endpoint(" 10.0.0.2 ") == Endpoint("10.0.0.2", 50052)
    assert parse_endpoints("a:1, b:2,a:1") == (Endpoint("a", 1), Endpoint("b", 2))
    assert parse_endpoints(None) == ()


@given(st.text(max_size=40))
def test_what_is_parsed_prints_as_it_parses_and_all_else_is_refused(text: str) -> None:
    with contextlib.suppress(InvalidParameter):
        endpoint = parse_endpoint(text)
        assert parse_endpoint(str(endpoint)) == endpoint


@pytest.mark.parametrize(
    "text", ["", ":1", "a:", "a:0", "a:65536", "a:b", "a b:1", "::1", "[::1]:1", "a:1:2", "-a:1", "a:²"]
)
def test_what_is_no_endpoint_is_refused(text: str) -> None:
    with pytest.raises(InvalidParameter, match="HOST:PORT"):
        parse_endpoint(text)


def test_a_bad_setting_is_refused_before_anything_is_loaded() -> None:
    with pytest.raises(InvalidParameter, match="HOST:PORT"):
        load({"rpc": "nowhere:at:all"}, environ={}).load_options()
    with pytest.raises(InvalidParameter, match="16"):
        Settings(rpc=",".join(f"host{number}" for number in range(17))).load_options()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "192.168.1.20", "10.1.2.3", "172.31.0.1", "100.64.0.1"])
def test_a_server_may_listen_where_strangers_are_not(host: str) -> None:
    address = check_bind(Endpoint(host, 50052), allow_public=False)
    assert str(address) == ("127.0.0.1" if host == "localhost" else host)


@given(st.integers(0, 2**32 - 1).map(ipaddress.IPv4Address))
def test_a_server_never_listens_on_an_address_of_the_internet_unless_that_is_allowed(
    address: ipaddress.IPv4Address,
) -> None:
    endpoint = Endpoint(str(address), 50052)
    assert check_bind(endpoint, allow_public=True) == address
    if address.is_global or address.is_unspecified:
        with pytest.raises(InvalidParameter, match="--allow-public"):
            check_bind(endpoint, allow_public=False)


def test_clients_are_those_of_private_networks_unless_they_are_named() -> None:
    assert parse_networks(None) == rpc_endpoints.PRIVATE
    (one, net) = parse_networks("192.168.1.20, 10.1.0.0/16")
    assert rpc_endpoints.is_among(ipaddress.IPv4Address("10.1.9.9"), (one, net))
    assert not rpc_endpoints.is_among(ipaddress.IPv4Address("192.168.1.21"), (one, net))
    with pytest.raises(InvalidParameter, match="clients"):
        parse_networks("10.0.0.1/8")


@contextlib.contextmanager
def _server(*answers: bytes, waits: bool = False) -> Iterator[Endpoint]:
    """Takes one client, and says this after each of its messages."""
    over = threading.Event()

    def serve() -> None:
        client, _ = listener.accept()
        with client:
            for answer in answers:
                client.recv(1024)
                client.sendall(answer)
            if waits:
                over.wait(30)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield Endpoint("127.0.0.1", listener.getsockname()[1])
        finally:
            over.set()
            thread.join()


def _hello(major: int = 7, minor: int = 0) -> bytes:
    return struct.pack("<Q", 28) + bytes((major, minor, 9, 0)) + bytes(24)


def _devices(count: int) -> bytes:
    return struct.pack("<QI", 4, count)


def test_a_server_that_answers_tells_how_many_devices_it_has() -> None:
    with _server(_hello(), _devices(3)) as endpoint:
        assert hello.ask(endpoint, (7, 0)) == 3


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ((_hello(major=8), _devices(1)), r"version 8\.0 of the RPC protocol, and this llama\.cpp 7\.0; use the same"),
        ((_hello(minor=1), _devices(1)), "version 7.1"),
        ((_hello(), _devices(0)), "has no device"),
        ((b"HTTP/1.1 400 Bad Request\r\n\r\n",), "does not answer as an RPC server"),
        ((b"",), "does not answer as an RPC server"),
        ((_hello()[:-1],), "closed the connection"),
    ],
)
def test_a_server_of_another_kind_is_said_to_be_one(answers: tuple[bytes, ...], reason: str) -> None:
    with _server(*answers) as endpoint, pytest.raises(LoadFailed, match=reason) as caught:
        hello.ask(endpoint, (7, 0))
    assert caught.value.param == "rpc"
    assert str(endpoint) in caught.value.message
    assert str(endpoint) not in caught.value.public


def test_a_server_that_is_silent_is_waited_for_so_long_and_no_longer() -> None:
    began_s = time.monotonic()
    with _server(b"\x01", waits=True) as endpoint, pytest.raises(LoadFailed, match=r"did not answer within 0\.2 s"):
        hello.ask(endpoint, (7, 0), 0.2)
    assert time.monotonic() - began_s < 5


def test_where_nobody_listens_the_remedy_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        endpoint = Endpoint("127.0.0.1", listener.getsockname()[1])
    with pytest.raises(LoadFailed, match=f"cannot be reached: .*localllm worker --rpc {endpoint}"):
        hello.ask(endpoint, (7, 0))
