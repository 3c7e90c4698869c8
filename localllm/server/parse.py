"""JSON bytes to a typed Struct, or the error that names the field at fault. Knows nothing of any API's fields."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from localllm.errors import InvalidParameter, clipped

T = TypeVar("T", bound=msgspec.Struct)


def parse(
    body: bytes, kind: type[T], check: Callable[[Mapping[str, Any]], None] = lambda _: None
) -> tuple[dict[str, Any], T]:
    """What was given, and the same typed. `check` sees the first and may raise.

    Raises `InvalidParameter` with a JSON path, e.g. `messages[0].role`.
    """
    try:
        given = msgspec.json.decode(body, type=dict[str, Any])
        check(given)
        return given, msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        raise _named(error) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidParameter(f"the body is not valid JSON: {error}") from error


def _named(error: msgspec.ValidationError) -> InvalidParameter:
    """msgspec ends its sentences with the path (`... - at `$.a[0].b``) or names the missing field in them."""
    what, _, path = str(error).partition(" - at `$")
    prefix = path.rstrip("`").lstrip(".")
    what = clipped(what)  # it may quote a value
    missing = re.search(r"missing required field `(\w+)`", what)
    param = ".".join(filter(None, [prefix, missing[1] if missing else ""])) or None
    sentence = f"{param} is missing" if missing else f"{param or 'the body'}: {what[:1].lower()}{what[1:]}"
    return InvalidParameter(sentence, param=param)
