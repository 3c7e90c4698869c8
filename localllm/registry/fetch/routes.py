"""The route of a request: direct or through a proxy, to any address or only public ones, and which CAs it trusts.

The proxy comes from the options, else from the environment (`HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`, as
the system spells them). It may have a private address, and it resolves host names itself, so behind a proxy only
literal addresses and names like localhost can be refused, which `net` does. Knows nothing of redirects or credentials.
"""

from __future__ import annotations

import ssl
import threading
from base64 import b64encode
from pathlib import Path
from typing import NamedTuple
from urllib.request import getproxies, proxy_bypass

import httpx

from localllm.errors import InvalidParameter
from localllm.registry.fetch.exchange import BUFFER_BYTES, Connection, Exchange, Headers, Idle, Request
from localllm.registry.fetch.sockets import Dialer, Patience, Resolve, Stream
from localllm.registry.fetch.socks import ProxyFailed, enter_socks

_PORTS = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}


class Timeouts(NamedTuple):
    """Timeouts of one request, in seconds."""

    connect_s: float
    read_s: float
    """The longest wait for a byte."""


class _Route(NamedTuple):
    """Key of interchangeable connections."""

    scheme: str
    host: str
    port: int
    proxy: str | None
    guarded: bool


class Routes:
    """Sends requests, over idle connections where possible."""

    def __init__(
        self, proxy: str | None, ca_file: Path | None, resolver: Resolve, *, max_bytes_per_s: int | None = None
    ) -> None:
        """`max_bytes_per_s`: at most a quarter of a second's bytes are received at once, so that a low limit does not
        cause a burst every few seconds."""
        self._buffer_bytes = BUFFER_BYTES if max_bytes_per_s is None else min(BUFFER_BYTES, max_bytes_per_s // 4)
        self._proxy = None if proxy is None else _checked_proxy(proxy)
        self._ca_file = ca_file
        self._lock = threading.Lock()
        self._context: ssl.SSLContext | None = None
        self._idle = Idle()
        self._dialers = {guarded: Dialer(resolver, guarded=guarded) for guarded in (False, True)}

    def send(self, url: httpx.URL, request: Request, timeouts: Timeouts, patience: Patience, *, guarded: bool) -> Reply:
        """Sends a request; the response's body is still to be read. Raises `LinkError`, `ForbiddenAddress`."""
        proxy = self._proxy_for(url)
        scheme = url.scheme
        host, port = url.raw_host.decode("ascii"), url.port or _PORTS[scheme]
        route = _Route(scheme, host, port, proxy, guarded and proxy is None)
        connection = self._idle.take(route) or self._opened(route, timeouts, patience)
        if proxy is not None and scheme == "http" and not proxy.startswith("socks5"):
            request = Request(
                request.method,
                url.raw_scheme + b"://" + url.netloc + url.raw_path,
                [*request.headers, *_authorization(httpx.Proxy(proxy))],
                request.body,
            )
        return Reply(connection.send(request, timeouts.read_s, patience), route, self._idle)

    def _opened(self, route: _Route, timeouts: Timeouts, patience: Patience) -> Connection:
        return Connection(self._connect(route, timeouts, patience), self._buffer_bytes)

    def close(self) -> None:
        """Closes every idle connection."""
        self._idle.close()

    def _connect(self, route: _Route, timeouts: Timeouts, patience: Patience) -> Stream:
        context = self._ssl_context() if route.scheme == "https" else None
        if route.proxy is None:
            stream = self._dialers[route.guarded].dial(route.host, route.port, timeouts.connect_s, patience)
        else:
            stream = self._connect_by_proxy(route, httpx.Proxy(route.proxy), timeouts, patience)
        if context is not None:
            stream.start_tls(context, route.host, timeouts.connect_s)
        return stream

    def _connect_by_proxy(self, route: _Route, proxy: httpx.Proxy, timeouts: Timeouts, patience: Patience) -> Stream:
        url = proxy.url
        host = url.raw_host.decode("ascii")
        stream = self._dialers[False].dial(host, url.port or _PORTS[url.scheme], timeouts.connect_s, patience)
        if url.scheme == "https":
            stream.start_tls(self._ssl_context(), host, timeouts.connect_s)
        if url.scheme.startswith("socks5"):
            enter_socks(stream, route.host, route.port, proxy.raw_auth, timeouts.connect_s)
        elif route.scheme == "https":
            shown = f"[{route.host}]" if ":" in route.host else route.host
            target = f"{shown}:{route.port}".encode("ascii")
            headers = [(b"Host", target), *_authorization(proxy)]
            answer = Connection(stream).send(Request(b"CONNECT", target, headers), timeouts.connect_s, patience)
            if not 200 <= answer.status < 300:
                stream.close()
                raise ProxyFailed(f"it answered {answer.status} to CONNECT")
            return answer.end_tunnel()
        return stream

    def _proxy_for(self, url: httpx.URL) -> str | None:
        if self._proxy is not None:
            return self._proxy
        proxies = getproxies()
        found = proxies.get(url.scheme) or proxies.get("all")
        if not found or proxy_bypass(url.netloc.decode("ascii")):
            return None
        return _checked_proxy(found if "://" in found else f"http://{found}")

    def _ssl_context(self) -> ssl.SSLContext:
        """Created for the first https URL, since reading the CAs takes 20 ms or more."""
        with self._lock:
            if self._context is None:
                try:
                    context = httpx.create_ssl_context()  # SSL_CERT_FILE and SSL_CERT_DIR, else certifi's
                    if self._ca_file is not None:
                        context.load_verify_locations(cafile=self._ca_file)
                except OSError as error:  # ssl.SSLError is an OSError
                    why = error if isinstance(error, ssl.SSLError) else error.strerror or error
                    raise InvalidParameter(
                        f"the CA file {self._ca_file} cannot be used: {why}", param="ca_file"
                    ) from error
                self._context = context
            return self._context


class Reply:
    """A response whose body has not been read yet. To be closed with `close`."""

    def __init__(self, exchange: Exchange, route: _Route, idle: Idle) -> None:
        self._exchange = exchange
        self._route = route
        self._idle = idle
        self._is_closed = False
        self.status = exchange.status
        self.headers = httpx.Headers(exchange.headers)
        self.body = exchange.body

    def close(self) -> None:
        """Keeps the connection for another request if this response was read to its end."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._exchange.is_reusable:
            self._idle.give(self._route, self._exchange.connection)
        else:
            self._exchange.connection.stream.close()


def _authorization(proxy: httpx.Proxy) -> Headers:
    if proxy.raw_auth is None:
        return []
    return [(b"Proxy-Authorization", b"Basic " + b64encode(b":".join(proxy.raw_auth)))]


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
