"""Bodies as clients encode them: compressed, with a byte order mark, declared as something else or as nothing."""

from __future__ import annotations

import codecs
import gzip
import importlib.util
import json
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from localllm.server.edge import decoding
from localllm.settings.config import Settings
from localllm.types import Message
from tests.server.conftest import Served, running

TEXT = json.dumps({"model": "tiny", "prompt": "Größe ✓"}, ensure_ascii=False).encode()
GZIPPED = gzip.compress(TEXT, mtime=0)
"""Without the time, which would make a test's name differ between processes."""
JSON = {"content-type": "application/json"}


def _raw_deflate(data: bytes) -> bytes:
    return zlib.compress(data)[2:-4]


ENCODERS: dict[str, list[Callable[[bytes], bytes]]] = {
    "gzip": [gzip.compress, lambda data: gzip.compress(data[:9]) + gzip.compress(data[9:])],
    "X-GZip": [gzip.compress],
    "deflate": [zlib.compress, _raw_deflate],
    "identity": [bytes],
}
CASES = [(name, encode) for name, encoders in ENCODERS.items() for encode in encoders]


def _posted(
    served: Served, body: bytes | Iterator[bytes], encoding: str, path: str = "/v1/completions"
) -> httpx.Response:
    return served.http.post(path, content=body, headers={**JSON, "content-encoding": encoding})


@pytest.mark.parametrize(("encoding", "encode"), CASES)
def test_an_encoded_body_is_read_whole_or_byte_by_byte(
    served: Served, encoding: str, encode: Callable[[bytes], bytes]
) -> None:
    body = encode(TEXT)
    for content in (body, (body[at : at + 1] for at in range(len(body)))):
        assert _posted(served, content, encoding).status_code == 200
    asked = [what for _, what, _ in served.runtime.asked]
    assert asked == ["Größe ✓"] * 2
    generated = encode(json.dumps({"model": "tiny", "prompt": "x", "stream": False}).encode())
    assert _posted(served, generated, encoding, "/api/generate").status_code == 200


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a\ud83d"}]}),
        ("/v1/messages", {"max_tokens": 5, "messages": [{"role": "user", "content": "a\ud83d"}]}),
        ("/v1/responses", {"input": "a\ud83d"}),
        ("/api/chat", {"messages": [{"role": "user", "content": "a\ud83d"}]}),
        ("/completion", {"prompt": "a\ud83d"}),
    ],
)
def test_half_a_surrogate_pair_is_replaced_and_said_beside_other_notes(
    served: Served, path: str, fields: dict[str, Any]
) -> None:
    served.runtime.notes = ("system-moved",)
    for body in (json.dumps(fields | {"model": "tiny"}), json.dumps(fields | {"model": "tiny"}, ensure_ascii=False)):
        response = served.http.post(path, content=body.encode("utf-8", "surrogatepass"), headers=JSON)
        assert response.status_code == 200, response.text
        assert response.headers["x-localllm-messages"].endswith("system-moved, surrogates-replaced")
        asked = served.runtime.asked[-1][1]
        assert asked in ("a\ufffd", [Message("user", "a\ufffd")])


MAX_BODY_BYTES = 100_000


@pytest.fixture(scope="module")
def small() -> Iterator[Served]:
    """A server that takes small bodies, and next to no media beside them."""
    with running(
        Settings(port=0, max_body_bytes=MAX_BODY_BYTES, max_media_bytes=1, max_request_media_bytes=1)
    ) as served:
        yield served


@pytest.mark.parametrize(("encoding", "encode"), [case for case in CASES if case[0] != "identity"])
def test_a_decompression_bomb_is_decoded_up_to_the_limit(
    small: Served, monkeypatch: pytest.MonkeyPatch, encoding: str, encode: Callable[[bytes], bytes]
) -> None:
    """Decoded whole, it would have 20 MB; its encoded length is within the limit."""
    decoded: list[int] = []
    decompress = decoding._Zlib.decompress

    def counted(decoder: decoding._Zlib, data: bytes, max_length: int) -> bytes:
        piece = decompress(decoder, data, max_length)
        decoded.append(len(piece))
        return piece

    monkeypatch.setattr(decoding._Zlib, "decompress", counted)
    bomb = encode(b'{"prompt":"' + b" " * 20_000_000)
    refused = _posted(small, iter([bomb[:10_000], bomb[10_000:]]), encoding)
    assert (refused.status_code, refused.json()["error"]["code"]) == (413, "too_large")
    assert sum(decoded) <= MAX_BODY_BYTES + 2 * decoding.PIECE_BYTES


