"""Takes pictures and sounds out of JSON bodies before these are parsed.

    body    {"url": "data:image/png;base64,iVBORw0..."}
    rest    {"url": "data:image/png;base64,<a random text and the digest>"}        and a `MediaFile`, once per content

So a body of ten screenshots is parsed like a short one. Clients send the same ones at every turn: what came before is
found and hashed, but neither matched nor decoded. Knows no API's fields.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from localllm.chat.media_files import REFERENCE, file_in, kind_of
from localllm.types import MediaFile

MIN_RUN = 4096
"""Characters from which base64 is taken out of a body. Shorter ones are decoded where they stand."""
_PROBE = MIN_RUN // 2
"""Every string of `MIN_RUN` characters has a stretch of so many without a quote, wherever the search begins."""
_MAX_PREFIX = 206
_NOT_BASE64 = re.compile(rb"[^A-Za-z0-9+/=\\_-]")
"""With escapes, as PHP and .NET write base64 into JSON."""
_TEXT_KEY = re.compile(rb'"(?:text|content|prompt|system|input|arguments|output)"\s*:\s*\Z')
"""Before a string that is text, whatever it looks like."""
_KEY_BYTES = 40
_HEAD_CHARS = 256


class TakenOut(NamedTuple):
    """A body without its large base64, and what was in it."""

    rest: bytes
    files: tuple[MediaFile, ...]


def take_out(body: bytes | bytearray) -> TakenOut:
    """Takes pictures and sounds out of JSON; it refers to them, see `chat.media_files`. The files may keep the body."""
    whole = memoryview(body)
    files: dict[str, MediaFile] = {}
    kept: list[bytes | memoryview] = []
    at = 0
    for begin, end in _base64_in(body):
        file = file_in(whole[begin:end])
        if file is None or (body[begin - 1] != ord(",") and kind_of(file.head) is None):
            continue
        files[file.digest] = file
        kept += [whole[at:begin], f"{REFERENCE}{file.digest}".encode()]
        at = end
    if not files:
        return TakenOut(bytes(body), ())
    return TakenOut(b"".join([*kept, whole[at:]]), tuple(files.values()))


def _base64_in(body: bytes | bytearray) -> Iterator[tuple[int, int]]:
    """Where long strings stand that look like base64, behind the beginnings of data URLs."""
    for begin, end in _long_strings(body):
        start = begin
        if body.startswith(b"data:", begin):
            comma = body.find(b",", begin, begin + _MAX_PREFIX)
            if comma < 0 or body.find(b"\\", begin, comma) >= 0:
                continue
            start = comma + 1
        if end - start < MIN_RUN or _NOT_BASE64.search(body, start, start + _HEAD_CHARS):
            continue
        if not _TEXT_KEY.search(body[max(0, begin - 1 - _KEY_BYTES) : begin - 1]):
            yield start, end


def _long_strings(body: bytes | bytearray) -> Iterator[tuple[int, int]]:
    """Where what is between two quotes, neither of which is escaped, begins and ends, if it is long."""
    at, size = 0, len(body)
    while at + _PROBE < size:
        last = body.rfind(b'"', at, at + _PROBE)
        if last >= 0:
            at = last + 1
            continue
        end = body.find(b'"', at + _PROBE)
        if end < 0:
            return
        begin = body.rfind(b'"', 0, at) + 1
        is_string = begin > 1 and body[begin - 2] != ord("\\") and body[end - 1] != ord("\\")
        if is_string and end - begin >= MIN_RUN:
            yield begin, end
        at = end + 1
