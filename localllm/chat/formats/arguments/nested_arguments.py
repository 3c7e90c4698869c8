"""Converts arguments in MiniMax M3's nested XML, `<city>Ulm</city><days><item>3</item></days>`, to JSON and back. Each
tag follows a prefix.

The XML does not distinguish a string from a number, or an empty list from an empty string; the function's schema does.
If it does not, text that looks like JSON is JSON. The reader stops before the first closing tag that is not its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from localllm.chat.formats.arguments.reading import ArgumentsReader
from localllm.chat.formats.arguments.scanning import (
    MAX_DEPTH,
    Cut,
    ScannedArguments,
    Scanner,
    Steps,
    Unreadable,
    object_opening,
)
from localllm.chat.formats.arguments.tagged_arguments import cut_json_of, json_of
from localllm.chat.formats.arguments.words import json_of_text
from localllm.types.conversation import Function
from localllm.types.formats import NestedArguments
from localllm.types.schemas.value_schemas import ValueSchema

_TAG = re.compile(r"[^<>]+")
_ITEM = "item"
_EMPTY = (("array", "[]"), ("object", "{}"), ("null", "null"))
_PARTED = frozenset({"array", "object"})


def reader(kind: NestedArguments, function: Function | None) -> ArgumentsReader:
    """Reader for one call, whose function's schema gives the types."""
    schema = ValueSchema.of(function)
    return ScannedArguments(partial(_arguments, prefix=kind.prefix, schema=schema))


def written(kind: NestedArguments, arguments: Mapping[str, Any]) -> str:
    """Arguments as models were trained to write them, without members that are null, as in the template."""
    return _written(arguments, kind.prefix)


def _written(value: Any, prefix: str) -> str:
    if isinstance(value, Mapping):
        return "".join(_tag(key, each, prefix) for key, each in value.items() if each is not None)
    if isinstance(value, list):
        return "".join(_tag(_ITEM, each, prefix) for each in value)
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value)


def _tag(name: str, value: Any, prefix: str) -> str:
    return f"{prefix}<{name}>{_written(value, prefix)}{prefix}</{name}>"


def _arguments(scanner: Scanner, prefix: str, schema: ValueSchema) -> Steps[None]:
    yield from _members(scanner, prefix, schema, 0)


def _members(scanner: Scanner, prefix: str, schema: ValueSchema, depth: int) -> Steps[None]:
    count = 0
    while (tag := (yield from _opened(scanner, prefix))) is not None:
        scanner.may_end = False
        scanner.write(object_opening(count) + json_of_text(tag) + ": ")
        yield from _value(scanner, prefix, tag, schema.member(tag), depth + 1)
        scanner.may_end = depth == 0
        count += 1
    scanner.write("}" if count else "{}")


def _items(scanner: Scanner, prefix: str, schema: ValueSchema, depth: int) -> Steps[None]:
    scanner.write("[")
    is_first = True
    while (tag := (yield from _opened(scanner, prefix))) is not None:
        scanner.write("" if is_first else ", ")
        is_first = False
        yield from _value(scanner, prefix, tag, schema.item, depth + 1)
    scanner.write("]")


def _opened(scanner: Scanner, prefix: str) -> Steps[str | None]:
    """Read the next opening tag and return its name; None: a closing tag comes, which stays unread."""
    yield from scanner.blank()
    if (yield from scanner.sees(f"{prefix}</")):
        return None
    if not (yield from scanner.takes(f"{prefix}<")):
        raise Unreadable
    tag = yield from scanner.word(_TAG)
    if not (yield from scanner.takes(">")):
        raise Unreadable
    return tag


def _value(scanner: Scanner, prefix: str, tag: str, schema: ValueSchema, depth: int) -> Steps[None]:
    """Read the content of a tag and its closing."""
    if depth > MAX_DEPTH:
        raise Unreadable
    closing, types = f"{prefix}</{tag}>", schema.types
    if types == {"string"}:
        scanner.write('"')
        yield from scanner.until(closing, scanner.write_quoted)
        scanner.write('"')
        return
    blank = yield from scanner.blank()
    is_parted = not types or bool(types & _PARTED)
    if is_parted and (yield from scanner.sees(f"{prefix}<")) and not (yield from scanner.sees(closing)):
        yield from _parted(scanner, prefix, schema, depth)
        if not (yield from scanner.takes(closing)):
            raise Unreadable
        return
    found = [blank]
    try:
        yield from scanner.until(closing, found.append)
    except Cut:
        scanner.write(cut_json_of("".join(found), types))
        raise
    scanner.write(_json_of("".join(found), types))


def _parted(scanner: Scanner, prefix: str, schema: ValueSchema, depth: int) -> Steps[None]:
    """Read nested tags: a list's items, or an object's members."""
    kinds = schema.types & _PARTED
    is_list = kinds == {"array"}
    if len(kinds) != 1:
        is_list = yield from scanner.sees(f"{prefix}<{_ITEM}>")
    yield from (_items if is_list else _members)(scanner, prefix, schema, depth)


def _json_of(text: str, types: frozenset[str]) -> str:
    """The content of a tag without nested ones, as one of the types."""
    if not text.strip() and "string" not in types:
        return next((empty for kind, empty in _EMPTY if kind in types), json.dumps(text, ensure_ascii=False))
    return json_of(text, types)
