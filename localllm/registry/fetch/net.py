"""Requests to other machines: one place that knows redirects, credentials, retries and limits.

Redirects are followed by hand. A credential goes to its own origin only and is dropped for good at the first other one;
https never leads to http. Hosts named by the user (typed or configured) may be private; hosts that a manifest or
redirect leads to may not, unless such a host leads to itself. Addresses are checked where they are connected to
(`sockets`); behind a proxy, which resolves names itself, only literal addresses and names like localhost can be
refused. Knows nothing of models, files, or the content of responses.
"""

from __future__ import annotations

import random
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import httpx

from localllm import __version__
from localllm.errors import PullFailed
from localllm.registry.fetch import routes
from localllm.registry.fetch.exchange import InvalidRequest, Request
from localllm.registry.fetch.guard import check_name
from localllm.registry.fetch.pacing import (
    DEFAULT_BACKOFF,
    PATIENCE_S,
    Backoff,
    Retryable,
    TokenBucket,
    is_retryable,
    rate_limit_reset_s,
    retry_after_s,
)
from localllm.registry.fetch.routes import Routes, Timeouts
from localllm.registry.fetch.sockets import SLICE_S, LinkError, NoConnection, NotTrusted, Patience, Resolve, resolve
from localllm.registry.fetch.socks import ProxyFailed
from localllm.registry.manifest import MAX_MANIFEST_BYTES
from localllm.registry.remote import Cancelled, Credential

MAX_REDIRECTS = 10
SMALL_ATTEMPTS = 3
"""For small responses, which somebody is waiting for."""
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_SECRET_HEADERS = frozenset({"authorization", "cookie", "proxy-authorization"})


@dataclass(frozen=True, kw_only=True)
class NetOptions:
    """How this machine reaches others."""

    proxy: str | None = None
    """For every request; None: the environment's."""
    ca_file: Path | None = None
    """PEM, believed in addition to the usual authorities."""
    max_bytes_per_s: int | None = None
    """For all downloads together; None: as fast as it goes."""
    allow_private_hosts: bool = False
    """Lifts the guard, for networks whose name servers return private addresses."""
    connect_timeout_s: float = 10.0
    read_timeout_s: float = 30.0
    """A connection on which nothing arrives for so long is given up."""
    small_timeout_s: float = 60.0
    """For a small response as a whole, including retries and pauses."""
    backoff: Backoff = DEFAULT_BACKOFF
    patience_s: float = PATIENCE_S
    """A download that gets nothing for so long is given up."""
    user_agent: str | None = None
    """None: `localllm/VERSION`."""


@dataclass(frozen=True)
class SmallResponse:
    """A response that has been read completely."""

    status: int
    headers: Mapping[str, str]
    """Keys are case-insensitive."""
    body: bytes
    url: str
    """Of the answer, after redirects."""


@dataclass(frozen=True)
class Hop:
    """Where a request goes next, and which credential it may carry."""

    url: httpx.URL
    named_by_user: bool
    """The user typed or configured the host, so it may be private."""
    credential: Credential | None

    def follow(self, location: str) -> Hop:
        """The target of a redirect. Raises `PullFailed` for one that must not be followed."""
        try:
            url = self.url.join(location)
        except (httpx.InvalidURL, ValueError) as error:
            raise PullFailed(f"{self.url.host} redirects to something that is not a URL") from error
        if url.scheme not in ("http", "https") or not url.host or url.userinfo:
            raise PullFailed(f"{self.url.host} redirects to {str(url)[:200]!r}, which localllm does not follow")
        if self.url.scheme == "https" and url.scheme == "http":
            raise PullFailed(f"{self.url.host} redirects from https to http; that is not followed")
        same = origin_of(str(url)) == origin_of(str(self.url))
        return Hop(url, self.named_by_user and same, self.credential if same else None)


class Reply:
    """A response whose body has not been read yet."""

    def __init__(
        self, status: int, headers: Mapping[str, str], body: Callable[[], Iterator[memoryview | bytes]], hop: Hop
    ) -> None:
        self.status = status
        self.headers = headers
        self._body = body
        self.hop = hop
        """Where the response came from, after redirects."""

    @property
    def is_framed(self) -> bool:
        """The response states where it ends, so truncation is detected."""
        return "content-length" in self.headers or "chunked" in self.headers.get("transfer-encoding", "").lower()

    @property
    def length(self) -> int | None:
        """`Content-Length`, where there is one."""
        value = self.headers.get("content-length", "")
        return int(value) if value.isascii() and value.isdigit() and len(value) < 20 else None

    def pieces(self) -> Iterator[memoryview | bytes]:
        """The body as it arrives, not decoded; each piece is valid until the next one is asked for.

        Raises `Retryable` if it ends too early or stops arriving.
        """
        with _explained(self.hop.url):
            yield from self._body()

    def retryable(self) -> Retryable | None:
        """The error to raise for a transient status."""
        if not is_retryable(self.status):
            return None
        busy = self.status in (429, 503)
        asked_s = retry_after_s(self.headers.get("retry-after"))
        if asked_s is None and busy:
            asked_s = rate_limit_reset_s(self.headers.get("ratelimit"))
        message = f"{self.hop.url.host} answers {self.status}"
        return Retryable(message, retry_after_s=asked_s, busy=busy, is_outage=True)


