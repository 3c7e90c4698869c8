"""Addresses of RPC servers: how they are written, and which of them a server may listen on.

Knows nothing of sockets. llama.cpp's RPC speaks IPv4 only.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from typing import NamedTuple

from localllm.errors import InvalidParameter, sentence_of
from localllm.types.upstream import MAX_RPC_SERVERS

DEFAULT_PORT = 50052
"""The same as llama.cpp's."""
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?", re.ASCII)

Network = ipaddress.IPv4Network
PRIVATE: tuple[Network, ...] = tuple(
    map(Network, ("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "100.64.0.0/10"))
)
"""Addresses not routed on the internet: this machine, local networks, links, and VPNs over shared addresses."""


class Endpoint(NamedTuple):
    """Where an RPC server listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def parse_endpoint(text: str, param: str = "rpc") -> Endpoint:
    """`HOST:PORT`, or `HOST` for the usual port. Raises `InvalidParameter`."""
    host, colon, port = text.strip().partition(":")
    number = int(port) if port.isascii() and port.isdigit() and len(port) <= 5 else -1
    if not _HOST.fullmatch(host) or (colon and not 0 < number < 65536):
        raise InvalidParameter(
            f"{param}: {text.strip()[:100]!r} is not HOST:PORT, as 192.168.1.20:{DEFAULT_PORT}; HOST is a name or an "
            "IPv4 address",
            param=param,
        )
    return Endpoint(host.lower(), number if colon else DEFAULT_PORT)


def parse_endpoints(text: str | None) -> tuple[Endpoint, ...]:
    """The distinct endpoints of a comma-separated list. Raises `InvalidParameter`."""
    parts = [part for part in (text or "").split(",") if part.strip()]
    found = tuple(dict.fromkeys(map(parse_endpoint, parts)))
    if len(found) > MAX_RPC_SERVERS:
        raise InvalidParameter(f"rpc: {len(found)} servers; llama.cpp supports at most {MAX_RPC_SERVERS}", param="rpc")
    return found


def check_bind(endpoint: Endpoint, *, allow_public: bool) -> ipaddress.IPv4Address:
    """The address to listen on. Raises `InvalidParameter` for one that strangers could reach, unless that is
    allowed."""
    try:
        found = socket.getaddrinfo(endpoint.host, endpoint.port, socket.AF_INET, socket.SOCK_STREAM)
        address = ipaddress.IPv4Address(found[0][4][0])
    except (OSError, ValueError) as error:
        why = sentence_of(error, is_in_home=False) if isinstance(error, OSError) else str(error)
        raise InvalidParameter(
            f"rpc: {endpoint.host!r} is not an address of this machine: {why}", param="rpc"
        ) from error
    if not allow_public and not is_private(address):
        everywhere = " is every address of this machine" if address.is_unspecified else " is a public address"
        raise InvalidParameter(
            f"rpc: {endpoint.host}{everywhere}, and the protocol has no authentication: name 127.0.0.1 or an address "
            "in your own network, or pass --allow-public if a firewall keeps strangers away",
            param="rpc",
        )
    return address


def parse_networks(text: str | None) -> tuple[Network, ...]:
    """Comma-separated addresses and networks of clients; empty: private networks. Raises `InvalidParameter`."""
    parts = [part.strip() for part in (text or "").split(",") if part.strip()]
    try:
        return tuple(Network(part) for part in parts) or PRIVATE
    except ValueError as error:
        raise InvalidParameter(
            f"clients: {error}; addresses and networks look like 192.168.1.20,10.1.0.0/16", param="clients"
        ) from error


def is_private(address: ipaddress.IPv4Address) -> bool:
    """Whether only this machine and its own networks can reach it."""
    return is_among(address, PRIVATE)


def is_among(address: ipaddress.IPv4Address, networks: tuple[Network, ...]) -> bool:
    """Whether one of the networks contains it."""
    return any(address in network for network in networks)