@pytest.mark.parametrize(
    ("encoding", "body", "status"),
    [
        ("gzip", b"\x1f\x8bnonsense", 400),
        ("gzip", GZIPPED[:-9], 400),
        ("gzip", GZIPPED + b"rest", 400),
        ("deflate", TEXT, 400),
        ("br", b"", 415),
        ("gzip, gzip", gzip.compress(GZIPPED, mtime=0), 415),
    ],
)
def test_what_cannot_be_decoded_is_named_with_what_can(served: Served, encoding: str, body: bytes, status: int) -> None:
    for path in ("/v1/completions", "/v1/messages", "/api/generate", "/completion"):
        refused = _posted(served, body, encoding, path)
        assert (refused.status_code, encoding.split(",")[0] in refused.text) == (status, True)
        assert ("gzip, deflate" in refused.headers.get("accept-encoding", "")) == (status == 415)
    assert served.http.get("/health").status_code == 200


def test_zstd_is_read_where_python_has_it_and_named_where_it_has_not(served: Served) -> None:
    if importlib.util.find_spec("compression.zstd") if importlib.util.find_spec("compression") else None:
        zstd = importlib.import_module("compression.zstd")
        assert _posted(served, zstd.compress(TEXT), "zstd").status_code == 200
        assert _posted(served, zstd.compress(b" " * 200_000_000), "zstd").status_code == 413
        assert _posted(served, zstd.compress(TEXT)[:-3], "zstd").status_code == 400
    else:
        refused = _posted(served, b"\x28\xb5\x2f\xfd", "zstd")
        assert refused.status_code == 415
        assert "no 'zstd' is decoded here; send gzip or deflate" in refused.json()["error"]["message"]


@pytest.mark.parametrize(
    ("mark", "encoding"),
    [
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
        (codecs.BOM_UTF32_LE, "utf-32-le"),
        (codecs.BOM_UTF32_BE, "utf-32-be"),
    ],
)
@pytest.mark.parametrize("path", ["/v1/completions", "/api/generate", "/completion"])
def test_a_byte_order_mark_is_no_part_of_the_json(served: Served, mark: bytes, encoding: str, path: str) -> None:
    body = mark + TEXT.decode().encode(encoding)
    assert served.http.post(path, content=body, headers=JSON).status_code == 200
    assert "Größe ✓" in str(served.runtime.asked[0][1])
    if encoding != "utf-8":
        assert served.http.post(path, content=body[:-1], headers=JSON).status_code == 400


@pytest.mark.parametrize("kind", [None, "application/x-www-form-urlencoded", "text/plain"])
def test_a_body_declared_as_something_else_is_json_unless_a_browser_sends_it(served: Served, kind: str | None) -> None:
    """`curl -d` declares a form. A page of any site can send such a body unasked, but not without its origin."""
    declared = {} if kind is None else {"content-type": kind}
    bodies = {
        "/v1/completions": b'{"model":"tiny","prompt":"x"}',
        "/completion": b'{"model":"tiny","prompt":"x"}',
        "/v1/messages/count_tokens": b'{"model":"tiny","messages":[{"role":"user","content":"x"}]}',
        "/tokenize": b'{"model":"tiny","content":"x"}',
        "/v1/embeddings": b'{"model":"tiny","input":"x"}',
    }
    for path, body in bodies.items():
        assert served.http.post(path, content=body, headers=declared).status_code == 200, path
        for page in ({"origin": served.url}, {"sec-fetch-site": "same-origin"}, {"referer": "https://evil.example/"}):
            assert served.http.post(path, content=body, headers=declared | page).status_code == 415
        for foreign in ("https://evil.example", "null"):
            assert served.http.post(path, content=body, headers=declared | {"origin": foreign}).status_code == 403
