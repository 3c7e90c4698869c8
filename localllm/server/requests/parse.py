"""JSON bytes to a typed Struct, or the error that names the field at fault. Knows nothing of any API's fields."""

from __future__ import annotations

import codecs
import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Raw

from localllm.errors import InvalidParameter, clipped
from localllm.types.mismatches import mismatch

T = TypeVar("T", bound=msgspec.Struct)
Fields = Mapping[str, msgspec.Raw]

_WHOLE_FLOAT = re.compile(r"Expected `[^`]*\bint\b[^`]*`.*, got `float`")

MAX_NESTED = 100_000
"""Limit of arrays, objects and keys in a body, which are slow to decode; no useful request has as many."""
MAX_FIELDS = 1000
"""Limit of top-level fields, including unknown ones."""
MAX_SMALL_BYTES = 1000
MAX_VALUES = 2_000_000
"""Limit of numbers, strings and other values: more than the tokens of the longest prompt of any model."""


_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # begins like UTF-16's
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def parse(body: bytes, kind: type[T], check: Callable[[Fields], None] = lambda _: None) -> tuple[Fields, T]:
    """The given fields as raw JSON, and the same typed. `check` gets the former and may raise.

    Raises `InvalidParameter` with a JSON path, e.g. `messages[0].role`. Decoding blocks the event loop, so
    bodies that would take more than a few dozen milliseconds are refused by counting their parts.
    """
    body = utf_8(body)
    with decoding():
        check_size(body)
        given = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        if len(given) > MAX_FIELDS:
            raise InvalidParameter(f"the body has {len(given)} fields; at most {MAX_FIELDS} are read")
        check(given)
        return given, decoded(body, kind)


def utf_8(body: bytes) -> bytes:
    """JSON in UTF-8 without a byte order mark, whichever encoding the mark names. Raises `InvalidParameter`."""
    for mark, encoding in _MARKS:
        if body.startswith(mark):
            try:
                return body[len(mark) :].decode(encoding).encode()
            except UnicodeError as error:
                raise InvalidParameter(f"the body begins as {encoding}, but is not valid: {error}") from error
    return body


def decoded(given: bytes | Raw, kind: Any) -> Any:
    """JSON as a type; whole numbers may be written as `8.0`, as languages with one kind of number do.

    Raises msgspec's errors.
    """
    try:
        return msgspec.json.decode(given, type=kind)
    except msgspec.ValidationError as error:
        if not _WHOLE_FLOAT.search(str(error)):
            raise
    return msgspec.json.decode(given, type=kind, strict=False)


@contextlib.contextmanager
def decoding(path: str = "") -> Iterator[None]:
    """Within it, whatever is wrong with the JSON of the body, or of its field at `path`, raises `InvalidParameter`."""
    try:
        yield
    except msgspec.ValidationError as error:
        raise _named(error, path) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidParameter(f"{path or 'the body'} is not valid JSON: {error}", param=path or None) from error


def fields_of(value: msgspec.Raw | bytes | None) -> Fields:
    """The fields of a JSON object; empty for other values."""
    if value is None or not bytes(value).lstrip().startswith(b"{"):
        return {}
    fields: Fields = msgspec.json.decode(value, type=dict[str, msgspec.Raw])
    return fields


def small(value: msgspec.Raw | None) -> Any:
    """The value if its JSON is short, also None if it is absent; otherwise a truthy object equal to nothing."""
    return None if value is None else msgspec.json.decode(value) if len(bytes(value)) <= MAX_SMALL_BYTES else object()


def check_size(body: bytes) -> None:
    """Raises `InvalidParameter` for more parts than any useful request has."""
    if len(body) <= MAX_NESTED:
        return
    if _excess(body) is None:
        return  # not even counting those inside strings
    plain = body.replace(rb"\\", b"").replace(rb"\"", b"")  # now every quote begins or ends a string
    if plain.count(b'"') > 4 * MAX_NESTED:
        excess: str | None = f"more than {2 * MAX_NESTED} strings"
    else:
        excess = _excess(b"".join(plain.split(b'"')[::2]))
    if excess is not None:
        raise InvalidParameter(f"the body has {excess}, more than any valid request needs")


def _excess(code: bytes) -> str | None:
    """Which limit is exceeded, assuming that all of this is outside strings."""
    if sum(code.count(character) for character in b"[{:") > MAX_NESTED:
        return f"more than {MAX_NESTED} arrays, objects and keys"
    return f"more than {MAX_VALUES} values" if code.count(b",") > MAX_VALUES else None


def _named(error: msgspec.ValidationError, path: str) -> InvalidParameter:
    """msgspec names a missing field in its message, and not in its path."""
    prefix, what = mismatch(error)
    what = clipped(what)  # it may quote a value
    missing = re.search(r"missing required field `(\w+)`", what)
    within = path if prefix.startswith("[") else f"{path}." if path and prefix else path
    param = ".".join(filter(None, [f"{within}{prefix}", missing[1] if missing else ""])) or None
    sentence = f"{param} is missing" if missing else f"{param or 'the body'} {what}"
    return InvalidParameter(sentence, param=param)
