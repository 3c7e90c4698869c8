"""How a request gets out: directly or through a proxy, guarded against private addresses or not, with which CAs.

An `httpx` transport over `httpcore`'s pools, since only those take a network backend of our own.
Proxies are those of the options, else of the environment (`HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`, as the
system spells them). A proxy may be at a private address. Through one, hosts are resolved by it, so that only literal
addresses and names like localhost can be refused, which `net` does. Knows nothing of redirects or credentials.
"""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from urllib.request import getproxies, proxy_bypass

import httpcore
import httpx

from localllm.errors import InvalidParameter
from localllm.registry.fetch.direct import DirectConnection
from localllm.registry.fetch.sockets import Backend, Resolve

MAX_CONNECTIONS = 64
IDLE_S = 30.0
"""An idle connection is kept for so long."""

_Pool = httpcore.ConnectionPool
_Key = tuple[str | None, bool, bool, bool]
"""Proxy, guarded, TLS, only for GET."""


class Transport(httpx.BaseTransport):
    """Raises httpcore's exceptions, and `ForbiddenAddress`. A request's extension `trusted` lifts the guard."""

    def __init__(self, *, proxy: str | None, ca_file: Path | None, resolver: Resolve) -> None:
        self._proxy = None if proxy is None else _checked_proxy(proxy)
        self._ca_file = ca_file
        self._resolver = resolver
        self._lock = threading.Lock()
        self._pools: dict[_Key, _Pool] = {}
        self._context: ssl.SSLContext | None = None

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Sends it; the answer's body is still to be read."""
        trusted = request.extensions["trusted"]
        pool = self._pool(request.url, guarded=not trusted, only_get=request.method == "GET")
        assert isinstance(request.stream, Iterable)
        response = pool.handle_request(
            httpcore.Request(
                method=request.method,
                url=httpcore.URL(
                    scheme=request.url.raw_scheme,
                    host=request.url.raw_host,
                    port=request.url.port,
                    target=request.url.raw_path,
                ),
                headers=request.headers.raw,
                content=request.stream,
                extensions=request.extensions,
            )
        )
        return httpx.Response(
            response.status, headers=response.headers, stream=_Body(response), extensions=response.extensions
        )

    def close(self) -> None:
        """Closes every connection."""
        with self._lock:
            for pool in self._pools.values():
                pool.close()
            self._pools.clear()

    def proxy_for(self, url: httpx.URL) -> str | None:
        """The proxy that a request goes through."""
        if self._proxy is not None:
            return self._proxy
        proxies = getproxies()
        found = proxies.get(url.scheme) or proxies.get("all")
        if not found or proxy_bypass(url.netloc.decode("ascii")):
            return None
        return _checked_proxy(found if "://" in found else f"http://{found}")

    def _pool(self, url: httpx.URL, *, guarded: bool, only_get: bool) -> _Pool:
        proxy = self.proxy_for(url)
        key = (proxy, guarded and proxy is None, url.scheme == "https", only_get)
        with self._lock:
            if key not in self._pools:
                self._pools[key] = self._new_pool(*key)
            return self._pools[key]

    def _new_pool(self, proxy: str | None, guarded: bool, tls: bool, only_get: bool) -> _Pool:
        context = self._ssl_context() if tls or (proxy or "").startswith("https:") else None
        backend = Backend(self._resolver, guarded=guarded)
        if proxy is None and only_get:
            return _DirectPool(context, backend)
        if proxy is None:  # few requests, and none before the answer to the last one is read
            return _Pool(ssl_context=context, max_connections=MAX_CONNECTIONS, network_backend=backend)
        parsed = httpx.Proxy(proxy)
        address = httpcore.URL(
            scheme=parsed.url.raw_scheme, host=parsed.url.raw_host, port=parsed.url.port, target=parsed.url.raw_path
        )
        if parsed.url.scheme.startswith("socks5"):
            return httpcore.SOCKSProxy(
                address,
                proxy_auth=parsed.raw_auth,
                ssl_context=context,
                max_connections=MAX_CONNECTIONS,
                keepalive_expiry=IDLE_S,
                network_backend=backend,
            )
        return httpcore.HTTPProxy(
            address,
            proxy_auth=parsed.raw_auth,
            proxy_headers=parsed.headers.raw,
            ssl_context=context,
            proxy_ssl_context=context if parsed.url.scheme == "https" else None,
            max_connections=MAX_CONNECTIONS,
            keepalive_expiry=IDLE_S,
            network_backend=backend,
        )

    def _ssl_context(self) -> ssl.SSLContext:
        """Made once, when the first https URL comes: reading the CAs takes 20 ms and more."""
        if self._context is None:
            try:
                context = httpx.create_ssl_context()  # SSL_CERT_FILE and SSL_CERT_DIR, else certifi's
                if self._ca_file is not None:
                    context.load_verify_locations(cafile=self._ca_file)
            except OSError as error:  # ssl.SSLError is one
                raise InvalidParameter(
                    f"the CA file {self._ca_file} cannot be used: {error}", param="ca_file"
                ) from error
            self._context = context
        return self._context


class _DirectPool(httpcore.ConnectionPool):
    """httpcore decides who gets which connection; the connections are ours."""

    def __init__(self, context: ssl.SSLContext | None, backend: Backend) -> None:
        super().__init__(max_connections=MAX_CONNECTIONS)
        self._direct = context, backend

    def create_connection(self, origin: httpcore.Origin) -> httpcore.ConnectionInterface:
        return DirectConnection(origin, *self._direct, IDLE_S)


class _Body(httpx.SyncByteStream):
    def __init__(self, response: httpcore.Response) -> None:
        self._response = response

    def __iter__(self) -> Iterator[bytes]:
        assert isinstance(self._response.stream, Iterable)
        yield from self._response.stream

    def close(self) -> None:
        self._response.close()


def _checked_proxy(text: str) -> str:
    """Raises `InvalidParameter` for what is no proxy that we can use; never prints a password."""
    try:
        url = httpx.Proxy(text).url
    except (ValueError, httpx.InvalidURL) as error:
        raise InvalidParameter("proxy is no URL like http://HOST:PORT or socks5://HOST:PORT", param="proxy") from error
    if not url.host:
        raise InvalidParameter("proxy names no host; one is http://HOST:PORT", param="proxy")
    if url.scheme.startswith("socks5") and find_spec("socksio") is None:
        raise InvalidParameter("a SOCKS proxy needs the package socksio: pip install socksio", param="proxy")
    return text
