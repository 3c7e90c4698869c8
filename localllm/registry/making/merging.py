"""Merges adapters into a model: a GGUF file whose changed matrices are W + B A * scale; all else is copied.

    source   [metadata][table of tensors ...][data ...]
    target   [metadata][table, changed types and offsets][data, changed matrices computed row by row]

Says how large the change was, and how much of it rounding to the written type distorts. Uses NumPy only.
"""

from __future__ import annotations

import math
import os
import shutil
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from localllm.errors import DiskFull, InvalidModelFile, InvalidParameter
from localllm.gguf.adapters import EMBEDDING, PARTS, read_adapter
from localllm.gguf.header import Header, TensorInfo, read_header
from localllm.gguf.tables import BLOCK_TYPES
from localllm.system.files import free_bytes, remove_file, replace_file

TYPES = ("F16", "F32", "BF16", "Q8_0", "Q5_1", "Q5_0", "Q4_1", "Q4_0")
"""Types of merged matrices."""
SAME = "same"
"""The matrix's own type, if it is among these, else Q8_0."""
CHUNK_BYTES = 32 * 2**20
"""Of the numbers that are computed at a time."""
_NUMBERS = {block.name: number for number, block in BLOCK_TYPES.items()}

Floats = npt.NDArray[np.float32]


class Merged(msgspec.Struct, frozen=True, kw_only=True):
    """What was written."""

    matrices: int
    """Changed ones."""
    types: dict[str, int]
    """How many of them have each type now."""
    size_bytes: int
    change: float
    """Root mean square of what the adapters changed, as a share of that of the matrices."""
    rounding: float
    """Root mean square of what rounding changed, as a share of what the adapters changed."""


class Applied(NamedTuple):
    """An adapter's file, and its strength."""

    path: Path
    scale: float


class _Change(NamedTuple):
    """One adapter's change of one matrix: rows of B times A."""

    a: Floats
    """Shape (experts, rank, inputs)."""
    b: Floats
    """Shape (experts, outputs, rank), with the scale in it."""


class _Sums:
    """Sums of squares over all changed matrices."""

    def __init__(self) -> None:
        self.matrix = self.change = self.error = 0.0


def merge(
    base: Path,
    adapters: Sequence[Applied],
    target: Path,
    type: str = "F16",
    *,
    on_bytes: Callable[[int, int], None] | None = None,
) -> Merged:
    """Write `target`. `on_bytes`: bytes written, and of how many. Raises `InvalidParameter`, `InvalidModelFile`,
    `DiskFull`, `LoadFailed`s."""
    if type not in (*TYPES, SAME):
        raise InvalidParameter(f"type is one of {', '.join((*TYPES, SAME))}, not {type!r}", param="type")
    if target.exists():
        raise InvalidParameter(f"{target} exists already; name another file, or remove it", param="file")
    header = read_header(base)
    if "split.count" in header.metadata:
        raise InvalidParameter(
            f"{base.name} is one of several files of a model; join them first, with llama-gguf-split", param="model"
        )
    changes: dict[str, list[_Change]] = {}
    for adapter in adapters:
        if adapter.scale:
            info = read_adapter(adapter.path, base)
            if info.num_layers:
                raise InvalidParameter(
                    f"{adapter.path.name} is a control vector, which changes no matrix and cannot be merged",
                    param="model",
                )
            if info.invocation:
                raise InvalidParameter(
                    f"{adapter.path.name} works only behind its invocation tokens (aLoRA), and a merged model has none",
                    param="model",
                )
            alpha = info.alpha
            for name, change in _changes(adapter, alpha):
                changes.setdefault(name, []).append(change)
    if not changes:
        raise InvalidParameter(
            "the name has no adapters to merge: write MODEL+NAME, or an adapter's name", param="model"
        )
    tensors = [_retyped(tensor, type) if tensor.name in changes else tensor for tensor in header.tensors]
    sums = _Sums()
    temporary = target.with_name(f".{target.name}.part")
    try:
        _write(temporary, base, header, tensors, changes, sums, on_bytes)
        replace_file(temporary, target)
    finally:
        remove_file(temporary)
    types = [tensor.type for tensor in tensors if tensor.name in changes]
    return Merged(
        matrices=len(changes),
        types={each: types.count(each) for each in sorted(set(types))},
        size_bytes=target.stat().st_size,
        change=math.sqrt(sums.change / sums.matrix) if sums.matrix else 0.0,
        rounding=math.sqrt(sums.error / sums.change) if sums.change else 0.0,
    )


def _changes(adapter: Applied, alpha: float) -> Iterator[tuple[str, _Change]]:
    header = read_header(adapter.path)
    raw = np.memmap(adapter.path, np.uint8, "r")
    found: dict[str, dict[str, Floats]] = {}
    for tensor in header.tensors:
        part = next(part for part in PARTS if tensor.name.endswith(part))
        found.setdefault(tensor.name.removesuffix(part), {})[part] = _floats(raw, header, tensor)
    for name, parts in found.items():
        a, b = (parts[part] for part in PARTS)
        if name == EMBEDDING:  # rows of A are the tokens'
            a, b = b.swapaxes(-1, -2), a
        scale = adapter.scale * alpha / b.shape[-1] if alpha else adapter.scale
        shape_a, shape_b = a.shape[-2:], b.shape[-2:]
        yield name, _Change(a.reshape(-1, *shape_a), b.reshape(-1, *shape_b) * np.float32(scale))


