"""Unpaired surrogates: half characters, which JSON and Python's strings may have and UTF-8 cannot encode.

Clients cut texts between two halves of an emoji. Each half becomes U+FFFD. Knows no field.
"""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec

T = TypeVar("T", bound=msgspec.Struct)

REPLACED = "surrogates-replaced"
"""The note about it."""
MAX_ESCAPES = 500_000
"""Escapes of surrogates in one body that are looked at, in about 0.1 s; with more, unpaired ones are an error."""

_HIGH, _LOW = rb"\\u[dD][89abAB][0-9a-fA-F]{2}", rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_UNPAIRED_HIGH = re.compile(rb"%b(?!%b)" % (_HIGH, _LOW))
_UNPAIRED_LOW = re.compile(rb"(?<!%b)%b" % (_HIGH, _LOW))
_ESCAPED = rb"\\ufffd"
_ENCODED = re.compile(rb"(?:\xed[\xa0-\xbf][\x80-\xbf])+")
"""Surrogates as some libraries encode them in UTF-8; valid UTF-8 has no such bytes."""
_BACKSLASH, _HIDDEN = rb"\\", b"\0\0"


def whole_text(text: str) -> str:
    """The text; pairs are joined."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def whole_value(value: Any) -> Any:
    """The same for all texts of JSON values."""
    if isinstance(value, str):
        return whole_text(value)
    if isinstance(value, list | tuple):
        return [*map(whole_value, value)]
    return {whole_value(key): whole_value(each) for key, each in value.items()} if isinstance(value, dict) else value


def whole_struct(value: T) -> T:
    """The same for all texts of a Struct; the Struct itself if nothing is wrong with it."""
    try:
        msgspec.msgpack.encode(value)
    except UnicodeEncodeError:
        return msgspec.convert(whole_value(msgspec.to_builtins(value)), type(value))
    return value


def whole_json(body: bytes) -> bytes:
    """The same for JSON, whose strings have surrogates as escapes; the body itself if nothing is wrong with it."""
    if b"\xed" in body:
        body = _ENCODED.sub(lambda found: whole_text(found[0].decode("utf-8", "surrogatepass")).encode(), body)
    num_escapes = body.count(rb"\ud") + body.count(rb"\uD")
    if not 0 < num_escapes <= MAX_ESCAPES or b"\0" in body:
        return body
    hidden = body.replace(_BACKSLASH, _HIDDEN)  # now every backslash begins an escape
    mended = _UNPAIRED_LOW.sub(_ESCAPED, _UNPAIRED_HIGH.sub(_ESCAPED, hidden))
    return body if mended == hidden else mended.replace(_HIDDEN, _BACKSLASH)
