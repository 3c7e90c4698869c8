"""The lines of a batch file: OpenAI's, `{"custom_id", "method", "url", "body"}`, and
Anthropic's, `{"custom_id", "params"}`.

Every line becomes a `BatchLine`; what is wrong with one stands in it, so that the others can be answered. Knows nothing
of what a body means, but for its model and that it must not be streamed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import IO, NamedTuple

import msgspec

MESSAGES = "/v1/messages"
EMBEDDINGS = "/v1/embeddings"
URLS = ("/v1/chat/completions", "/v1/completions", "/v1/responses", EMBEDDINGS, MESSAGES)
"""What a line may ask for."""
DIGEST_CHARACTERS = 16
MAX_ID_CHARS = 512
"""Of a `custom_id`: all of a batch's are in memory."""


class BatchLine(NamedTuple):
    """A request."""

    number: int
    """Of the line in the file, from 1."""
    id: str
    """`custom_id`; for a line without one, `line-N`."""
    url: str
    body: bytes
    """A JSON object."""
    digest: str
    """Of the whole line: tells whether it is the same in another run."""
    problem: str = ""
    """Why it cannot be sent, with the remedy."""

    @property
    def is_anthropic(self) -> bool:
        """Whether its result has Anthropic's form."""
        return self.url == MESSAGES


class _Line(msgspec.Struct):
    custom_id: str | None = None
    method: str = "POST"
    url: str = ""
    body: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    params: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _Body(msgspec.Struct):
    model: str | None = None
    stream: bool | None = None


def read_lines(file: IO[bytes], max_bytes: int) -> Iterator[BatchLine]:
    """The lines that are not empty, from where the file stands. `max_bytes`: of one line; a longer one is a wrong one,
    and never whole in memory."""
    for number, line in _numbered(file, max_bytes):
        if len(line) > max_bytes:
            yield _wrong(number, line, f"the line has more than {max_bytes:,} bytes (max_body_bytes)")
        elif line.strip():
            yield _parsed(number, line)


def digest_of(line: bytes) -> str:
    """Of a line's bytes, without the blanks around them."""
    return hashlib.sha256(line.strip()).hexdigest()[:DIGEST_CHARACTERS]


def model_of(line: BatchLine) -> str | None:
    """The model that the line names."""
    return msgspec.json.decode(line.body, type=_Body).model if not line.problem else None


def with_model(line: BatchLine, model: str) -> BatchLine:
    """The line, for this model instead of its own."""
    if line.problem or model_of(line) == model:
        return line
    body = {
        **msgspec.json.decode(line.body, type=dict[str, msgspec.Raw]),
        "model": msgspec.Raw(msgspec.json.encode(model)),
    }
    return line._replace(body=msgspec.json.encode(body))


def of_batch_class(line: BatchLine) -> bytes:
    """The line's body, served after requests that somebody waits for, unless it says something else. Texts to embed
    have no classes."""
    body = msgspec.json.decode(line.body, type=dict[str, msgspec.Raw])
    if line.url == EMBEDDINGS or body.keys() & {"batch", "service_tier"}:
        return line.body
    return msgspec.json.encode({**body, "batch": True})


def batched(line: BatchLine) -> BatchLine:
    """The line, of the batch class whatever it says: what a server's key may do besides is bounded."""
    if line.problem or line.url == EMBEDDINGS:
        return line
    body = msgspec.json.decode(line.body, type=dict[str, msgspec.Raw])
    body.pop("service_tier", None)
    return line._replace(body=msgspec.json.encode({**body, "batch": True}))


def _numbered(file: IO[bytes], max_bytes: int) -> Iterator[tuple[int, bytes]]:
    """Lines and their numbers; of a line that is too long, its first `max_bytes` + 1."""
    number = 0
    while line := file.readline(max_bytes + 1):
        number += 1
        rest = line
        while len(line) > max_bytes and not rest.endswith(b"\n") and (rest := file.readline(max_bytes)):
            pass
        yield number, line


def _parsed(number: int, line: bytes) -> BatchLine:
    try:
        parsed = msgspec.json.decode(line, type=_Line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return _wrong(number, line, f"the line is no batch request: {error}")
    id = parsed.custom_id or f"line-{number}"
    if len(id) > MAX_ID_CHARS:
        return _wrong(number, line, f"custom_id has more than {MAX_ID_CHARS} characters")
    is_anthropic = parsed.params is not msgspec.UNSET
    url = MESSAGES if is_anthropic else parsed.url
    body = parsed.params if is_anthropic else parsed.body
    if parsed.custom_id is None:
        return _wrong(number, line, "custom_id is missing")
    if parsed.method.upper() != "POST":
        return _wrong(number, line, f"method must be POST, got {parsed.method!r}", id)
    if url not in URLS:
        return _wrong(number, line, f"url must be one of {', '.join(URLS)}, got {url[:80]!r}", id)
    if body is msgspec.UNSET or not bytes(body).lstrip().startswith(b"{"):
        return _wrong(number, line, f"{'params' if is_anthropic else 'body'} must be a JSON object", id)
    try:
        asked = msgspec.json.decode(body, type=_Body)
    except msgspec.DecodeError as error:
        return _wrong(number, line, f"body: {error}", id)
    if asked.stream:
        return _wrong(number, line, "stream: a batch has whole answers; leave stream out", id)
    return BatchLine(number, id, url, bytes(body), digest_of(line))


def _wrong(number: int, line: bytes, problem: str, id: str | None = None) -> BatchLine:
    return BatchLine(number, id or f"line-{number}", "", b"", digest_of(line), problem)
