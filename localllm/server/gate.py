"""Who may ask: Host, Origin and API key, checked before any body is read. Knows nothing of the APIs behind it.

Local does not mean safe: any web page can send requests to a loopback port, under its own name (CSRF: Origin and
Sec-Fetch-Site tell) or, after its DNS name was pointed at 127.0.0.1, under ours (rebinding: the Host header tells).
Both are checked on every bind, since a browser inside the network reaches 0.0.0.0 just as well.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
import socket
from collections.abc import Iterable, Mapping

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from localllm.errors import clipped
from localllm.server.callers import Caller, KeyRing
from localllm.server.cors import Cors
from localllm.server.errors import ForbiddenHost, ForbiddenOrigin, InvalidApiKey, headers_too_large
from localllm.settings.config import Settings

OPEN_PATHS = frozenset({"/", "/health", "/v1/health", "/ready"})
"""What answers without a key, and the page's files, which hold nothing of anybody's."""
OPEN_FOLDER = "/ui/"


_HOST = re.compile(r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(?::(?P<port>[0-9]{0,5}))?", re.ASCII)
"""RFC 3986's `host [":" port]`, of which a host that we answer to needs no percent-encoding and no `!$&'()*+,;=`."""


class Gate:
    """ASGI middleware that raises `HeadersTooLarge`, `ForbiddenHost`, `ForbiddenOrigin` or `InvalidApiKey`.

    Leaves whose key it is in `scope["state"]["caller"]`, and answers the preflights of pages that may ask.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        keys: KeyRing | None = None,
        cors: Cors | None = None,
        allowed_hosts: Iterable[str] = (),
        max_header_bytes: int = 64 * 1024,
    ) -> None:
        self.app = app
        self.keys = keys or KeyRing(Settings())
        self.cors = cors or Cors()
        self.max_header_bytes = max_header_bytes
        self.allowed_hosts = frozenset(name.lower() for name in (*allowed_hosts, "localhost", socket.gethostname()))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        self._check_size(scope)
        self._check_host(headers)
        self._check_origin(headers, scope["scheme"])
        if self._is_preflight(scope["method"], headers):  # before the key, which a browser only sends afterwards
            await Response(headers=self.cors.preflight_headers(headers))(scope, receive, send)
            return
        if scope["path"] not in OPEN_PATHS and not scope["path"].startswith(OPEN_FOLDER):
            scope.setdefault("state", {})["caller"] = self._caller(dict(scope["headers"]))
        await self.app(scope, receive, send)

    def _check_size(self, scope: Scope) -> None:
        """h11 bounds a head that is still coming; one that comes in one piece is only seen here."""
        fields = sum(len(name) + len(value) + len(": \r\n") for name, value in scope["headers"])
        if fields + len(scope["raw_path"]) + len(scope["query_string"]) > self.max_header_bytes:
            raise headers_too_large(self.max_header_bytes)

    def _is_preflight(self, method: str, headers: Headers) -> bool:
        return (
            method == "OPTIONS"
            and "access-control-request-method" in headers
            and self.cors.allows(headers.get("origin", ""))
        )

    def _check_host(self, headers: Headers) -> None:
        given = headers.get("host", "")
        name = host_name(given)
        if not (name in self.allowed_hosts or name.endswith((".local", ".localhost")) or _is_ip(name)):
            raise ForbiddenHost(
                f"this server does not answer to the name {clipped(name or given)!r}; "
                f"start it with --allowed-hosts {clipped(name) or 'NAME'}"
            )

    def _check_origin(self, headers: Headers, scheme: str) -> None:
        origin = headers.get("origin")
        if origin is not None and self.cors.allows(origin):
            return
        if headers.get("sec-fetch-site") == "cross-site":
            raise ForbiddenOrigin("requests from web pages of other sites are refused")
        if origin is not None and origin != f"{scheme}://{headers.get('host', '')}":
            raise ForbiddenOrigin(
                f"requests from pages of {clipped(origin)!r} are refused; --cors-origins names those that may ask"
            )

    def _caller(self, headers: Mapping[bytes, bytes]) -> Caller:
        """Keys are compared as bytes: a header has no encoding, and a key may be in UTF-8."""
        pairs = self.keys.pairs
        if not pairs:
            return self.keys.anybody
        scheme, _, bearer = headers.get(b"authorization", b"").partition(b" ")
        offered = [headers.get(b"x-api-key", b""), bearer.strip() if scheme.lower() == b"bearer" else b""]
        # Every pair is compared, so that the time tells nothing about which key came close.
        matches = [(hmac.compare_digest(given, secret), caller) for given in offered for caller, secret in pairs]
        callers = [caller for is_equal, caller in matches if is_equal]
        if not callers:
            what = "the API key is not valid" if any(offered) else "an API key is required"
            raise InvalidApiKey(f"{what}; send it as 'Authorization: Bearer KEY' or 'x-api-key: KEY'")
        return callers[0]


def host_name(header: str) -> str:
    """The host in a Host header, in lower case, without port, brackets and trailing dot; "" for what is none."""
    match = _HOST.fullmatch(header)
    if match is None or int(match["port"] or 0) > 65535:
        return ""
    if match["ipv6"] is None:
        return match["name"].lower().removesuffix(".")
    return match["ipv6"] if _is_ip(match["ipv6"]) and ":" in match["ipv6"] else ""


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
