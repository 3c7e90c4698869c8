"""HTTP requests to other machines: the one place that handles redirects, credentials, retries and limits.

Redirects are followed here. A credential is sent only to its own origin and is dropped for good at the first other one;
https never leads to http. Hosts named by the user (typed or configured) may be private; hosts that a manifest or
redirect leads to may not, unless such a host redirects to itself. Addresses are checked when connecting (`sockets`);
behind a proxy, which resolves names itself, only literal addresses and names like localhost can be refused. Knows
nothing of models, files, or the content of responses.
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

import httpcore
import httpx

from localllm import __version__
from localllm.errors import PullFailed
from localllm.registry.fetch.failures import explained
from localllm.registry.fetch.guard import check_name
from localllm.registry.fetch.pacing import (
    DEFAULT_BACKOFF,
    PATIENCE_S,
    Backoff,
    OnWait,
    Retries,
    Retryable,
    TokenBucket,
    is_retryable,
    rate_limit_reset_s,
    retry_after_s,
    telling,
)
from localllm.registry.fetch.routes import Routes
from localllm.registry.fetch.sockets import SLICE_S, Patience, Resolve, requesting, resolve
from localllm.registry.manifest import MAX_MANIFEST_BYTES
from localllm.registry.remote import Cancelled, Credential

MAX_REDIRECTS = 10
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_SECRET_HEADERS = frozenset({"authorization", "cookie", "proxy-authorization"})


@dataclass(frozen=True, kw_only=True)
class NetOptions:
    """Options of the network connection."""

    proxy: str | None = None
    """Proxy for every request; None: the environment's."""
    ca_file: Path | None = None
    """A PEM file of CAs to trust in addition to the usual ones."""
    max_bytes_per_s: int | None = None
    """Bandwidth limit for all downloads together; None: unlimited."""
    allow_private_hosts: bool = False
    """Disables the guard, for networks whose name servers return private addresses."""
    connect_timeout_s: float = 10.0
    read_timeout_s: float = 30.0
    """A connection is abandoned after this long without data."""
    small_timeout_s: float = 60.0
    """Deadline for a small response, including retries and pauses; for each attempt, if the caller is patient."""
    backoff: Backoff = DEFAULT_BACKOFF
    patience_s: float = PATIENCE_S
    """A download is abandoned after this long without data; so is a patient request for a small response."""
    max_redirects: int = MAX_REDIRECTS
    is_direct: bool = False
    """Whether no proxy is used, not even the environment's: it could reach what the guard refuses."""
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
    """The URL of the response, after redirects."""


@dataclass(frozen=True)
class Hop:
    """Where a request goes next, and which credential it may carry."""

    url: httpx.URL
    named_by_user: bool
    """Whether the user typed or configured the host, which may then be private."""
    credential: Credential | None

    def follow(self, location: str) -> Hop:
        """The hop to a redirect's target. Raises `PullFailed` if it must not be followed."""
        try:
            url = self.url.join(location)
        except (httpx.InvalidURL, ValueError) as error:
            raise PullFailed(f"{self.url.host} redirects to an invalid URL") from error
        if url.scheme not in ("http", "https") or not url.host or url.userinfo:
            raise PullFailed(f"{self.url.host} redirects to {str(url)[:200]!r}, which localllm does not follow")
        if self.url.scheme == "https" and url.scheme == "http":
            raise PullFailed(f"{self.url.host} redirects from https to http, which localllm does not follow")
        same = origin_of(str(url)) == origin_of(str(self.url))
        return Hop(url, self.named_by_user and same, self.credential if same else None)


class Reply:
    """A response whose body has not been read yet."""

    def __init__(self, status: int, headers: Mapping[str, str], body: Iterable[bytes], hop: Hop) -> None:
        self.status = status
        self.headers = headers
        self._body = body
        self.hop = hop
        """Where the response came from, after redirects."""

    @property
    def is_framed(self) -> bool:
        """Whether the response states its length, so that truncation is detected."""
        return "content-length" in self.headers or "chunked" in self.headers.get("transfer-encoding", "").lower()

    @property
    def length(self) -> int | None:
        """`Content-Length`, if there is one."""
        value = self.headers.get("content-length", "")
        return int(value) if value.isascii() and value.isdigit() and len(value) < 20 else None

    def pieces(self) -> Iterator[bytes]:
        """Yields the body as it arrives, not decoded. Raises `Retryable` if it ends too early or stops arriving."""
        with explained(self.hop.url):
            yield from self._body

    def retryable(self) -> Retryable | None:
        """The error to raise for a transient status."""
        if not is_retryable(self.status):
            return None
        busy = self.status in (429, 503)
        asked_s = retry_after_s(self.headers.get("retry-after"))
        if asked_s is None and busy:
            asked_s = rate_limit_reset_s(self.headers.get("ratelimit"))
        message = f"{self.hop.url.host} answered {self.status}"
        return Retryable(message, retry_after_s=asked_s, busy=busy, is_outage=True)


def wait(seconds: float, is_cancelled: Callable[[], bool]) -> None:
    """Sleeps in slices, to notice cancellation. Raises `Cancelled`."""
    until = time.monotonic() + seconds
    while True:
        if is_cancelled():
            raise Cancelled("cancelled; the bytes received so far are kept")
        remaining_s = until - time.monotonic()
        if remaining_s <= 0:
            return
        time.sleep(min(SLICE_S, remaining_s))


