"""The gate: checks Host, Origin and API key before any body is read. Knows nothing of the APIs behind it.

Loopback is not safe by itself: any web page can send requests to a local port, from its own origin (CSRF: detected by
Origin and Sec-Fetch-Site) or, with its DNS name pointing to 127.0.0.1, from ours (DNS rebinding: detected by Host).
Both are checked on every bind, since a browser in the network reaches 0.0.0.0 as well.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
import socket
from collections.abc import Iterable, Mapping
from urllib.parse import unquote

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from localllm.errors import clipped
from localllm.server.edge.callers import Caller, KeyRing
from localllm.server.edge.cors import APPS, Cors, is_app
from localllm.server.errors import ForbiddenHost, ForbiddenOrigin, InvalidApiKey, headers_too_large
from localllm.settings.config import Settings

OPEN_PATHS = frozenset({"/", "/v1", "/docs", "/health", "/v1/health", "/ready"})
OPEN_FOLDERS = ("/ui/", "/docs/")
"""Paths that need no key: the page's files and the documentation contain no user data."""
PROBES = frozenset({"/health", "/v1/health", "/ready"})
"""Answered whatever the Host, which load balancers and orchestrators set to an address or a name of their own."""

_HOST = re.compile(r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(?::(?P<port>[0-9]{0,5}))?", re.ASCII)
"""RFC 3986's `host [":" port]`, without percent-encoding and `!$&'()*+,;=`, which our host names do not need."""

_ABSOLUTE = re.compile(rb"https?://(?P<host>[^/?#]*)(?P<path>/.*)?", re.IGNORECASE | re.DOTALL)

PRIVATE_DOMAINS = (".local", ".localhost", ".internal", ".home.arpa")
"""Domains in which nobody can register a name, so that no page's name can be pointed at this machine: mDNS (RFC 6762),
RFC 6761, ICANN's domain for private use, as in `host.docker.internal`, and RFC 8375."""
_SINGLE_LABEL = re.compile(r"[a-z][a-z0-9_-]*", re.ASCII)
"""A name without a domain is one of a local network, such as a Compose service. It begins with a letter, unlike the
address `2130706433`."""


class Gate:
    """ASGI middleware that raises `HeadersTooLarge`, `ForbiddenHost`, `ForbiddenOrigin` or `InvalidApiKey`.

    Stores the caller in `scope["state"]["caller"]` and whether the Host is one of ours in `has_own_host`, without which
    only probes are answered; answers preflights of allowed pages.
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
        self._check_size(scope)
        take_absolute_target(scope)
        headers = Headers(scope=scope)
        self._check_host(scope, headers)
        self._check_origin(headers, scope["scheme"])
        if self._is_preflight(scope["method"], headers):  # before the key, which browsers send only after the preflight
            await Response(headers=self.cors.preflight_headers(headers))(scope, receive, send)
            return
        if not is_open(scope["path"]):
            scope.setdefault("state", {})["caller"] = self._caller(dict(scope["headers"]))
        await self.app(scope, receive, send)

    def _check_size(self, scope: Scope) -> None:
        """h11 limits headers that arrive in pieces; headers in one piece are only checked here."""
        fields = sum(len(name) + len(value) + len(": \r\n") for name, value in scope["headers"])
        if fields + len(scope["raw_path"]) + len(scope["query_string"]) > self.max_header_bytes:
            raise headers_too_large(self.max_header_bytes)

    def _is_preflight(self, method: str, headers: Headers) -> bool:
        return (
            method == "OPTIONS"
            and "access-control-request-method" in headers
            and self.cors.allows(headers.get("origin", ""))
        )

    def _check_host(self, scope: Scope, headers: Headers) -> None:
        given = headers.get("host")
        name = host_name(given or "")
        # HTTP/1.0, as of some load balancers, may have none; every browser sends a Host.
        is_own = given is None or name in self.allowed_hosts or _is_private(name)
        scope.setdefault("state", {})["has_own_host"] = is_own
        if not is_own and scope["path"] not in PROBES:
            raise ForbiddenHost(
                f"this server does not answer to the name {clipped(name or given or '')!r}; "
                f"start it with --allowed-hosts {clipped(name) or 'NAME'}"
            )

    def _check_origin(self, headers: Headers, scheme: str) -> None:
        origin = headers.get("origin")
        if origin is not None and self.cors.allows(origin):
            return
        if origin is not None and origin != f"{scheme}://{headers.get('host', '')}":
            remedy = APPS if is_app(origin) else clipped(origin)
            raise ForbiddenOrigin(
                f"requests from pages of {clipped(origin)!r} are refused; start the server with "
                f"--cors-origins {remedy} to allow them"
            )
        if headers.get("sec-fetch-site") == "cross-site":
            raise ForbiddenOrigin(
                "requests from web pages of other sites are refused, and this one does not say of which; "
                "--cors-origins lists the allowed ones"
            )

    def _caller(self, headers: Mapping[bytes, bytes]) -> Caller:
        """Keys are compared as bytes: a header has no encoding, and a key may be in UTF-8."""
        pairs = self.keys.pairs
        if not pairs:
            return self.keys.anybody
        scheme, _, bearer = headers.get(b"authorization", b"").partition(b" ")
        offered = [headers.get(b"x-api-key", b""), bearer.strip() if scheme.lower() == b"bearer" else b""]
        # Compare with every key, so that the time reveals nothing about the match.
        matches = [(hmac.compare_digest(given, secret), caller) for given in offered for caller, secret in pairs]
        callers = [caller for is_equal, caller in matches if is_equal]
        if not callers:
            what = "the API key is not valid" if any(offered) else "an API key is required"
            raise InvalidApiKey(f"{what}; send it as 'Authorization: Bearer KEY' or 'x-api-key: KEY'")
        return callers[0]


def is_open(path: str) -> bool:
    """Whether this is a probe, the page or the documentation, which need no key."""
    return path in OPEN_PATHS or path.startswith(OPEN_FOLDERS)


def host_name(header: str) -> str:
    """The host in a Host header, in lower case, without port, brackets and trailing dot; "" if invalid."""
    match = _HOST.fullmatch(header)
    if match is None or int(match["port"] or 0) > 65535:
        return ""
    if match["ipv6"] is None:
        return match["name"].lower().removesuffix(".")
    return match["ipv6"] if _is_ip(match["ipv6"]) and ":" in match["ipv6"] else ""


def take_absolute_target(scope: Scope) -> None:
    """A request line with a whole address (RFC 9112, 3.2.2): its host replaces the Host header."""
    target = _ABSOLUTE.fullmatch(scope["raw_path"])
    if target is not None:
        path = target["path"] or b"/"
        others = [(name, value) for name, value in scope["headers"] if name != b"host"]
        scope.update(path=unquote(path.decode("ascii")), raw_path=path, headers=[(b"host", target["host"]), *others])


def _is_private(name: str) -> bool:
    """Whether no stranger can own this name, nor let it lead here."""
    return name.endswith(PRIVATE_DOMAINS) or _SINGLE_LABEL.fullmatch(name) is not None or _is_ip(name)


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
