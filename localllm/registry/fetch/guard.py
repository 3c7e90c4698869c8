"""Which addresses untrusted URLs (from manifests, redirects) may lead to: public ones only. Pure; knows nothing of DNS
or sockets.

Such a URL could name a cloud's metadata service or a router on the local network (CVE-2026-5530). The blocks are listed
here instead of taken from `ipaddress`, whose answers have changed between Python versions. Source: IANA's registries of
special-purpose IPv4 and IPv6 addresses.
"""

from __future__ import annotations

import ipaddress
import socket

from localllm.errors import ForbiddenAddress

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_NOT_PUBLIC_V4 = tuple(
    ipaddress.IPv4Network(block)
    for block in (
        "0.0.0.0/8",  # this network; Linux treats 0.0.0.0 as loopback
        "10.0.0.0/8",
        "100.64.0.0/10",  # carrier-grade NAT
        "127.0.0.0/8",
        "169.254.0.0/16",  # link-local, including the metadata services of clouds
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
"""All IPv6 unicast space ever allocated; loopback, mapped IPv4, unique local, link-local and multicast lie outside."""
_NOT_PUBLIC_V6 = tuple(
    ipaddress.IPv6Network(block)
    for block in (
        "2001::/23",  # protocol assignments, including Teredo, which embeds an IPv4 address
        "2001:db8::/32",
        "2002::/16",  # 6to4, which embeds an IPv4 address
        "3fff::/20",
    )
)
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
"""NAT64, which IPv6-only networks use to reach IPv4; the last 32 bits are the address to check."""

_LOCAL_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback")
_LOCAL_SUFFIXES = (".localhost", ".local", ".internal", ".home.arpa", ".lan")


def is_public(address: Address) -> bool:
    """Whether an address from an untrusted source may be connected to."""
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
    """Raises `ForbiddenAddress` for a host that is recognizably private without DNS.

    Nothing more can be checked if a proxy resolves names: one that the proxy resolves to a private address is the
    proxy's to refuse.
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
    try:  # every resolver takes 2130706433, 0x7f.1 and 127.1 as 127.0.0.1
        return ipaddress.IPv4Address(socket.inet_aton(text))
    except (OSError, ValueError):
        return None


def _forbidden(host: str, address: str) -> ForbiddenAddress:
    shown = host if host == address else f"{host} ({address})"
    return ForbiddenAddress(
        f"a redirect or manifest leads to {shown}, which is not a public address; "
        "if this is intended in your network, set --allow-private-downloads or LOCALLLM_ALLOW_PRIVATE_DOWNLOADS=1",
        host=host,
        address=address,
    )