def _floats(raw: npt.NDArray[np.uint8], header: Header, tensor: TensorInfo) -> Floats:
    """All numbers of a tensor, in NumPy's order of axes."""
    start = header.data_start + tensor.offset
    return _decoded(raw[start : start + tensor.n_bytes], tensor.type).reshape(tuple(reversed(tensor.dims)))


def _decoded(raw: npt.NDArray[np.uint8], type: str) -> Floats:
    from gguf import GGMLQuantizationType, quants

    try:
        return np.asarray(quants.dequantize(raw, GGMLQuantizationType[type]), np.float32)
    except (KeyError, NotImplementedError):
        raise InvalidParameter(f"matrices of type {type} cannot be merged", param="model") from None


def _encoded(rows: Floats, type: str) -> npt.NDArray[Any]:
    from gguf import GGMLQuantizationType, quants

    return np.asarray(quants.quantize(rows, GGMLQuantizationType[type]))


def _retyped(tensor: TensorInfo, type: str) -> TensorInfo:
    wanted = type if type != SAME else tensor.type if tensor.type in TYPES else "Q8_0"
    block = BLOCK_TYPES[_NUMBERS[wanted]]
    if tensor.dims[0] % block.length:
        block = BLOCK_TYPES[_NUMBERS["F16"]]
    size = tensor.num_elements // block.length * block.size
    return msgspec.structs.replace(tensor, type=block.name, n_bytes=size)


def _write(
    path: Path,
    base: Path,
    header: Header,
    tensors: Sequence[TensorInfo],
    changes: Mapping[str, Sequence[_Change]],
    sums: _Sums,
    on_bytes: Callable[[int, int], None] | None,
) -> None:
    raw = np.memmap(base, np.uint8, "r")
    total = sum(tensor.n_bytes for tensor in tensors)
    if free_bytes(path.parent) < total:
        raise DiskFull(f"{path.parent} has no room for the {total:,} bytes of the merged model")
    table, end = _table_of(raw, header)
    with open(path, "wb") as file:
        file.write(raw[:table].tobytes())
        offset = 0
        for tensor in tensors:
            file.write(_entry(tensor, offset))
            offset += _padded(tensor.n_bytes, header.alignment)
        assert file.tell() == end, "types take the same room"
        done = 0
        for old, new in zip(header.tensors, tensors, strict=True):
            file.write(bytes(_padded(file.tell(), header.alignment) - file.tell()))
            start = header.data_start + old.offset
            data = raw[start : start + old.n_bytes]
            if old.name in changes:
                _write_merged(file, data, old, new.type, changes[old.name], sums)
            else:
                file.write(data.data)
            done += new.n_bytes
            if on_bytes is not None:
                on_bytes(done, total)
        file.flush()
        os.fsync(file.fileno())
    shutil.copymode(base, path)


def _write_merged(
    file: BinaryIO,
    data: npt.NDArray[np.uint8],
    tensor: TensorInfo,
    type: str,
    changes: Sequence[_Change],
    sums: _Sums,
) -> None:
    columns, rows_each = tensor.dims[0], tensor.dims[1]
    row_bytes = len(data) * columns // tensor.num_elements
    step = max(1, CHUNK_BYTES // (4 * columns))
    for expert in range(tensor.num_elements // (columns * rows_each)):
        for start in range(0, rows_each, step):
            end = min(start + step, rows_each)
            first = expert * rows_each
            part = data[(first + start) * row_bytes : (first + end) * row_bytes]
            rows = _decoded(part, tensor.type).reshape(-1, columns)
            change = sum(each.b[expert, start:end] @ each.a[expert] for each in changes)
            exact = rows + change
            written = _encoded(exact, type)
            file.write(written.tobytes())
            error = _decoded(written.view(np.uint8).reshape(-1), type).reshape(exact.shape) - exact
            for name, values in (("matrix", rows), ("change", change), ("error", error)):
                setattr(sums, name, getattr(sums, name) + float(np.square(values, dtype=np.float64).sum()))


def _entry(tensor: TensorInfo, offset: int) -> bytes:
    name = tensor.name.encode()
    dims = struct.pack(f"<I{len(tensor.dims)}Q", len(tensor.dims), *tensor.dims)
    return struct.pack("<Q", len(name)) + name + dims + struct.pack("<IQ", _NUMBERS[tensor.type], offset)


def _table_of(raw: npt.NDArray[np.uint8], header: Header) -> tuple[int, int]:
    """Where the table of tensors begins and ends: right before the padding of the data."""
    table = b"".join(_entry(tensor, tensor.offset) for tensor in header.tensors)
    least = max(0, header.data_start - header.alignment - len(table))
    found = raw[least : header.data_start].tobytes().find(table)
    if found < 0:
        raise InvalidModelFile(f"{header.path.name}: its table of tensors was not found", path=str(header.path))
    return least + found, least + found + len(table)


def _padded(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment
