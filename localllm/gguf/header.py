"""Reads one GGUF file's header: metadata and the tensor table, with every number checked against the file.

Accepts what llama.cpp's own reader (ggml/src/gguf.cpp) does: tensors one after another, each padded to the alignment,
names under 64 bytes. Knows neither the meaning of keys nor shards.
"""

from __future__ import annotations

import struct
from math import prod
from pathlib import Path

import msgspec

from localllm.gguf.cursor import Cursor, Source
from localllm.gguf.tables import BLOCK_TYPES, UINT32
from localllm.gguf.values import Entry, read_metadata, read_name
from localllm.types.upstream import MAX_TENSOR_NAME_BYTES

MAGIC = b"GGUF"
VERSIONS = (2, 3)
DEFAULT_ALIGNMENT = 32
MAX_TENSORS = 65_536
MAX_DIMENSIONS = 4

_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_MIN_TENSOR_BYTES = 8 + 1 + 4 + 8 + 4 + 8
_MIN_KEY_BYTES = 8 + 1 + 4 + 1


class TensorInfo(msgspec.Struct, frozen=True):
    """One tensor. `dims` are in ggml's order, row length first; `offset` is relative to `Header.data_start`."""

    name: str
    dims: tuple[int, ...]
    type: str
    offset: int
    n_bytes: int

    @property
    def num_elements(self) -> int:
        return prod(self.dims)


class Header(msgspec.Struct, frozen=True):
    """Everything before the tensor data of one file. `size_bytes` is the size of the whole file."""

    path: Path
    version: int
    metadata: dict[str, Entry]
    tensors: tuple[TensorInfo, ...]
    data_start: int
    alignment: int
    size_bytes: int


def read_header(path: Path, source: Source | None = None) -> Header:
    """Reads and checks one file, without a shard's siblings. `source`, if given, is read instead of the file.

    Raises `ModelNotFound`, `LoadFailed` if the file cannot be read, `InvalidModelFile` with offset and reason.
    """
    with Cursor(path, source) as cursor:
        version = _read_version(cursor)
        num_tensors = _read_count(cursor, "tensors", _MIN_TENSOR_BYTES)
        if num_tensors > MAX_TENSORS:
            cursor.fail(f"{num_tensors:,} tensors; at most {MAX_TENSORS:,} are read", cursor.offset - 8)
        num_keys = _read_count(cursor, "metadata keys", _MIN_KEY_BYTES)
        metadata = read_metadata(cursor, num_keys)
        alignment = _alignment(cursor, metadata)
        table = [_read_tensor(cursor) for _ in range(num_tensors)]
        data_start = _padded(cursor.offset, alignment)
        _check_placement(cursor, table, data_start, alignment)
        return Header(
            path=path,
            version=version,
            metadata=metadata,
            tensors=tuple(tensor for tensor, _ in table),
            data_start=data_start,
            alignment=alignment,
            size_bytes=cursor.size,
        )


_OTHER_FORMATS = {
    b"vers": "it is a Git LFS pointer, not the model itself; fetch the file with `git lfs pull`",
    b"<!DO": "it is a web page, probably saved instead of the model",
    b"<htm": "it is a web page, probably saved instead of the model",
    b"PK\x03\x04": "it is a zip archive, such as a PyTorch checkpoint; convert it to GGUF first",
    b"lmgg": "it is a GGML file from before 2023; convert it to GGUF first",
    b"fmgg": "it is a GGMF file from before 2023; convert it to GGUF first",
    b"tjgg": "it is a GGJT file from before 2023; convert it to GGUF first",
    b"FUGG": "its magic is byte-swapped",
}


