"""Which addresses outside input (manifests, redirects) may lead to: public ones only. Pure; knows nothing of DNS or
sockets.

A URL in a manifest or a redirect could name the metadata service of a cloud or the neighbour's router (CVE-2026-5530).
The blocks are listed here instead of taken from `ipaddress`, whose answers changed between versions of Python. Source:
IANA's registries of special-purpose IPv4 and IPv6 addresses.
"""

from __future__ import annotations

import ipaddress
import socket

from localllm.errors import ForbiddenAddress

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_NOT_PUBLIC_V4 = tuple(
    ipaddress.IPv4Network(block)
    for block in (
        "0.0.0.0/8",  # this network; Linux takes 0.0.0.0 for loopback
        "10.0.0.0/8",
        "100.64.0.0/10",  # carrier-grade NAT
        "127.0.0.0/8",
        "169.254.0.0/16",  # link-local, and the metadata services of clouds
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",
    )
)
_PUBLIC_V6 = ipaddress.IPv6Network("2000::/3")
"""All that was ever given out: loopback, mapped IPv4, unique local, link-local and multicast lie outside."""
_NOT_PUBLIC_V6 = tuple(
    ipaddress.IPv6Network(block)
    for block in (
        "2001::/23",  # protocol assignments, Teredo among them, which carries an IPv4 address
        "2001:db8::/32",
        "2002::/16",  # 6to4 carries an IPv4 address
        "3fff::/20",
    )
)
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
"""How networks that only speak IPv6 reach IPv4; the last 32 bits are the address that counts."""

_LOCAL_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback")
_LOCAL_SUFFIXES = (".localhost", ".local", ".internal", ".home.arpa", ".lan")


def is_public(address: Address) -> bool:
    """Whether an address that a stranger named may be connected to."""
    if isinstance(address, ipaddress.IPv6Address):
        if address in _NAT64:
            return is_public(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        return address in _PUBLIC_V6 and not any(address in block for block in _NOT_PUBLIC_V6)
    return not any(address in block for block in _NOT_PUBLIC_V4)


def check_address(text: str, host: str) -> None:
    """Raises `ForbiddenAddress` unless `text`, which `host` resolved to, is a public address."""
    address = _literal(text)
    if address is None or not is_public(address):
        raise _forbidden(host, text)


def check_name(host: str) -> None:
    """Raises `ForbiddenAddress` for a host that is seen to be private without asking DNS.

    That is all that can be checked where a proxy does the resolving: a name that leads to a private address as the
    proxy sees it is the proxy's to refuse.
    """
    name = host.lower().rstrip(".")
    address = _literal(name)
    if address is not None and not is_public(address):
        raise _forbidden(host, str(address))
    if name in _LOCAL_NAMES or name.endswith(_LOCAL_SUFFIXES):
        raise _forbidden(host, name)


def _literal(text: str) -> Address | None:
    text = text.strip("[]").partition("%")[0]  # a zone does not make an address public
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        pass
    try:  # 2130706433, 0x7f.1 and 127.1 are 127.0.0.1 for every resolver
        return ipaddress.IPv4Address(socket.inet_aton(text))
    except (OSError, ValueError):
        return None


def _forbidden(host: str, address: str) -> ForbiddenAddress:
    shown = host if host == address else f"{host} ({address})"
    return ForbiddenAddress(
        f"a redirect or manifest leads to {shown}, which is not a public address; "
        "if your network is meant to work so, allow private hosts",
        host=host,
        address=address,
    )
