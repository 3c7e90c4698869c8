"""GGUF files byte by byte, so that tests can write what no writer would, and a naive reader to compare with.

Knows the format (ggml/docs/gguf.md) and checks nothing.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
FORMATS = {
    U8: "<B", I8: "<b", U16: "<H", I16: "<h", U32: "<I", I32: "<i", F32: "<f", BOOL: "<?", U64: "<Q", I64: "<q",
    F64: "<d",
}  # fmt: skip


class Tensor(NamedTuple):
    """A row of the tensor table; `offset` None: where it belongs."""

    name: str = "t"
    dims: tuple[int, ...] = (32,)
    type: int = 0
    offset: int | None = 0


def text(value: str | bytes, length: int | None = None) -> bytes:
    """A string, with a false length if one is given."""
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(raw) if length is None else length) + raw


def scalar(kind: int, value: Any) -> bytes:
    return text(value) if kind == STRING else struct.pack(FORMATS[kind], value)


def key(name: str | bytes, kind: int, value: Any) -> bytes:
    """One key with a scalar or string."""
    return text(name) + struct.pack("<I", kind) + scalar(kind, value)


def array(name: str, kind: int, values: Any, count: int | None = None) -> bytes:
    """One key with an array, with a false count if one is given."""
    head = text(name) + struct.pack("<IIQ", ARRAY, kind, len(values) if count is None else count)
    return head + b"".join(scalar(kind, value) for value in values)


def tensor(row: Tensor) -> bytes:
    return (
        text(row.name)
        + struct.pack(f"<I{len(row.dims)}QI", len(row.dims), *row.dims, row.type)
        + struct.pack("<Q", row.offset or 0)
    )


def gguf(
    keys: list[bytes],
    tensors: list[bytes],
    data: bytes = b"",
    *,
    magic: bytes = b"GGUF",
    version: int = 3,
    num_tensors: int | None = None,
    num_keys: int | None = None,
    alignment: int = 32,
) -> bytes:
    """A whole file; counts are the true ones unless given."""
    counts = (len(tensors) if num_tensors is None else num_tensors, len(keys) if num_keys is None else num_keys)
    head = magic + struct.pack("<IQQ", version, *counts) + b"".join(keys) + b"".join(tensors)
    return head + bytes(-len(head) % alignment) + data


class Naive:
    """Reads a well-formed header from bytes the plainest way: `keys` name -> (type, value), `tensors` in order.

    `written`: each key's bytes, the name included; `table`: the bytes of the tensor table.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 4
        self.version, num_tensors, num_keys = self._scalar(U32), self._scalar(U64), self._scalar(U64)
        self.keys: dict[str, tuple[int, Any]] = {}
        self.written: dict[str, bytes] = {}
        for _ in range(num_keys):
            start = self._at
            name = self._scalar(STRING)
            kind = self._scalar(U32)
            self.keys[name] = (kind, self._array() if kind == ARRAY else self._scalar(kind))
            self.written[name] = data[start : self._at]
        table_start = self._at
        self.tensors: list[tuple[str, tuple[int, ...], int, int]] = []
        for _ in range(num_tensors):
            name = self._scalar(STRING)
            dims = tuple(self._scalar(U64) for _ in range(self._scalar(U32)))
            self.tensors.append((name, dims, self._scalar(U32), self._scalar(U64)))
        self.end = self._at
        self.table = data[table_start : self.end]

    def _array(self) -> tuple[Any, ...]:
        kind, count = self._scalar(U32), self._scalar(U64)
        return tuple(self._scalar(kind) for _ in range(count))

    def _scalar(self, kind: int) -> Any:
        if kind == STRING:
            length = self._scalar(U64)
            self._at += length
            return self._data[self._at - length : self._at].decode(errors="replace")
        layout = FORMATS[kind]
        (value,) = struct.unpack_from(layout, self._data, self._at)
        self._at += struct.calcsize(layout)
        return value
