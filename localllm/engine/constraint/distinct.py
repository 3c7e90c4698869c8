"""Follows a JSON document byte by byte and finds repetitions: a name twice in an object, an equal item in an array
whose items must be distinct.

    [ "a" , "b" , "a" <- the quote that closes an equal item is where the document becomes wrong

Knows nothing of tokens or grammars. Which arrays are meant is said by a rewritten schema (`grammar/schema/checks`): of
alternatives, each counts.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

Schema = dict[str, Any] | bool

_BLANKS = b" \n\r\t"
_VALUE, _STRING, _ESCAPE, _SCALAR, _BEHIND = range(5)
"""Before a value or name, in a text, behind its backslash, in a number or word, behind a value."""


class _Frame(NamedTuple):
    """An open array or object."""

    is_object: bool
    is_unique: bool
    schemas: tuple[Schema, ...]
    """Those that the array or object must match, or may."""
    seen: frozenset[str] = frozenset()
    """Names, or items in canonical JSON."""
    num_items: int = 0
    start: int = 0
    """Where the current item or name begins in the text."""
    name: str | None = None
    """The name whose value comes; None: a name comes."""


class _State(NamedTuple):
    frames: tuple[_Frame, ...] = ()
    mode: int = _VALUE


class Saved(NamedTuple):
    """How far a document is."""

    state: _State
    length: int
    before: bytes | None
    """What came before the document, if that has not begun."""


class DistinctTracker:
    """Of one document, which has not begun."""

    def __init__(self, schema: Schema, *, skipped: tuple[bytes, bytes] | None = None, opening: bytes = b"") -> None:
        """`skipped`: what opens reasoning before the document, empty if it is open already, and what closes it;
        `opening`: a literal between the reasoning and the document."""
        self._schema = schema
        self._definitions: dict[str, Schema] = schema.get("$defs", {}) if isinstance(schema, dict) else {}
        self._before: tuple[bytes, bytes] | None = skipped
        self._opening = opening
        self._is_within = skipped is None and not opening
        self._text = bytearray()
        self._state = _State()

    @property
    def is_at_risk(self) -> bool:
        """Whether a closing may be a repetition: an item of distinct ones, or a name, is being written."""
        frames = self._state.frames
        if any(one.is_unique for one in frames):
            return True
        return bool(frames and frames[-1].is_object and frames[-1].name is None and frames[-1].seen)

    @property
    def has_items(self) -> bool:
        """Whether an array of distinct items is open that has some."""
        return any(one.is_unique and one.seen for one in self._state.frames)

    def repetitions(self) -> list[bytes]:
        """What would make of the current item or name one that was there before, as the grammar would write it."""
        frames, mode = self._state
        found: list[bytes] = []
        for place, frame in enumerate(frames):
            is_last = place == len(frames) - 1
            if not (frame.is_unique or (is_last and frame.is_object and frame.name is None)):
                continue
            begun = b"" if is_last and mode in (_VALUE, _BEHIND) else bytes(self._text[frame.start :])
            for seen in frame.seen:
                written = (json.dumps(seen, ensure_ascii=False) if frame.is_object else seen).encode()
                if written.startswith(begun) and len(written) > len(begun):
                    found += [written[len(begun) :]] if begun else [written, b" " + written]
        return found

    def save(self) -> Saved:
        """For `restore`, after further bytes."""
        return Saved(self._state, len(self._text), None if self._is_within else bytes(self._text))

    def restore(self, saved: Saved) -> None:
        self._state = saved.state
        self._is_within = saved.before is None
        if saved.before is None:
            del self._text[saved.length :]
        else:
            self._text[:] = saved.before

    def allows(self, data: bytes) -> bool:
        """Whether these bytes may come next."""
        saved = self.save()
        is_allowed = self.feed(data)
        self.restore(saved)
        return is_allowed

    def feed(self, data: bytes) -> bool:
        """The document continues with these bytes; false at a repetition."""
        if not self._is_within:
            self._text += data
            rest = self._behind_preface()
            if rest is None:
                return True
            self._is_within, data = True, rest
        frames, mode = self._state
        text = self._text
        for byte in data:
            text.append(byte)
            if mode == _STRING:
                if byte == 0x22:
                    closed = self._closed_text(frames)
                    if closed is None:
                        return False
                    frames, mode = closed, _BEHIND
                elif byte == 0x5C:
                    mode = _ESCAPE
                continue
            if mode == _ESCAPE:
                mode = _STRING
                continue
            if mode == _SCALAR and byte in b",]} \n\r\t":
                closed = self._closed_value(frames, len(text) - 1)
                if closed is None:
                    return False
                frames, mode = closed, _BEHIND
            if byte in _BLANKS or byte == 0x3A:
                continue
            if byte == 0x2C:
                mode = _VALUE
            elif byte in b"]}":
                closed = self._closed_value(frames[:-1], len(text))
                if closed is None:
                    return False
                frames, mode = closed, _BEHIND
            elif mode != _SCALAR:
                frames = (
                    (*frames[:-1], frames[-1]._replace(start=len(text) - 1))
                    if frames and not (frames[-1].is_object and frames[-1].name is not None)
                    else frames
                )
                if byte in b"[{":
                    frames, mode = (*frames, self._opened(frames, is_object=byte == 0x7B)), _VALUE
                else:
                    mode = _STRING if byte == 0x22 else _SCALAR
        self._state = _State(frames, mode)
        return True

    def _behind_preface(self) -> bytes | None:
        """The document's bytes among those so far; None: it has not begun."""
        text = bytes(self._text)
        if self._before is not None:
            opening, closing = self._before
            begun = text.lstrip()
            if opening and not begun.startswith(opening):
                if opening.startswith(begun):
                    return None
            else:
                at = text.find(closing, len(text) - len(begun) + len(opening))
                if at < 0:
                    return None
                text = text[at + len(closing) :]
        if self._opening:
            at = text.find(self._opening)
            if at < 0:
                return None
            text = text[at + len(self._opening) :]
        del self._text[:]
        return text

    def _opened(self, frames: tuple[_Frame, ...], *, is_object: bool) -> _Frame:
        schemas: tuple[Schema, ...] = ()
        if not frames:
            schemas = self._closure([self._schema])
        elif frames[-1].schemas:
            schemas = self._closure(self._inside(frames[-1]))
        is_unique = not is_object and any(one.get("uniqueItems") is True for one in schemas if isinstance(one, dict))
        return _Frame(is_object, is_unique, schemas)

    def _inside(self, frame: _Frame) -> list[Schema]:
        """The schemas of the value that comes."""
        found: list[Schema] = []
        for schema in frame.schemas:
            if not isinstance(schema, dict):
                continue
            if not frame.is_object:
                first = schema.get("prefixItems", [])
                found.append(first[frame.num_items] if frame.num_items < len(first) else schema.get("items", True))
                continue
            one = schema.get("properties", {}).get(frame.name)
            if one is not None and one is not True:
                found.append(one)
                continue
            found += schema.get("patternProperties", {}).values()
            if one is None:
                found.append(schema.get("additionalProperties", True))
        return found

    def _closure(self, schemas: list[Schema]) -> tuple[Schema, ...]:
        """With those that they refer to and combine."""
        found: dict[int, Schema] = {}
        waiting = [*schemas]
        while waiting:
            one = waiting.pop()
            if not isinstance(one, dict) or id(one) in found:
                continue
            found[id(one)] = one
            if "$ref" in one:
                waiting.append(self._definitions[one["$ref"].removeprefix("#/$defs/")])
            for name in ("allOf", "anyOf", "oneOf"):
                waiting += one.get(name, ())
        return tuple(found.values())

    def _closed_text(self, frames: tuple[_Frame, ...]) -> tuple[_Frame, ...] | None:
        """The frames behind a text that ends here; None: it is a repetition."""
        if not (frames and frames[-1].is_object and frames[-1].name is None):
            return self._closed_value(frames, len(self._text))
        frame = frames[-1]
        name = json.loads(self._text[frame.start :].decode())
        if name in frame.seen:
            return None
        return (*frames[:-1], frame._replace(seen=frame.seen | {name}, name=name))

    def _closed_value(self, frames: tuple[_Frame, ...], end: int) -> tuple[_Frame, ...] | None:
        """The frames behind a value that ends at `end`; None: it is a repetition."""
        if not frames:
            return frames
        frame = frames[-1]
        if frame.is_object:
            return (*frames[:-1], frame._replace(name=None))
        if not frame.is_unique:
            return (*frames[:-1], frame._replace(num_items=frame.num_items + 1)) if frame.schemas else frames
        value = _canonical(json.loads(self._text[frame.start : end].decode()))
        item = json.dumps(value, sort_keys=True, ensure_ascii=False)
        if item in frame.seen:
            return None
        return (*frames[:-1], frame._replace(seen=frame.seen | {item}, num_items=frame.num_items + 1))


def _canonical(value: Any) -> Any:
    """With equal numbers written alike."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_canonical(one) for one in value]
    if isinstance(value, dict):
        return {name: _canonical(one) for name, one in value.items()}
    return value