def wait(seconds: float, is_cancelled: Callable[[], bool]) -> None:
    """Sleeps in slices. Raises `Cancelled`."""
    until = time.monotonic() + seconds
    while True:
        if is_cancelled():
            raise Cancelled("cancelled; the bytes received so far are kept")
        left = until - time.monotonic()
        if left <= 0:
            return
        time.sleep(min(SLICE_S, left))


class Net:
    """All requests go through one of these; any number of threads may share it. Closed by `close`."""

    def __init__(
        self,
        options: NetOptions | None = None,
        *,
        resolver: Resolve = resolve,
        pause: Callable[[float, Callable[[], bool]], None] = wait,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """`resolver`, `pause` and `chance` are for tests. Raises `InvalidParameter` for options that cannot be."""
        self.options = options or NetOptions()
        self.pause = pause
        self.chance = chance
        limit = self.options.max_bytes_per_s
        self._bucket = None if limit is None else TokenBucket(limit)
        self._agent = self.options.user_agent or f"localllm/{__version__}"
        options = self.options
        self._routes = Routes(options.proxy, options.ca_file, resolver, max_bytes_per_s=limit)

    def __enter__(self) -> Net:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes every idle connection."""
        self._routes.close()

    def get_small(
        self,
        url: str,
        *,
        credential: Credential | None = None,
        named_by_user: bool = False,
        max_bytes: int = MAX_MANIFEST_BYTES,
        headers: Mapping[str, str] | None = None,
        cancel: threading.Event | None = None,
    ) -> SmallResponse:
        """GET, read completely; `max_bytes` limits the decompressed size. Any status is a valid response.

        Makes up to `SMALL_ATTEMPTS` attempts. Raises `PullFailed`, `ForbiddenAddress`, `Cancelled`.
        """
        is_cancelled = (lambda: False) if cancel is None else cancel.is_set
        patient = Patience(is_cancelled, time.monotonic() + self.options.small_timeout_s)
        asked = {"accept-encoding": "gzip", **(headers or {})}
        for attempt in range(1, SMALL_ATTEMPTS + 1):
            response: SmallResponse | None = None
            try:
                with self.stream(
                    url, credential=credential, named_by_user=named_by_user, headers=asked, patient=patient
                ) as reply:
                    failure = reply.retryable()
                    response = _read_small(reply, max_bytes)
            except Retryable as error:
                failure = error
            if failure is None and response is not None:
                return response
            assert failure is not None
            seconds = self.options.backoff.pause_s(attempt, retry_after_s=failure.retry_after_s, chance=self.chance())
            too_late = patient.deadline is not None and time.monotonic() + seconds > patient.deadline
            if attempt == SMALL_ATTEMPTS or too_late:
                if response is not None:
                    return response
                raise failure
            self.pause(seconds, is_cancelled)
        raise AssertionError("the last attempt returns or raises")

    @contextmanager
    def stream(
        self,
        url: str,
        *,
        credential: Credential | None = None,
        named_by_user: bool = False,
        headers: Mapping[str, str] | None = None,
        patient: Patience | None = None,
    ) -> Iterator[Reply]:
        """GET; redirects are followed; the caller reads the final response inside the block. Any status is a valid
        response.

        Raises `Retryable` when there is no response, `PullFailed` when there will be none, `ForbiddenAddress`,
        `Cancelled`.
        """
        if headers is not None and _SECRET_HEADERS & {name.lower() for name in headers}:
            raise ValueError("secrets go into a credential, which knows where it may be sent")
        hop = self._first_hop(url, credential, named_by_user)
        for _ in range(MAX_REDIRECTS + 1):
            response = self._send(hop, headers or {}, patient or Patience())
            try:
                location = response.headers.get("location")
                if response.status in _REDIRECTS and location:
                    hop = hop.follow(location)
                    continue
                yield Reply(response.status, response.headers, response.body, hop)
                return
            finally:
                response.close()
        raise PullFailed(f"{httpx.URL(url).host} redirects more than {MAX_REDIRECTS} times")

    def send(
        self,
        method: str,
        url: str,
        *,
        credential: Credential | None = None,
        named_by_user: bool = False,
        headers: Mapping[str, str] | None = None,
        content: bytes | Iterable[bytes] = b"",
        timeout_s: float | None = None,
        cancel: threading.Event | None = None,
    ) -> SmallResponse:
        """Any other request, sent once, without following redirects. Content in pieces needs a length in `headers`.

        Raises `Retryable` when there is no answer, `PullFailed`, `ForbiddenAddress`, `Cancelled`.
        """
        patient = Patience((lambda: False) if cancel is None else cancel.is_set)
        hop = self._first_hop(url, credential, named_by_user)
        response = self._send(hop, headers or {}, patient, method=method, content=content, timeout_s=timeout_s)
        try:
            if method == "HEAD":
                return SmallResponse(response.status, response.headers, b"", str(hop.url))
            return _read_small(Reply(response.status, response.headers, response.body, hop), MAX_MANIFEST_BYTES)
        finally:
            response.close()

    def throttle(self, size_bytes: int, is_cancelled: Callable[[], bool]) -> float:
        """Waits as the bandwidth limit demands after so many bytes; returns the seconds. Raises `Cancelled`."""
        seconds = 0.0 if self._bucket is None else self._bucket.take(size_bytes)
        if seconds > 0:
            self.pause(seconds, is_cancelled)
        return seconds

    def _first_hop(self, url: str, credential: Credential | None, named_by_user: bool) -> Hop:
        try:
            parsed = httpx.URL(url)
        except (httpx.InvalidURL, ValueError) as error:
            raise PullFailed(f"{url[:200]!r} is not a URL: {error}") from error
        if parsed.scheme not in ("http", "https") or not parsed.host or parsed.userinfo:
            raise PullFailed(f"{url[:200]!r} is not an http or https URL, or contains a user name")
        if credential is not None and credential.origin != origin_of(url):
            credential = None
        return Hop(parsed, named_by_user, credential)

    def _send(
        self,
        hop: Hop,
        headers: Mapping[str, str],
        patient: Patience,
        *,
        method: str = "GET",
        content: bytes | Iterable[bytes] = b"",
        timeout_s: float | None = None,
    ) -> routes.Reply:
        may_be_private = hop.named_by_user or self.options.allow_private_hosts
        if not may_be_private:
            check_name(hop.url.host)
        asked = httpx.Headers({"host": hop.url.netloc.decode("ascii"), "user-agent": self._agent, "accept": "*/*"})
        asked.update({"accept-encoding": "identity", **headers})
        if hop.credential is not None:
            asked["authorization"] = hop.credential.authorization
        if isinstance(content, bytes) and (content or method not in ("GET", "HEAD")):
            asked["content-length"] = str(len(content))
        body = ([content] if content else []) if isinstance(content, bytes) else content
        timeouts = Timeouts(self.options.connect_timeout_s, timeout_s or self.options.read_timeout_s)
        with _explained(hop.url):
            request = Request(method.encode("ascii"), hop.url.raw_path, asked.raw, body)
            return self._routes.send(hop.url, request, timeouts, patient, guarded=not may_be_private)


def origin_of(url: str) -> str:
    """`scheme://host[:port]`, in lower case and ASCII, without the scheme's own port. Raises `PullFailed`."""
    try:
        parsed = httpx.URL(url)
        host = parsed.raw_host.decode("ascii").lower()
    except (httpx.InvalidURL, ValueError) as error:
        raise PullFailed(f"{url[:200]!r} is not a URL: {error}") from error
    shown = f"[{host}]" if ":" in host else host
    return f"{parsed.scheme}://{shown}" if parsed.port is None else f"{parsed.scheme}://{shown}:{parsed.port}"


def _read_small(reply: Reply, max_bytes: int) -> SmallResponse:
    encoding = reply.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity", "gzip"):
        raise PullFailed(f"{reply.hop.url.host} answers in the encoding {encoding[:40]!r}, which was not requested")
    too_large = PullFailed(f"the answer of {reply.hop.url.host} has more than {max_bytes:,} bytes")
    if (reply.length or 0) > max_bytes:
        raise too_large
    inflate = zlib.decompressobj(16 + zlib.MAX_WBITS) if encoding == "gzip" else None
    body = bytearray()
    for piece in reply.pieces():
        if inflate is None:
            body += piece
        else:
            try:  # one byte more than allowed is enough to know
                body += inflate.decompress(piece, max_bytes + 1 - len(body))
            except zlib.error as error:
                raise PullFailed(f"{reply.hop.url.host} answers with broken gzip: {error}") from error
        if len(body) > max_bytes:
            raise too_large
    if inflate is not None and body and (not inflate.eof or inflate.unused_data):
        raise Retryable(f"the answer of {reply.hop.url.host} is truncated or followed by other data")
    return SmallResponse(reply.status, reply.headers, bytes(body), str(reply.hop.url))


@contextmanager
def _explained(url: httpx.URL) -> Iterator[None]:
    """Turns errors of the connection into ours."""
    host = url.host
    try:
        yield
    except (InvalidRequest, httpx.InvalidURL, UnicodeEncodeError) as error:
        raise PullFailed(f"{host} cannot be sent this request: {error}") from error
    except ProxyFailed as error:
        raise Retryable(f"the proxy does not connect to {host}: {error}", is_outage=True) from error
    except NotTrusted as error:
        raise PullFailed(
            f"the certificate of {host} is not trusted: {error}; "
            "if your network has its own authority, name its certificate as CA file"
        ) from error
    except NoConnection as error:
        raise Retryable(f"no connection to {host}: {error}", is_outage=True) from error
    except LinkError as error:
        raise Retryable(f"the connection to {host} failed: {error}", is_outage=True) from error
