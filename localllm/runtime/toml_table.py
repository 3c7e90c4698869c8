"""Changes one table of a TOML file and leaves every other byte as it is. Knows nothing of what the table means."""

from __future__ import annotations

import copy
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from localllm.errors import InvalidParameter

_BARE = re.compile(r"[A-Za-z0-9_-]+")
Path = tuple[str, ...]
"""Nested keys, outermost first."""


class _Statement(NamedTuple):
    """A line with its line end, or several lines if a value spans them."""

    start: int
    end: int
    kind: str
    """`blank` (also for comments), `header` or `pair`."""
    path: Path = ()
    value: tuple[int, int] = (0, 0)
    """The range of a pair's value in the text."""


def changed(text: str, table: Path, changes: Mapping[str, Any]) -> str:
    """The text with these keys of the table set. None removes a key; a table without keys is removed as well.

    Raises `InvalidParameter` if the table is written in a form that is not supported here.
    """
    before = tomllib.loads(text.replace("\r\n", "\n"))
    newline = "\r\n" if "\r\n" in text else "\n"
    done = _changed(text, table, changes, newline)
    try:
        is_done = _plain(tomllib.loads(done.replace("\r\n", "\n"))) == _plain(_expected(before, table, changes))
    except tomllib.TOMLDecodeError:  # the table exists in another form, and now twice
        is_done = False
    if not is_done:
        raise InvalidParameter(
            f"the file defines {header(table)} in a form that cannot be edited automatically; write it as a section "
            f"that starts with the line {header(table)}, or edit it by hand"
        )
    return done


def header(table: Path) -> str:
    """The header line of a table."""
    return f"[{'.'.join(key if _BARE.fullmatch(key) else written(key) for key in table)}]"


def written(value: Any) -> str:
    """A value in TOML, on one line: a string, a number, a boolean, or a list of these."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list | tuple):
        return f"[{', '.join(written(item) for item in value)}]"
    return repr(value)


def _changed(text: str, table: Path, changes: Mapping[str, Any], newline: str) -> str:
    statements = list(_statements(text))
    at = next((n for n, each in enumerate(statements) if each.kind == "header" and each.path == table), None)
    new = {key: value for key, value in changes.items() if value is not None}
    if at is None:
        if not new:
            return text
        gap = "" if not text else newline if text.endswith("\n") else 2 * newline
        return text + gap + header(table) + newline + _lines(new, newline)
    end = next((n for n, each in enumerate(statements[at + 1 :], at + 1) if each.kind == "header"), len(statements))
    body = statements[at + 1 : end]
    edits: list[tuple[int, int, str]] = []
    for pair in (each for each in body if each.kind == "pair"):
        (key,) = pair.path if len(pair.path) == 1 else ("",)
        if key in changes and changes[key] is None:
            edits.append((pair.start, pair.end, ""))
        elif key in new:
            edits.append((*pair.value, written(new.pop(key))))
    if new:
        last = next((each for each in reversed(body) if each.kind == "pair"), statements[at])
        gap = "" if text[: last.end].endswith("\n") else newline
        edits.append((last.end, last.end, gap + _lines(new, newline)))
    elif _is_empty(text, body, edits):
        edits = [(_before(text, statements, at), body[-1].end if body else statements[at].end, "")]
    for start, stop, put in sorted(edits, reverse=True):
        text = text[:start] + put + text[stop:]
    return text


def _is_empty(text: str, body: Sequence[_Statement], edits: Sequence[tuple[int, int, str]]) -> bool:
    """Whether the edits leave nothing in a table, not even a comment."""
    removed = {start for start, _, put in edits if not put}
    return bool(removed) and all(each.start in removed or not text[each.start : each.end].strip() for each in body)


def _before(text: str, statements: Sequence[_Statement], at: int) -> int:
    """Where a table begins, including an empty line before it."""
    previous = statements[at - 1] if at else None
    if previous is not None and previous.kind == "blank" and not text[previous.start : previous.end].strip():
        return previous.start
    return statements[at].start


def _lines(pairs: Mapping[str, Any], newline: str) -> str:
    return "".join(f"{key} = {written(value)}{newline}" for key, value in pairs.items())


def _expected(before: Mapping[str, Any], table: Path, changes: Mapping[str, Any]) -> Any:
    after = copy.deepcopy(dict(before))
    place: Any = after
    for key in table:
        place = place.setdefault(key, {})
    for key, value in changes.items():
        if value is None:
            place.pop(key, None)
        else:
            place[key] = list(value) if isinstance(value, tuple) else value
    return after


def _plain(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Without empty tables."""
    inner = {key: _plain(value) if isinstance(value, dict) else value for key, value in tables.items()}
    return {key: value for key, value in inner.items() if value != {}}


def _statements(text: str) -> Iterator[_Statement]:
    """The statements of a valid TOML text."""
    at = 0
    while at < len(text):
        first = at + len(text[at:]) - len(text[at:].lstrip(" \t"))
        if text[first : first + 1] in ("", "#", "\n", "\r"):
            end = _line_end(text, first)
            yield _Statement(at, end, "blank")
        elif text[first] == "[":
            end = _line_end(text, first)
            is_one = text[first : first + 2] != "[["
            yield _Statement(at, end, "header", _path(tomllib.loads(text[first:end])) if is_one else ())
        else:
            equals = _skip(text, first, "=")
            begin = equals + 1 + len(text[equals + 1 :]) - len(text[equals + 1 :].lstrip(" \t"))
            stop = _skip(text, begin, "#\n")
            end = _line_end(text, stop)
            value = begin, begin + len(text[begin:stop].rstrip())
            yield _Statement(at, end, "pair", _path(tomllib.loads(f"{text[first:equals]} = 0")), value)
        at = end


def _path(tables: Any) -> Path:
    keys: list[str] = []
    while isinstance(tables, dict) and tables:
        ((key, tables),) = tables.items()
        keys.append(key)
    return tuple(keys)


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end + 1


def _skip(text: str, at: int, until: str) -> int:
    """The next of the characters `until` outside of strings, brackets and comments; else the end."""
    depth = 0
    while at < len(text):
        char = text[at]
        if depth == 0 and char in until:
            return at
        if char in "\"'":
            at = _after_text(text, at)
            continue
        if char == "#":
            at = _line_end(text, at)
            continue
        depth += (char in "[{") - (char in "]}")
        at += 1
    return len(text)


def _after_text(text: str, at: int) -> int:
    quote = text[at]
    mark = quote * 3 if text.startswith(quote * 3, at) else quote
    at += len(mark)
    while not text.startswith(mark, at):
        at += 2 if quote == '"' and text[at] == "\\" else 1
    at += len(mark)
    while len(mark) == 3 and text.startswith(quote, at):  # up to two quotes may precede the closing three
        at += 1
    return at
