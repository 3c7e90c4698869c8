"""Interprets a server's response to a request for a file or a range of it, trusting it as little as possible.

Parses at the edge: callers get `Part`, `WholeFile`, `Nothing` or an exception. Does not know which bytes are on disk.
"""

from __future__ import annotations

from dataclasses import dataclass

from localllm.errors import AccessDenied, PullFailed
from localllm.registry.fetch.net import Reply
from localllm.registry.fetch.pacing import Retryable
from localllm.registry.fetch.ranges import parse_content_range, parse_unsatisfied


class RefusedResponse(Exception):
    """The server refused (401, 403, 404, 410); `error` explains it to the user."""

    def __init__(self, error: PullFailed) -> None:
        super().__init__(error.message)
        self.error = error


@dataclass(frozen=True)
class Part:
    """206: the requested range or a prefix of it."""

    end: int
    total: int | None
    validator: str | None


@dataclass(frozen=True)
class WholeFile:
    """200: the whole file, whatever was requested."""

    length: int | None
    validator: str | None
    is_framed: bool
    """Truncation can be detected."""


@dataclass(frozen=True)
class Nothing:
    """416: the range lies outside the file, which has `total` bytes."""

    total: int | None


Answer = Part | WholeFile | Nothing


def read_answer(reply: Reply, name: str, start: int, asked_end: int | None) -> Answer:
    """Interprets the response to a request for [start, asked_end) of `name`, or for all of it if `asked_end` is None.

    Raises `Retryable`, `RefusedResponse`, or `PullFailed` for permanent failures.
    """
    host = reply.hop.url.host
    failure = reply.retryable()
    if failure is not None:
        raise failure
    if reply.status in (401, 403):
        page = _page_of_terms(reply)
        if page is not None:
            raise RefusedResponse(
                AccessDenied(
                    f"{name} is gated: request access on {page} with the account that HF_TOKEN belongs to", status=403
                )
            )
        message = f"{host} answered {reply.status} for {name}: it requires a token, or a different one"
        raise RefusedResponse(AccessDenied(message, status=reply.status))
    if reply.status in (404, 410):
        raise RefusedResponse(PullFailed(f"{host} has no {name} (it answered {reply.status})", status=reply.status))
    if reply.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise PullFailed(f"{host} sent {name} in an encoding that was not requested")
    if reply.status == 200:
        return WholeFile(reply.length, validator_of(reply), reply.is_framed)
    if reply.status == 206 and asked_end is not None:
        found = parse_content_range(reply.headers.get("content-range"))
        if found is None or found.start != start or found.end > asked_end:
            raise Retryable(f"{host} sent a different range of {name} than requested")
        if reply.length is not None and reply.length != found.end - found.start:
            raise Retryable(f"{host} sent a range of {name} whose length contradicts its headers")
        return Part(found.end, found.total, validator_of(reply))
    if reply.status == 416 and asked_end is not None:
        return Nothing(parse_unsatisfied(reply.headers.get("content-range")))
    raise PullFailed(f"{host} answered {reply.status} for {name}")


def _page_of_terms(reply: Reply) -> str | None:
    """The page on which access to the gated Hugging Face repository of this file can be requested."""
    repo, resolve, _ = str(reply.hop.url).partition("/resolve/")
    is_gated = reply.headers.get("x-error-code") == "GatedRepo"
    return repo if is_gated and resolve else None


def validator_of(reply: Reply) -> str | None:
    """Identifies the content: a strong ETag, else Last-Modified."""
    etag = reply.headers.get("etag", "")
    if etag.startswith('"') and etag.endswith('"') and 2 < len(etag) <= 256:
        return etag
    modified = reply.headers.get("last-modified", "")
    return modified if 0 < len(modified) <= 64 else None
