"""Who may ask: Host, Origin and API key, checked before anything is read. Knows nothing of the APIs behind it.

Local does not mean safe: any web page can send requests to a loopback port, under its own name (CSRF: Origin and
Sec-Fetch-Site tell) or, after its DNS name was pointed at 127.0.0.1, under ours (rebinding: the Host header tells).
Both are checked on every bind, since a browser inside the network reaches 0.0.0.0 just as well.
"""

from __future__ import annotations

import hmac
import ipaddress
import socket
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from localllm.server.errors import ForbiddenHost, ForbiddenOrigin, InvalidApiKey

OPEN_PATHS = frozenset({"/health", "/ready"})
"""What answers without a key."""


class Gate:
    """ASGI middleware that raises `ForbiddenHost`, `ForbiddenOrigin` or `InvalidApiKey`."""

    def __init__(self, app: ASGIApp, *, keys: Iterable[str], allowed_hosts: Iterable[str] = ()) -> None:
        self.app = app
        self.keys = tuple(key.encode() for key in keys)
        self.allowed_hosts = frozenset(name.lower() for name in (*allowed_hosts, "localhost", socket.gethostname()))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        self._check_host(headers)
        _check_origin(headers, scope["scheme"])
        if scope["path"] not in OPEN_PATHS:
            self._check_key(headers)
        await self.app(scope, receive, send)

    def _check_host(self, headers: Headers) -> None:
        host = _host_name(headers.get("host", ""))
        if not (host in self.allowed_hosts or host.endswith((".local", ".localhost")) or _is_ip(host)):
            raise ForbiddenHost(
                f"this server does not answer to the name {host!r}; start it with --allowed-hosts {host or 'NAME'}"
            )

    def _check_key(self, headers: Headers) -> None:
        if not self.keys:
            return
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        offered = [headers.get("x-api-key", ""), bearer.strip() if scheme.lower() == "bearer" else ""]
        # Every pair is compared, so that the time tells nothing about which key came close.
        matches = [hmac.compare_digest(given.encode(), key) for given in offered for key in self.keys]
        if not any(matches):
            what = "the API key is not valid" if any(offered) else "an API key is required"
            raise InvalidApiKey(f"{what}; send it as 'Authorization: Bearer KEY' or 'x-api-key: KEY'")


def _check_origin(headers: Headers, scheme: str) -> None:
    if headers.get("sec-fetch-site") == "cross-site":
        raise ForbiddenOrigin("requests from web pages of other sites are refused")
    origin = headers.get("origin")
    if origin is not None and origin != f"{scheme}://{headers.get('host', '')}":
        raise ForbiddenOrigin(f"requests from pages of {origin!r} are refused: this server is for local programs")


def _host_name(host: str) -> str:
    """The name in a Host header, in lower case, without port, brackets and trailing dot; "" for nonsense."""
    try:
        name = urlsplit(f"//{host}").hostname if not set(host) & set("/@?#\\") else None
    except ValueError:
        return ""
    return (name or "").rstrip(".")


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
