"""Converts arguments in Gemma's notation, `{city:<|"|>Ulm<|"|>,days:3,deep:{a:[true,None]}}`, to JSON and back.

Keys are unquoted; texts have the format's own quotes and no escapes. The reader reads the whole object with its braces;
it also accepts JSON's quotes and unquoted texts.
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
    ScannedArguments,
    Scanner,
    Steps,
    Unreadable,
    listed,
    object_opening,
)
from localllm.chat.formats.arguments.words import json_of_text, json_of_word, quoted
from localllm.types.formats import BareArguments

_KEY = re.compile(r"[^:{}\[\],\"]+")
_WORD = re.compile(r"[^,{}\[\]]+")


def reader(kind: BareArguments) -> ArgumentsReader:
    """Reader for one call."""
    return ScannedArguments(partial(_arguments, quote=kind.quote))


def written(kind: BareArguments, arguments: Mapping[str, Any]) -> str:
    """Arguments as models were trained to write them, with the braces."""
    return _written(dict(arguments), kind.quote)


def _written(value: Any, quote: str) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{_written(each, quote)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_written(each, quote) for each in value) + "]"
    if isinstance(value, str) and (value + quote).find(quote) == len(value):
        return f"{quote}{value}{quote}"
    return json.dumps(value, ensure_ascii=False)


def _arguments(scanner: Scanner, quote: str) -> Steps[None]:
    yield from scanner.blank()
    if (yield from scanner.peek()) != "{":
        raise Unreadable
    yield from _object(scanner, quote, 1)


def _value(scanner: Scanner, quote: str, depth: int) -> Steps[None]:
    if depth > MAX_DEPTH:
        raise Unreadable
    yield from scanner.blank()
    character = yield from scanner.peek()
    if (yield from scanner.takes(quote)):
        yield from _text(scanner, quote)
    elif character == "{":
        yield from _object(scanner, quote, depth)
    elif character == "[":
        yield from _list(scanner, quote, depth)
    elif character == '"':
        yield from quoted(scanner, ",}]")
    else:
        word = (yield from scanner.word(_WORD)).strip()
        scanner.write(json_of_word(word) or json_of_text(word))


def _text(scanner: Scanner, quote: str) -> Steps[None]:
    scanner.write('"')
    yield from scanner.until(quote, scanner.write_quoted)
    scanner.write('"')


def _object(scanner: Scanner, quote: str, depth: int) -> Steps[None]:
    scanner.skip(1)
    count = yield from listed(scanner, "}", partial(_member, scanner, quote, depth))
    scanner.skip(1)
    scanner.write("}" if count else "{}")


def _member(scanner: Scanner, quote: str, depth: int, count: int) -> Steps[None]:
    if (yield from scanner.takes(quote)):
        scanner.write(object_opening(count))
        yield from _text(scanner, quote)
    elif (yield from scanner.peek()) == '"':
        scanner.write(object_opening(count))
        yield from quoted(scanner, ":")
    else:
        key = (yield from scanner.word(_KEY)).strip()
        scanner.write(object_opening(count) + json_of_text(key))
    yield from scanner.blank()
    if not (yield from scanner.takes(":")):
        raise Unreadable
    scanner.write(": ")
    yield from _value(scanner, quote, depth + 1)


def _list(scanner: Scanner, quote: str, depth: int) -> Steps[None]:
    scanner.skip(1)
    scanner.write("[")
    yield from listed(scanner, "]", partial(_item, scanner, quote, depth))
    scanner.skip(1)
    scanner.write("]")


def _item(scanner: Scanner, quote: str, depth: int, count: int) -> Steps[None]:
    scanner.write(", " if count else "")
    yield from _value(scanner, quote, depth + 1)
