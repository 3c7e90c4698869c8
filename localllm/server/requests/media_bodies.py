"""Takes pictures and sounds out of JSON bodies before these are parsed.

    body    {"url": "data:image/png;base64,iVBORw0..."}
    rest    {"url": "data:image/png;base64,<a random text and the digest>"}        and a `MediaFile`, once per content

So a body of ten screenshots is parsed like a short one. Knows no API's fields.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from localllm.chat.media_files import REFERENCE, decoded, file_of, kind_of
from localllm.types import MediaFile

MIN_RUN = 4096
"""Characters from which base64 is taken out of a body. Shorter ones are decoded where they stand."""
_STRING = re.compile(rb'(?<!\\)"(data:[^,"\\]{0,200},)?([A-Za-z0-9+/=\\_-]{%d,}+)(?<!\\)"' % MIN_RUN)
_TEXT_KEY = re.compile(rb'"(?:text|content|prompt|system|input|arguments|output)"\s*:\s*\Z')
"""Before a string that is text, whatever it looks like."""
_KEY_BYTES = 40


class TakenOut(NamedTuple):
    """A body without its large base64, and what was in it."""

    rest: bytes
    files: tuple[MediaFile, ...]


def take_out(body: bytes) -> TakenOut:
    """Takes pictures and sounds out of JSON; it refers to them, see `chat.media_files`."""
    files: dict[str, MediaFile] = {}
    kept: list[bytes] = []
    at = 0
    for match in _STRING.finditer(body):
        if _TEXT_KEY.search(body[max(0, match.start() - _KEY_BYTES) : match.start()]):
            continue
        data = decoded(match[2])
        if data is None or (match[1] is None and kind_of(data) is None):
            continue
        file = file_of(data)
        files[file.digest] = file
        kept += [body[at : match.start(2)], f"{REFERENCE}{file.digest}".encode()]
        at = match.end(2)
    if not files:
        return TakenOut(body, ())
    return TakenOut(b"".join([*kept, body[at:]]), tuple(files.values()))