class Net:
    """Makes all requests; any number of threads may share it. To be closed with `close`."""

    def __init__(
        self,
        options: NetOptions | None = None,
        *,
        resolver: Resolve = resolve,
        pause: Callable[[float, Callable[[], bool]], None] = wait,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """`resolver`, `pause` and `chance` are for tests. Raises `InvalidParameter` for unusable options."""
        self.options = options or NetOptions()
        self.pause = pause
        self.chance = chance
        limit = self.options.max_bytes_per_s
        self._bucket = None if limit is None else TokenBucket(limit)
        self._agent = self.options.user_agent or f"localllm/{__version__}"
        self._routes = Routes(
            self.options.proxy,
            self.options.ca_file,
            resolver,
            max_bytes_per_s=limit,
            is_direct=self.options.is_direct,
        )

    def __enter__(self) -> Net:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes every connection."""
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
        on_wait: OnWait = lambda *_: None,
        is_patient: bool = False,
    ) -> SmallResponse:
        """GETs and reads a response; `max_bytes` limits its decompressed size. Any status is a valid response.

        Makes up to `pacing.SMALL_ATTEMPTS` attempts; `on_wait` is called during the pauses between them. If
        `is_patient`, waits out an outage as a download does, except for a host whose name has no address. Raises
        `PullFailed`, `ForbiddenAddress`, `Cancelled`.
        """
        is_cancelled = (lambda: False) if cancel is None else cancel.is_set
        options = self.options
        retries = Retries(options.backoff, options.small_timeout_s, options.patience_s if is_patient else None)
        asked = {"accept-encoding": "gzip", **(headers or {})}
        began = time.monotonic()
        deadline = began + options.small_timeout_s
        while True:
            response: SmallResponse | None = None
            try:
                with self.stream(
                    url,
                    credential=credential,
                    named_by_user=named_by_user,
                    headers=asked,
                    patient=Patience(is_cancelled, deadline),
                ) as reply:
                    failure = reply.retryable()
                    response = _read_small(reply, max_bytes)
            except Retryable as error:
                failure = error
            if failure is None and response is not None:
                return response
            assert failure is not None
            pause_s = retries.pause_s(failure, time.monotonic() - began, self.chance())
            if pause_s is None:
                if response is not None:
                    return response
                raise failure
            self.pause(pause_s, telling(on_wait, url, began, failure.message, is_cancelled))
            if is_patient:
                deadline = time.monotonic() + options.small_timeout_s

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
        """GETs a URL, following redirects; the caller reads the final response inside the block. Any status is a valid
        response.

        Raises `Retryable` if there is no response, `PullFailed` if there will never be one, `ForbiddenAddress`,
        `Cancelled`.
        """
        if headers is not None and _SECRET_HEADERS & {name.lower() for name in headers}:
            raise ValueError("secrets belong in a credential, which limits where they are sent")
        hop = self._first_hop(url, credential, named_by_user)
        for _ in range(self.options.max_redirects + 1):
            with self._asked(hop, headers or {}, patient or Patience()) as reply:
                location = reply.headers.get("location")
                if reply.status in _REDIRECTS and location:
                    hop = hop.follow(location)
                    continue
                yield reply
                return
        raise PullFailed(f"{httpx.URL(url).host} redirects more than {self.options.max_redirects} times")

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
        """Makes any other request, once, without following redirects. Content in pieces needs a length in `headers`.

        Raises `Retryable` if there is no response, `PullFailed`, `ForbiddenAddress`, `Cancelled`.
        """
        patient = Patience((lambda: False) if cancel is None else cancel.is_set)
        hop = self._first_hop(url, credential, named_by_user)
        with self._asked(hop, headers or {}, patient, method=method, content=content, timeout_s=timeout_s) as reply:
            if method == "HEAD":
                return SmallResponse(reply.status, reply.headers, b"", str(hop.url))
            return _read_small(reply, MAX_MANIFEST_BYTES)

    def throttle(self, size_bytes: int, is_cancelled: Callable[[], bool]) -> float:
        """Waits as long as the bandwidth limit demands for `size_bytes`; returns the seconds. Raises `Cancelled`."""
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

    @contextmanager
    def _asked(
        self,
        hop: Hop,
        headers: Mapping[str, str],
        patient: Patience,
        *,
        method: str = "GET",
        content: bytes | Iterable[bytes] = b"",
        timeout_s: float | None = None,
    ) -> Iterator[Reply]:
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
        read_s = timeout_s or self.options.read_timeout_s
        timeouts = {"connect": self.options.connect_timeout_s, "read": read_s, "write": read_s}
        with requesting(patient):
            with explained(hop.url):
                url = hop.url
                request = httpcore.Request(
                    method,
                    httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
                    headers=asked.raw,
                    content=body,
                    extensions={"timeout": timeouts},
                )
                response = self._routes.send(url, request, guarded=not may_be_private)
            try:
                yield Reply(response.status, httpx.Headers(response.headers), response.iter_stream(), hop)
            finally:
                response.close()


def origin_of(url: str) -> str:
    """`scheme://host[:port]`, in lower case and ASCII, without the scheme's default port. Raises `PullFailed`."""
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
        raise PullFailed(f"{reply.hop.url.host} answered in the encoding {encoding[:40]!r}, which was not requested")
    too_large = PullFailed(f"the response of {reply.hop.url.host} has more than {max_bytes:,} bytes")
    if (reply.length or 0) > max_bytes:
        raise too_large
    inflate = zlib.decompressobj(16 + zlib.MAX_WBITS) if encoding == "gzip" else None
    body = bytearray()
    for piece in reply.pieces():
        if inflate is None:
            body += piece
        else:
            try:  # one byte over the limit is enough to know
                body += inflate.decompress(piece, max_bytes + 1 - len(body))
            except zlib.error as error:
                raise PullFailed(f"{reply.hop.url.host} answered with broken gzip: {error}") from error
        if len(body) > max_bytes:
            raise too_large
    if inflate is not None and body and (not inflate.eof or inflate.unused_data):
        raise Retryable(f"the response of {reply.hop.url.host} is truncated or followed by other data")
    return SmallResponse(reply.status, reply.headers, bytes(body), str(reply.hop.url))
