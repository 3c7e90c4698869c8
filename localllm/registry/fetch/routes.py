"""The route of a request: direct or through a proxy, to any address or only public ones, and which CAs it trusts.

httpcore speaks HTTP and reuses connections: one pool for each kind of route, over the backend in `sockets`. The proxy
comes from the options, else from the environment (`HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`, as the system
spells them). It may have a private address, and it resolves host names itself, so behind a proxy only literal addresses
and names like localhost can be refused, which `net` does. Knows nothing of redirects or credentials.
"""

from __future__ import annotations

import ssl
import threading
from pathlib import Path
from typing import NamedTuple
from urllib.request import getproxies, proxy_bypass

import httpcore
import httpx
import socksio

from localllm.errors import InvalidParameter
from localllm.registry.fetch.sockets import BODY_READ_BYTES, Dialer, ProxyFailed, Resolve, Stream

IDLE_S = 30.0
"""How long an idle connection is kept."""
_UNMATCHED = "Requested {} from proxy server, but got NO ACCEPTABLE METHODS."
_REFUSED = "Proxy Server could not connect: {}."
_SOCKS_REASONS = {
    _UNMATCHED.format("NO AUTHENTICATION REQUIRED"): "it requires a user name and a password",
    _UNMATCHED.format("USERNAME/PASSWORD"): "it requires an unsupported kind of login",
    "Invalid username/password": "it rejected the user name or password",
    _REFUSED.format("General SOCKS server failure"): "general failure",
    _REFUSED.format("Connection not allowed by ruleset"): "its rules forbid the connection",
    _REFUSED.format("Network unreachable"): "network unreachable",
    _REFUSED.format("Host unreachable"): "host unreachable",
    _REFUSED.format("Connection refused"): "connection refused",
    _REFUSED.format("Command not supported"): "CONNECT is not supported",
    _REFUSED.format("Address type not supported"): "the address type is not supported",
}
"""What httpcore reports of a SOCKS proxy that refuses -> what we report."""


class _Route(NamedTuple):
    """Key of a pool."""

    scheme: str
    proxy: str | None
    guarded: bool


class Routes:
    """Sends requests, over idle connections where possible."""

    def __init__(
        self,
        proxy: str | None,
        ca_file: Path | None,
        resolver: Resolve,
        *,
        max_bytes_per_s: int | None = None,
        is_direct: bool = False,
    ) -> None:
        """`max_bytes_per_s`: at most a quarter of a second's bytes are received at once, so that a low limit does not
        cause a burst every few seconds."""
        most = BODY_READ_BYTES if max_bytes_per_s is None else min(BODY_READ_BYTES, max(4096, max_bytes_per_s // 4))
        self._proxy = None if proxy is None else _checked_proxy(proxy)
        self._is_direct = is_direct
        self._ca_file = ca_file
        self._lock = threading.Lock()
        self._context: ssl.SSLContext | None = None
        self._dialers = {guarded: Dialer(resolver, guarded=guarded, body_read_bytes=most) for guarded in (False, True)}
        self._pools: dict[_Route, httpcore.ConnectionPool] = {}

    def send(self, url: httpx.URL, request: httpcore.Request, *, guarded: bool) -> httpcore.Response:
        """Sends a request to `url`, within `sockets.requesting`. The response's body is still to be read, and the
        response to be closed; the connection is reused if the body was read to its end.

        Raises `LinkError`, `ForbiddenAddress`, `httpcore.ProtocolError`, `httpcore.WriteError`.
        """
        proxy = self._proxy_for(url)
        if b":" in request.url.host and proxy is not None and not proxy.startswith("socks5"):
            request.url.host = b"[%b]" % request.url.host  # httpcore writes it to HTTP proxies as it is
        try:
            response = self._pool(_Route(url.scheme, proxy, guarded and proxy is None)).handle_request(request)
        except httpcore.ProxyError as error:
            raise ProxyFailed(_why_refused(str(error))) from error
        except socksio.ProtocolError as error:
            raise ProxyFailed("it does not speak SOCKS5") from error
        _frame(request.method, response)
        return response

    def close(self) -> None:
        """Closes every connection."""
        with self._lock:
            for pool in self._pools.values():
                pool.close()
            self._pools.clear()

    def _pool(self, route: _Route) -> httpcore.ConnectionPool:
        with self._lock:
            if route not in self._pools:
                proxy = None if route.proxy is None else httpx.Proxy(route.proxy)
                self._pools[route] = httpcore.ConnectionPool(
                    ssl_context=self._ssl_context() if route.scheme == "https" else None,
                    proxy=None if proxy is None else self._as_httpcore(proxy),
                    max_connections=None,
                    keepalive_expiry=IDLE_S,
                    network_backend=self._dialers[route.guarded],
                )
            return self._pools[route]

    def _as_httpcore(self, proxy: httpx.Proxy) -> httpcore.Proxy:
        url = proxy.url
        return httpcore.Proxy(
            httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=b"/"),
            auth=proxy.raw_auth,
            ssl_context=self._ssl_context() if url.scheme == "https" else None,
        )

    def _proxy_for(self, url: httpx.URL) -> str | None:
        if self._proxy is not None or self._is_direct:
            return self._proxy
        proxies = getproxies()
        found = proxies.get(url.scheme) or proxies.get("all")
        if not found or proxy_bypass(url.netloc.decode("ascii")):
            return None
        return _checked_proxy(found if "://" in found else f"http://{found}")

    def _ssl_context(self) -> ssl.SSLContext:
        """Created for the first https URL, since reading the CAs takes 20 ms or more."""
        if self._context is None:
            try:
                context = httpx.create_ssl_context()  # SSL_CERT_FILE and SSL_CERT_DIR, else certifi's
                if self._ca_file is not None:
                    context.load_verify_locations(cafile=self._ca_file)
            except OSError as error:  # ssl.SSLError is an OSError
                why = error if isinstance(error, ssl.SSLError) else error.strerror or error
                raise InvalidParameter(f"the CA file {self._ca_file} cannot be used: {why}", param="ca_file") from error
            self._context = context
        return self._context


def _frame(method: bytes, response: httpcore.Response) -> None:
    """Tells the stream where the response ends."""
    stream = response.extensions["network_stream"]
    assert isinstance(stream, Stream)
    headers = httpx.Headers(response.headers)
    if method == b"HEAD" or response.status in (204, 304):
        stream.expect_body(0)
    elif "transfer-encoding" not in headers and "content-length" in headers:
        stream.expect_body(int(headers["content-length"]))  # h11 has checked it


def _why_refused(reason: str) -> str:
    """`reason`: httpcore's, for an HTTP proxy the status line of its response to CONNECT."""
    return f"it answered {reason[:3]} to CONNECT" if reason[:3].isdecimal() else _SOCKS_REASONS.get(reason, reason)


def _checked_proxy(text: str) -> str:
    """Raises `InvalidParameter` for an unusable proxy; never prints a password."""
    try:
        url = httpx.Proxy(text).url
    except (ValueError, httpx.InvalidURL) as error:
        raise InvalidParameter(
            "proxy must be a URL such as http://HOST:PORT or socks5://HOST:PORT", param="proxy"
        ) from error
    if not url.host:
        raise InvalidParameter("proxy has no host; write http://HOST:PORT", param="proxy")
    return text