def _read_version(cursor: Cursor) -> int:
    magic = cursor.take(len(MAGIC), "the magic")
    if magic != MAGIC:
        what = _OTHER_FORMATS.get(magic, "only GGUF models can be read")
        cursor.fail(f"it begins with {magic!r} instead of {MAGIC!r}: {what}", 0)
    version = cursor.integer(_U32, "the version")
    if version not in VERSIONS:
        if version & 0xFFFF == 0 and version:
            cursor.fail("it is a big-endian GGUF file; only little-endian ones can be read", 4)
        cursor.fail(f"GGUF version {version}; only versions 2 and 3 can be read", 4)
    return version


def _read_count(cursor: Cursor, what: str, least_bytes: int) -> int:
    offset = cursor.offset
    count = cursor.integer(_U64, f"the number of {what}")
    if count * least_bytes > cursor.remaining:
        cursor.fail(f"it claims {count:,} {what}, but only {cursor.remaining:,} bytes follow", offset)
    return count


def _alignment(cursor: Cursor, metadata: dict[str, Entry]) -> int:
    entry = metadata.get("general.alignment")
    if entry is None:
        return DEFAULT_ALIGNMENT
    value = entry.value
    if entry.type != UINT32 or not isinstance(value, int):
        cursor.fail("general.alignment is not a 32-bit unsigned number", entry.offset)
    if value.bit_count() != 1:
        cursor.fail(f"general.alignment is {value}, not a power of two", entry.offset)
    return value


def _read_tensor(cursor: Cursor) -> tuple[TensorInfo, int]:
    """One row of the table, and the byte where it begins."""
    start = cursor.offset
    name = read_name(cursor, "a tensor name", MAX_TENSOR_NAME_BYTES)
    num_dims = cursor.integer(_U32, f"the dimensions of {name!r}")
    if not 1 <= num_dims <= MAX_DIMENSIONS:
        cursor.fail(f"tensor {name!r} has {num_dims} dimensions; allowed are 1 to {MAX_DIMENSIONS}", cursor.offset - 4)
    dims = tuple(cursor.integer(_U64, f"the dimensions of {name!r}") for _ in range(num_dims))
    if not all(0 < dim < 2**63 for dim in dims) or prod(dims) >= 2**63:
        cursor.fail(f"tensor {name!r} has the impossible shape {list(dims)}", cursor.offset - 8 * num_dims)
    number = cursor.integer(_U32, f"the type of {name!r}")
    block = BLOCK_TYPES.get(number)
    if block is None:
        cursor.fail(f"tensor {name!r} has the unknown type {number}", cursor.offset - 4)
    if dims[0] % block.length:
        reason = f"tensor {name!r} has rows of {dims[0]:,}, not a multiple of {block.name}'s block of {block.length}"
        cursor.fail(reason, cursor.offset - 4)
    offset = cursor.integer(_U64, f"the offset of {name!r}")
    return TensorInfo(name, dims, block.name, offset, prod(dims) // block.length * block.size), start


def _check_placement(cursor: Cursor, table: list[tuple[TensorInfo, int]], data_start: int, alignment: int) -> None:
    """Checks that names are unique and that the tensors follow each other, padded, within the file."""
    names: set[str] = set()
    expected = 0
    for tensor, at in table:
        if tensor.name in names:
            cursor.fail(f"two tensors are named {tensor.name!r}", at)
        names.add(tensor.name)
        if tensor.offset % alignment:
            cursor.fail(f"tensor {tensor.name!r} begins at {tensor.offset:,}, not a multiple of {alignment}", at)
        end = data_start + tensor.offset + tensor.n_bytes
        if end > cursor.size:
            reason = f"tensor {tensor.name!r} ends at byte {end:,}, but the file has {cursor.size:,}; is it complete?"
            cursor.fail(reason, at)
        if tensor.offset != expected:
            cursor.fail(f"tensor {tensor.name!r} begins at {tensor.offset:,} instead of {expected:,}", at)
        expected = _padded(tensor.offset + tensor.n_bytes, alignment)


def _padded(offset: int, alignment: int) -> int:
    return (offset + alignment - 1) // alignment * alignment
