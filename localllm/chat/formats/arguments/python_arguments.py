"""Converts keyword arguments in Python syntax, `city="Ulm", days=3, deep={"a": [True, None]}`, to JSON and back.

Llama 4 and LFM2 write calls this way. The reader starts after `name(` and stops before the `)`. It also accepts JSON's
constants, unquoted names, unescaped quotes, and positional arguments, which it names by the function's schema.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
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
from localllm.types.conversation import Function
from localllm.types.schemas.value_schemas import ValueSchema

_KEY = re.compile(r"[^=,()\[\]{}'\"]+")
_WORD = re.compile(r"[^\s,()\[\]{}:='\"]+")
_NAME = re.compile(r"[^\W\d][\w.-]*")
_PREFIXES = frozenset({"r", "u", "b", "f", "rb", "br", "fr", "rf"})
_BRACKETS = {"[": "]", "(": ")"}
_CONSTANTS = {True: "True", False: "False", None: "None"}
_ENDS = ",)]}:"


def reader(function: Function | None) -> ArgumentsReader:
    """Reader for one call; its function's schema names the positional arguments."""
    names = ValueSchema.of(function).names
    return ScannedArguments(partial(_call, names=names))


def written(arguments: Mapping[str, Any]) -> str:
    """Arguments as models were trained to write them, without the parentheses."""
    return ", ".join(f"{key}={_written(value)}" for key, value in arguments.items())


def json_of_value(text: str) -> str | None:
    """A Python value as JSON; None if it is not a value."""
    piece = ScannedArguments(partial(_value, depth=1)).feed(text + " ")
    return None if piece.is_broken or piece.rest is None or piece.rest.strip() else piece.json


def _written(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_written(str(key))}: {_written(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_written, value)) + "]"
    if value is None or isinstance(value, bool):
        return _CONSTANTS[value]
    return json.dumps(value, ensure_ascii=False)


def _call(scanner: Scanner, names: Sequence[str]) -> Steps[None]:
    count = yield from listed(scanner, ")", partial(_argument, scanner, names))
    scanner.write("}" if count else "{}")


def _argument(scanner: Scanner, names: Sequence[str], count: int) -> Steps[None]:
    key, word = "".join(names[count : count + 1]), ""
    if (yield from scanner.peek()) not in "'\"[{(":
        word = (yield from scanner.word(_KEY)).strip()
        if (yield from scanner.takes("=")):
            key, word = word, ""
    value = _json_of(word) if word else ""
    scanner.write(object_opening(count) + json_of_text(key) + ": " + value)
    scanner.may_end = False
    if not value:
        yield from scanner.blank()
        yield from _value(scanner, 1)
    scanner.may_end = True


def _value(scanner: Scanner, depth: int) -> Steps[None]:
    if depth > MAX_DEPTH:
        raise Unreadable
    character = yield from scanner.peek()
    if character in "'\"":
        yield from quoted(scanner, _ENDS)
    elif character == "{":
        yield from _dict(scanner, depth)
    elif character in _BRACKETS:
        yield from _list(scanner, _BRACKETS[character], depth)
    else:
        word = yield from scanner.word(_WORD)
        if word.lower() in _PREFIXES and (yield from scanner.peek()) in "'\"":
            yield from quoted(scanner, _ENDS, is_raw="r" in word.lower())
        else:
            scanner.write(_json_of(word))


def _json_of(word: str) -> str:
    """A constant, a number, or an unquoted name."""
    found = json_of_word(word)
    if found is None and not _NAME.fullmatch(word):
        raise Unreadable
    return found or json_of_text(word)


def _dict(scanner: Scanner, depth: int) -> Steps[None]:
    scanner.skip(1)
    count = yield from listed(scanner, "}", partial(_member, scanner, depth))
    scanner.skip(1)
    scanner.write("}" if count else "{}")


def _member(scanner: Scanner, depth: int, count: int) -> Steps[None]:
    scanner.write(object_opening(count))
    if (yield from scanner.peek()) in "'\"":
        yield from quoted(scanner, ":")
    else:
        found = _json_of((yield from scanner.word(_WORD)))
        scanner.write(found if found.startswith('"') else json_of_text(found))
    yield from scanner.blank()
    if not (yield from scanner.takes(":")):
        raise Unreadable
    scanner.write(": ")
    yield from scanner.blank()
    yield from _value(scanner, depth + 1)


def _list(scanner: Scanner, closing: str, depth: int) -> Steps[None]:
    scanner.skip(1)
    scanner.write("[")
    yield from listed(scanner, closing, partial(_item, scanner, depth))
    scanner.skip(1)
    scanner.write("]")


def _item(scanner: Scanner, depth: int, count: int) -> Steps[None]:
    scanner.write(", " if count else "")
    yield from _value(scanner, depth + 1)
