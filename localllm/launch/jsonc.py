"""Changes a key of a JSON file with comments and trailing commas, without touching any other byte.

    put(text, path, value)   the text with that value, creating objects on the path
    raw(text, path)          the text of the value
    drop(text, path)         the text without that key

Knows no file. Raises `ValueError` for invalid JSON, or if something on the path is not an object.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

_BLANK = re.compile(r"(?:[\s\ufeff]|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_DECODER = json.JSONDecoder(strict=False)
_INDENT = 2


class _Member(NamedTuple):
    start: int
    """Offset of its key's opening quotation mark."""
    value: _Node


class _Node(NamedTuple):
    """A value, at text[start:end]."""

    start: int
    end: int
    members: dict[str, _Member] | None
    """None if it is not an object."""


def put(text: str, path: Sequence[str], value: Any) -> str:
    """The text with this value at `path`. Empty text counts as an empty object."""
    if _skip(text, 0) == len(text):
        text = text + ("" if text in ("", "\ufeff") or text.endswith("\n") else "\n") + "{}\n"
    node = _parsed(text)
    for depth, key in enumerate(path):
        if node.members is None:
            raise ValueError(f"{'.'.join(path[:depth]) or 'the file'} is not an object")
        if key not in node.members:
            for missing in reversed(path[depth + 1 :]):
                value = {missing: value}
            return _inserted(text, node, key, value)
        node = node.members[key].value
    return text[: node.start] + _written(value, _indent_at(text, node.start)) + text[node.end :]


def raw(text: str, path: Sequence[str]) -> str | None:
    """The text of the value at `path`; None if there is no such key."""
    if _skip(text, 0) == len(text):
        return None
    node = _parsed(text)
    for key in path:
        if node.members is None or key not in node.members:
            return None
        node = node.members[key].value
    return text[node.start : node.end]


def drop(text: str, path: Sequence[str]) -> str:
    """The text without that key; unchanged if there is none."""
    if _skip(text, 0) == len(text):
        return text
    node = _parsed(text)
    for key in path[:-1]:
        if node.members is None or key not in node.members:
            return text
        node = node.members[key].value
    if node.members is None or path[-1] not in node.members:
        return text
    start, end = node.members[path[-1]].start, node.members[path[-1]].value.end
    before = max((each.value.end for each in node.members.values() if each.value.end < start), default=None)
    gap = node.start + 1 if before is None else _skip(text, before) + 1
    if text[after := _skip(text, end)] == ",":
        end = after + 1
    elif before is not None:  # the last member: remove the comma before it
        text = text[: gap - 1] + text[gap:]
        gap, start, end = gap - 1, start - 1, end - 1
    line = text.rfind("\n", gap, start)
    # Remove its line too, unless a comment ends it.
    if line >= 0 and not text[line:start].strip() and "//" not in text[gap:line].rpartition("\n")[2]:
        start = line
    return text[:start] + text[end:]


def read(text: str) -> Any:
    """The value of a text from `raw`."""
    return _value(text, _parsed(text))


def _value(text: str, node: _Node) -> Any:
    if node.members is not None:
        return {key: _value(text, member.value) for key, member in node.members.items()}
    if text[node.start] == "[":
        return [_value(text, each) for each in _items(text, node.start)[0]]
    return _DECODER.raw_decode(text, node.start)[0]


def _parsed(text: str) -> _Node:
    try:
        node = _node(text, _skip(text, 0))
    except RecursionError as error:
        raise ValueError("the file is nested too deeply") from error
    if _skip(text, node.end) != len(text):
        raise ValueError(f"there is text after the end, at character {node.end}")
    return node


def _skip(text: str, place: int) -> int:
    found = _BLANK.match(text, place)
    return place if found is None else found.end()


def _node(text: str, place: int) -> _Node:
    if text[place : place + 1] == "{":
        return _object(text, place)
    if text[place : place + 1] == "[":
        return _Node(place, _items(text, place)[1], None)
    try:
        return _Node(place, _DECODER.raw_decode(text, place)[1], None)
    except json.JSONDecodeError as error:
        raise ValueError(f"invalid JSON at line {error.lineno}: {error.msg}") from error


def _items(text: str, place: int) -> tuple[list[_Node], int]:
    """The elements of the array at `place`, and its end."""
    items: list[_Node] = []
    place = _skip(text, place + 1)
    while text[place : place + 1] != "]":
        items.append(_node(text, place))
        place = _behind_comma(text, items[-1].end, "]")
    return items, place + 1


def _object(text: str, start: int) -> _Node:
    members: dict[str, _Member] = {}
    place = _skip(text, start + 1)
    while text[place : place + 1] != "}":
        if text[place : place + 1] != '"':
            raise ValueError(f"a key is missing at line {text.count(chr(10), 0, place) + 1}")
        key = _node(text, place)
        colon = _skip(text, key.end)
        if text[colon : colon + 1] != ":":
            raise ValueError(f"a colon is missing at line {text.count(chr(10), 0, colon) + 1}")
        value = _node(text, _skip(text, colon + 1))
        name = _DECODER.raw_decode(text, place)[0]
        if name in members:
            raise ValueError(f"duplicate key {name!r} at line {text.count(chr(10), 0, place) + 1}")
        members[name] = _Member(place, value)
        place = _behind_comma(text, value.end, "}")
    return _Node(start, place + 1, members)


def _behind_comma(text: str, place: int, closing: str) -> int:
    place = _skip(text, place)
    if text[place : place + 1] == ",":
        return _skip(text, place + 1)
    if text[place : place + 1] != closing:
        raise ValueError(f"a comma or {closing} is missing at line {text.count(chr(10), 0, place) + 1}")
    return place


def _inserted(text: str, node: _Node, key: str, value: Any) -> str:
    """Insert as the first member, which needs no comma before it."""
    assert node.members is not None
    outer = _indent_at(text, node.start)
    indent = outer + " " * _INDENT
    if node.members:
        first = min(member.start for member in node.members.values())
        line = text.rfind("\n", node.start, first)
        if line >= 0 and not text[line + 1 : first].strip():
            indent = text[line + 1 : first]
    member = f"\n{indent}{json.dumps(key)}: {_written(value, indent)}"
    rest = text[node.start + 1 :]
    behind = "," if node.members else "" if rest[:1] in ("\r", "\n") else f"\n{outer}"
    return text[: node.start + 1] + member + behind + rest


def _indent_at(text: str, place: int) -> str:
    """The indentation of the line at `place`."""
    line = text[text.rfind("\n", 0, place) + 1 : place]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _written(value: Any, indent: str) -> str:
    return json.dumps(value, indent=_INDENT, ensure_ascii=False).replace("\n", f"\n{indent}")
