"""Reads metadata: keys, and values of the 13 types. Knows sizes and limits, not what any key means."""

from __future__ import annotations

import struct
from typing import NamedTuple

import msgspec

from localllm.gguf.cursor import Cursor
from localllm.gguf.tables import ARRAY, BOOL, SCALAR_FORMATS, STRING

MAX_KEYS = 65_536
MAX_KEY_BYTES = 65_535
"""The format's own limit."""
MAX_STRING_BYTES = 1 << 20
"""A longer string (some files include a whole tokenizer.json) is skipped, not decoded."""
MAX_ARRAY_ITEMS = 4_096
"""A longer array (vocabulary, merges) is skipped, not decoded."""
MAX_DECODED_BYTES, MAX_DECODED_ITEMS = 16 << 20, 1 << 18
"""Limits on the strings and array items decoded per file; the rest is skipped."""

_TYPE = struct.Struct("<I")
_COUNT = struct.Struct("<Q")
_SCALARS = {kind: struct.Struct(layout) for kind, layout in SCALAR_FORMATS.items()}


class UndecodedValue(msgspec.Struct, frozen=True):
    """An array or string that was too long to decode: `count` items (for a string: bytes) at `offset`.

    `type` is the items' GGUF type; for a string, the type of strings.
    """

    type: int
    count: int
    offset: int


Scalar = int | float | bool | str
MetadataValue = Scalar | tuple[Scalar, ...] | UndecodedValue
"""Invalid UTF-8 is replaced by U+FFFD, since a vocabulary may contain any bytes."""


class Entry(NamedTuple):
    """One key's value, its GGUF type, and the byte where the key begins."""

    value: MetadataValue
    type: int
    offset: int


def read_metadata(cursor: Cursor, count: int) -> dict[str, Entry]:
    """Reads `count` keys with their values. Raises `InvalidModelFile`."""
    if count > MAX_KEYS:
        cursor.fail(f"{count:,} metadata keys; at most {MAX_KEYS:,} are read")
    reader = _ValueReader(cursor)
    entries: dict[str, Entry] = {}
    for _ in range(count):
        offset = cursor.offset
        key = read_name(cursor, "a metadata key", MAX_KEY_BYTES)
        if key in entries:
            cursor.fail(f"the key {key!r} appears twice", offset)
        kind = cursor.integer(_TYPE, f"the type of {key!r}")
        entries[key] = Entry(reader.value(kind, key), kind, offset)
    return entries


def read_name(cursor: Cursor, what: str, limit: int) -> str:
    """A key or tensor name: not empty, at most `limit` bytes, valid UTF-8."""
    start = cursor.offset
    length = cursor.string_length(what)
    if not 1 <= length <= limit:
        cursor.fail(f"{what} has {length:,} bytes; allowed are 1 to {limit:,}", start)
    raw = cursor.take(length, what)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        cursor.fail(f"{what} is not valid UTF-8: {raw[:64]!r}", start)


class _ValueReader:
    """Decodes values until the file's allowances are used up."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._left_bytes = MAX_DECODED_BYTES
        self._left_items = MAX_DECODED_ITEMS

    def value(self, kind: int, key: str) -> MetadataValue:
        if kind == STRING:
            return self._string(key)
        if kind == ARRAY:
            return self._array(key)
        return self._scalar(kind, key)

    def _scalar(self, kind: int, key: str) -> Scalar:
        layout = _SCALARS.get(kind)
        if layout is None:
            self._cursor.fail(f"{key!r} has the unknown value type {kind}", self._cursor.offset - _TYPE.size)
        value = self._cursor.number(layout, f"the value of {key!r}")
        return bool(value) if kind == BOOL else value

    def _string(self, key: str) -> str | UndecodedValue:
        length = self._cursor.string_length(f"the value of {key!r}")
        if length > min(MAX_STRING_BYTES, self._left_bytes):
            skipped = UndecodedValue(STRING, length, self._cursor.offset)
            self._cursor.skip(length, f"the value of {key!r}")
            return skipped
        self._left_bytes -= length
        return self._cursor.take(length, f"the value of {key!r}").decode(errors="replace")

    def _array(self, key: str) -> tuple[Scalar, ...] | UndecodedValue:
        cursor = self._cursor
        type_offset = cursor.offset
        kind = cursor.integer(_TYPE, f"the item type of {key!r}")
        if kind == ARRAY:
            cursor.fail(f"{key!r} is an array of arrays, which no GGUF reader accepts", type_offset)
        layout = _SCALARS.get(kind)
        if layout is None and kind != STRING:
            cursor.fail(f"{key!r} is an array of the unknown type {kind}", type_offset)
        count_offset = cursor.offset
        count = cursor.integer(_COUNT, f"the item count of {key!r}")
        least_bytes = count * (_COUNT.size if layout is None else layout.size)
        if least_bytes > cursor.remaining:
            reason = f"{key!r} claims {count:,} items, but only {cursor.remaining:,} bytes follow"
            cursor.fail(reason, count_offset)
        if count > min(MAX_ARRAY_ITEMS, self._left_items):
            return self._skipped(key, kind, layout, count)
        self._left_items -= count
        return self._strings(key, count) if layout is None else self._numbers(key, kind, layout, count)

    def _skipped(self, key: str, kind: int, layout: struct.Struct | None, count: int) -> UndecodedValue:
        start = self._cursor.offset
        if layout is None:
            self._cursor.skip_strings(count, f"an item of {key!r}")
        else:
            self._cursor.skip(count * layout.size, f"the items of {key!r}")
        return UndecodedValue(kind, count, start)

    def _numbers(self, key: str, kind: int, layout: struct.Struct, count: int) -> tuple[Scalar, ...]:
        raw = self._cursor.take(count * layout.size, f"the items of {key!r}")
        values: tuple[int | float, ...] = struct.unpack(f"<{count}{layout.format[1:]}", raw)
        return tuple(map(bool, values)) if kind == BOOL else values

    def _strings(self, key: str, count: int) -> tuple[Scalar, ...] | UndecodedValue:
        """All items or none: an array whose text exceeds the allowance is skipped from its start."""
        cursor, start = self._cursor, self._cursor.offset
        items: list[str] = []
        while len(items) < count:
            length = cursor.string_length(f"an item of {key!r}")
            if length > min(MAX_STRING_BYTES, self._left_bytes):
                cursor.skip(length, f"an item of {key!r}")
                cursor.skip_strings(count - len(items) - 1, f"an item of {key!r}")
                return UndecodedValue(STRING, count, start)
            self._left_bytes -= length
            items.append(cursor.take(length, f"an item of {key!r}").decode(errors="replace"))
        return tuple(items)
