"""The guard against private addresses: in any notation, and behind any name."""

from __future__ import annotations

import ipaddress
import socket
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localllm.errors import ForbiddenAddress
from localllm.registry.fetch import sockets
from localllm.registry.fetch.guard import check_address, check_name, is_public
from localllm.registry.fetch.sockets import Dialer, Patience, requesting
from localllm.registry.remote import Cancelled

PRIVATE = [
    "127.0.0.1",
    "127.255.255.254",
    "0.0.0.0",
    "10.1.2.3",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "100.127.255.255",
    "192.0.0.192",
    "198.18.0.1",
    "203.0.113.7",
    "224.0.0.1",
    "239.255.255.250",
    "255.255.255.255",
    "::",
    "::1",
    "::ffff:127.0.0.1",
    "::ffff:8.8.8.8",
    "::7f00:1",
    "64:ff9b::127.0.0.1",
    "64:ff9b::169.254.169.254",
    "64:ff9b:1::8.8.8.8",
    "2002:7f00:1::",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "2001:db8::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
    "100::1",
    "5f00::1",
]
PUBLIC = ["8.8.8.8", "1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "2a00:1450:4001:81c::200e"]
PUBLIC_IN_IPV6_ONLY_NETWORKS = "64:ff9b::8.8.8.8"


@pytest.mark.parametrize("address", PRIVATE)
def test_a_private_address_is_refused_as_a_literal_and_as_what_a_name_leads_to(address: str) -> None:
    with pytest.raises(ForbiddenAddress):
        check_name(address)
    with pytest.raises(ForbiddenAddress, match=r"models\.example"):
        check_address(address, "models.example")


@pytest.mark.parametrize("address", [*PUBLIC, PUBLIC_IN_IPV6_ONLY_NETWORKS])
def test_a_public_address_is_not(address: str) -> None:
    check_name(address)
    check_address(address, "models.example")


@pytest.mark.parametrize(
    "name",
    ["localhost", "LOCALHOST.", "x.localhost", "router.lan", "nas.local", "metadata.google.internal", "2130706433",
     "0x7f000001", "0x7f.1", "0177.0.0.1", "127.1", "[::1]", "3232235777"],
)  # fmt: skip
def test_other_spellings_of_private_hosts_are_seen_without_asking_dns(name: str) -> None:
    with pytest.raises(ForbiddenAddress):
        check_name(name)


@given(st.integers(0, 2**32 - 1))
def test_nothing_that_python_calls_private_is_public_here(number: int) -> None:
    address = ipaddress.IPv4Address(number)
    if address.is_private or address.is_multicast or address.is_link_local or address.is_loopback:
        assert not is_public(address)
    mapped = ipaddress.IPv6Address((0xFFFF << 32) + number)
    assert not is_public(mapped)
    assert is_public(ipaddress.IPv6Address((0x64FF9B << 96) + number)) == is_public(address)


class _Connected(Exception):
    pass


def connecting_to(monkeypatch: pytest.MonkeyPatch, answers: list[list[str]]) -> tuple[Dialer, list[str], list[str]]:
    """A guarded backend whose resolver gives these answers, one per lookup; records lookups and connections."""
    looked_up: list[str] = []
    connected: list[str] = []

    def resolver(host: str, port: int) -> list[str]:
        looked_up.append(host)
        return answers[len(looked_up) - 1]

    def connect(address: str, port: int, deadline: float, patience: Patience) -> socket.socket:
        connected.append(address)
        return socket.socket()

    monkeypatch.setattr(sockets, "_connect", connect)
    return Dialer(resolver, guarded=True), looked_up, connected


def dialled(backend: Dialer, host: str, patience: Patience | None = None) -> None:
    with requesting(patience or Patience()):
        backend.connect_tcp(host, 80, 60).close()


def test_the_address_that_was_checked_is_the_one_that_is_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    backend, looked_up, connected = connecting_to(monkeypatch, [["8.8.8.8"], ["127.0.0.1"]])
    dialled(backend, "rebinding.example")
    assert looked_up == ["rebinding.example"]  # a second look-up would lead to 127.0.0.1
    assert connected == ["8.8.8.8"]


@pytest.mark.parametrize("answer", [["127.0.0.1"], ["8.8.8.8", "10.0.0.1"], ["8.8.8.8", "::1"]])
def test_one_private_address_among_several_is_enough_to_refuse(
    monkeypatch: pytest.MonkeyPatch, answer: list[str]
) -> None:
    backend, _, connected = connecting_to(monkeypatch, [answer])
    with pytest.raises(ForbiddenAddress):
        dialled(backend, "mixed.example")
    assert connected == []


def test_the_next_address_is_tried_and_the_good_one_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    dead, good = "2606:4700::1", "8.8.8.8"
    backend, _, connected = connecting_to(monkeypatch, [[dead, good], [dead, good]])
    answering = sockets._connect

    def connect(address: str, port: int, deadline: float, patience: Patience) -> socket.socket:
        sock = answering(address, port, deadline, patience)
        if address == dead:
            sock.close()
            raise OSError("network unreachable")
        return sock

    monkeypatch.setattr(sockets, "_connect", connect)
    dialled(backend, "two.example")
    dialled(backend, "two.example")
    assert connected == [dead, good, good]


def test_a_name_server_that_does_not_answer_holds_up_nobody_who_cancelled() -> None:
    forever, cancelled = threading.Event(), threading.Event()

    def resolver(host: str, port: int) -> list[str]:
        cancelled.set()
        forever.wait()
        return []

    try:
        with pytest.raises(Cancelled):
            dialled(Dialer(resolver, guarded=True), "slow.example", Patience(cancelled.is_set))
    finally:
        forever.set()
